"""Differences between tables and floe.yaml, for plan and apply."""

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
    DriftKind.COLUMN_ORDER: "column order",
    DriftKind.PARTITIONING: "partitioning",
    DriftKind.SORT_ORDER: "sort order",
    DriftKind.KEYS: "keys",
    DriftKind.PROPERTY: "property",
    DriftKind.LOCATION: "location",
}


def difference_grid(found: Iterable[tuple[str, DriftItem, str]]) -> RenderableType:
    """Render differences as a table: actual state, declared state and effect."""
    rows = [
        (table, _WHAT[item.kind], item.path, item.actual or "", item.declared or "", effect)
        for table, item, effect in found
    ]
    return grid(["TABLE", "CHANGE", "WHERE", "NOW", "DECLARED", ""], rows)


def fix_lines(found: Sequence[tuple[str, DriftItem]]) -> list[str]:
    """Return the fix for each difference, one per line."""
    return [f"{table}: {_WHAT[item.kind]} {item.path}: {item.fix}" for table, item in found]


def effect_of(item: DriftItem, *, drop_columns: bool = False) -> str:
    """Describe in a few words what ``floe apply`` does about a difference."""
    if item.remedy is DriftRemedy.NONE:
        return "not possible"
    if item.remedy is DriftRemedy.FLAG and not drop_columns:
        return "kept without --drop-columns"
    return "needs confirmation" if item.destructive else ""


def item_data(item: DriftItem) -> dict[str, Any]:
    """Return a difference as JSON data."""
    return item.model_dump(mode="json")
