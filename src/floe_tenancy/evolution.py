"""Evolve tenants' tables to match their specification, without losing data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import ColumnMismatch, SchemaEvolutionError
from floe_iceberg import IcebergTableManager, SchemaChange
from floe_iceberg.models import SchemaChangeKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from floe_core.schemas import ColumnConfig


@dataclass(frozen=True, slots=True)
class EvolutionPlan:
    """The schema changes that ``apply`` would make to a table.

    Attributes:
        table: ``namespace.table``.
        changes: Changes in the order they are applied; empty if the table is up to date.
    """

    table: str
    changes: tuple[SchemaChange, ...]

    @property
    def in_step(self) -> bool:
        """Whether the table is up to date."""
        return not self.changes


class SchemaEvolutionManager:
    """Adds missing optional columns, and optionally renames and reorders columns. Rejects new required columns."""

    def __init__(self, catalog: Catalog | IcebergTableManager) -> None:
        """Use a connected catalog or a table manager."""
        self._manager = catalog if isinstance(catalog, IcebergTableManager) else IcebergTableManager(catalog)

    def plan(
        self,
        identifier: str | tuple[str, ...],
        columns: Sequence[ColumnConfig],
        *,
        renames: Mapping[str, str] | None = None,
        reorder: bool = False,
    ) -> EvolutionPlan:
        """Compare a table with the columns it should have.

        Args:
            identifier: The table.
            columns: Desired columns; other columns of the table are kept.
            renames: Current name to new name.
            reorder: Whether to reorder the columns as given.

        Raises:
            SchemaEvolutionError: A missing column is required, but existing rows have no value for it.
            TableNotFoundError: The table does not exist.
        """
        name = identifier if isinstance(identifier, str) else ".".join(identifier)
        schema = self._manager.load_table(name).schema()
        changes = [*_renames(schema, renames or {}), *_additions(name, schema, columns, renames or {})]
        if reorder:
            changes += _order(schema, columns, renames or {})
        if changes:
            self._manager.plan_evolution(name, changes)
        return EvolutionPlan(table=name, changes=tuple(changes))

    def apply(self, plan: EvolutionPlan) -> Table:
        """Apply the planned changes in one commit and return the updated table.

        Raises:
            SchemaEvolutionError: The table has changed and the plan no longer applies.
        """
        if plan.changes:
            self._manager.evolve_schema(plan.table, plan.changes)
        return self._manager.load_table(plan.table)

    def evolve(self, identifier: str | tuple[str, ...], columns: Sequence[ColumnConfig]) -> Table:
        """Plan and apply in one call."""
        return self.apply(self.plan(identifier, columns))


def _names(schema: Schema) -> list[str]:
    return [field.name for field in schema.fields]


def _renames(schema: Schema, renames: Mapping[str, str]) -> list[SchemaChange]:
    present = _names(schema)
    return [
        SchemaChange(kind=SchemaChangeKind.RENAME, column=old, new_name=new)
        for old, new in renames.items()
        # Skip renames that an earlier run applied.
        if not (old not in present and new in present)
    ]


def _additions(
    name: str, schema: Schema, columns: Sequence[ColumnConfig], renames: Mapping[str, str]
) -> list[SchemaChange]:
    present = {*_names(schema), *renames.values()}
    missing = [column for column in columns if column.name not in present]
    refused = [
        ColumnMismatch(column.name, None, column.type, "required, but existing rows have no value for it")
        for column in missing
        if column.required
    ]
    if refused:
        msg = f"Cannot add required columns to table '{name}'."
        hint = "Add them as optional columns, backfill them, then make them required."
        raise SchemaEvolutionError(msg, mismatches=refused, hint=hint, table=name)
    return [
        SchemaChange(kind=SchemaChangeKind.ADD, column=column.name, type=column.type, doc=column.doc)
        for column in missing
    ]


def _order(schema: Schema, columns: Sequence[ColumnConfig], renames: Mapping[str, str]) -> list[SchemaChange]:
    after_renames = [renames.get(name, name) for name in _names(schema)]
    wanted = [column.name for column in columns]
    rest = [name for name in after_renames if name not in wanted]
    if after_renames == wanted + rest:
        return []
    # Within one schema update, PyIceberg refers to columns by their names before the update.
    before_renames = {new: old for old, new in renames.items() if old in _names(schema)}
    current_names = [before_renames.get(name, name) for name in wanted]
    return [
        SchemaChange(kind=SchemaChangeKind.REORDER, column=name, after=before)
        for name, before in zip(current_names, [None, *current_names], strict=False)
    ]
