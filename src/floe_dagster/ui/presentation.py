"""Asset group, description and kind in Dagster's UI, derived from the table and floe.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import AssetSpec

    from floe_core.schemas import TableConfig

_NO_GROUP = "default"
_KIND = "iceberg"
# Dagster allows at most three kinds per asset.
_MAX_KINDS = 3


def presented(spec: AssetSpec, table: str, declared: TableConfig | None) -> AssetSpec:
    """Fill in an asset's group, description and kind where the asset does not set them.

    Args:
        spec: The asset.
        table: Its table, as ``namespace.table``.
        declared: The table's declaration in floe.yaml.
    """
    if spec.group_name in {None, _NO_GROUP}:
        namespace = table.rpartition(".")[0]
        spec = spec.replace_attributes(group_name=re.sub(r"\W", "_", namespace))
    if not spec.description and declared is not None and declared.description:
        spec = spec.replace_attributes(description=declared.description)
    if _KIND not in spec.kinds and len(spec.kinds) < _MAX_KINDS:
        spec = spec.merge_attributes(kinds={_KIND})
    return spec
