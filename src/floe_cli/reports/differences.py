"""Differences between tables and floe.yaml, as plan and apply show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_cli.output import grid
from floe_core.declaration.drift import DriftKind, DriftRemedy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from floe_core.declaration.drift import DriftItem

_WHAT = {
    DriftKind.TABLE: "create table",
    DriftKind.MISSING_COLUMN: "add column",
    DriftKind.EXTRA_COLUMN: "drop column",
    DriftKind.RENAME: "rename column",
    DriftKind.TYPE: "type",
    DriftKind.NULLABILITY: "null",
    DriftKind.DOC: "comment",
    DriftKind.COLUMN_ORDER: "order of columns",
    DriftKind.PARTITIONING: "partitioning",
    DriftKind.SORT_ORDER: "sort order",
    DriftKind.KEYS: "keys",
    DriftKind.PROPERTY: "property",
    DriftKind.LOCATION: "location",
}


def difference_grid(found: Iterable[tuple[str, DriftItem, str]]) -> RenderableType:
    """Show differences as a table: what the table has, what it should have, and what happens."""
    rows = [
        (table, _WHAT[item.kind], item.path, item.actual or "", item.declared or "", effect)
        for table, item, effect in found
    ]
    return grid(["TABLE", "CHANGE", "WHERE", "NOW", "DECLARED", ""], rows)


def way_out_lines(found: Sequence[tuple[str, DriftItem]]) -> list[str]:
    """Tell the way out of each difference, one per line."""
    return [f"{table}: {_WHAT[item.kind]} {item.path}: {item.fix}" for table, item in found]


def effect_of(item: DriftItem, *, drop_columns: bool = False) -> str:
    """Say in a word or two what ``floe apply`` does about a difference."""
    if item.remedy is DriftRemedy.NONE:
        return "cannot be done"
    if item.remedy is DriftRemedy.FLAG and not drop_columns:
        return "stays without --drop-columns"
    return "asks first" if item.destructive else ""


def item_data(item: DriftItem) -> dict[str, Any]:
    """Return a difference for machines."""
    return item.model_dump(mode="json")
