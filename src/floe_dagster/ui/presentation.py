"""How assets look in Dagster's UI: in the group of their namespace, as Iceberg tables, with what floe.yaml says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import AssetSpec

    from floe_core.schemas import TableConfig

_NO_GROUP = "default"
_KIND = "iceberg"
# Dagster shows three kinds, and refuses more.
_MOST_KINDS = 3


def presented(spec: AssetSpec, table: str, declared: TableConfig | None) -> AssetSpec:
    """Describe an asset's table where the asset itself says nothing.

    Args:
        spec: The asset.
        table: Its table, as ``namespace.table``.
        declared: What floe.yaml says about the table.
    """
    if spec.group_name in {None, _NO_GROUP}:
        namespace = table.rpartition(".")[0]
        spec = spec.replace_attributes(group_name=re.sub(r"\W", "_", namespace))
    if not spec.description and declared is not None and declared.description:
        spec = spec.replace_attributes(description=declared.description)
    if _KIND not in spec.kinds and len(spec.kinds) < _MOST_KINDS:
        spec = spec.merge_attributes(kinds={_KIND})
    return spec
