"""Compares declared columns with the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.types import ListType, MapType, StructType

from floe_core.declaration.drift import DriftItem, DriftKind, DriftRemedy, DriftSeverity
from floe_iceberg.table.declared.target_schema import pending_renames
from floe_iceberg.table.schema import declared_schema, may_contain_nulls, widens
from floe_iceberg.table.types import type_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType, NestedField

    from floe_core.schemas import ColumnConfig

_BY_APPLY = "floe apply or the next run {}."


def column_differences(table: Table, columns: Sequence[ColumnConfig]) -> Iterator[DriftItem]:
    """Yield the differences between a table's columns and the declared ones; none if no columns are declared."""
    if columns:
        yield from _Columns(table, columns).differences()


@dataclass(frozen=True)
class _Columns:
    table: Table
    columns: Sequence[ColumnConfig]

    @cached_property
    def _renames(self) -> dict[str, str]:
        return pending_renames(self.table.schema(), self.columns)

    @cached_property
    def _written(self) -> bool:
        """Whether the table may have rows."""
        return bool(self.table.metadata.snapshots)

    @cached_property
    def _former(self) -> dict[str, str]:
        """Former column names mapped to the declared names."""
        return {column.renamed_from: column.name for column in self.columns if column.renamed_from is not None}

    def differences(self) -> Iterator[DriftItem]:
        wanted, actual = declared_schema(self.columns), self.table.schema()
        for new, old in self._renames.items():
            item = _rename(old, new, "Run floe apply to rename it; until then, runs fail before they write.")
            yield item.model_copy(update={"remedy": DriftRemedy.APPLY})
        yield from self._nested_renames()
        yield from self._struct(wanted.as_struct(), actual.as_struct(), "")
        current_names = [self._renames.get(column.name, column.name) for column in wanted.fields]
        existing = [column.name for column in actual.fields]
        declared, found = [n for n in current_names if n in existing], [n for n in existing if n in current_names]
        if declared != found:
            yield DriftItem(
                kind=DriftKind.COLUMN_ORDER,
                path="columns",
                declared=", ".join(declared),
                actual=", ".join(found),
                severity=DriftSeverity.INFO,
                fix=_BY_APPLY.format("reorders them"),
                remedy=DriftRemedy.RUN,
            )

    def _nested_renames(self) -> Iterator[DriftItem]:
        """Yield renames that would turn a struct field into a column, which is impossible."""
        schema = self.table.schema()
        existing = {column.name for column in schema.fields}
        for old, new in self._former.items():
            if old in schema.column_names and not {old, new} & existing:
                fix = "A struct field cannot become a column. Rename it within its struct with: "
                yield _rename(old, new, fix + "floe tables rename-column")

    def _struct(self, wanted: StructType, actual: StructType, prefix: str) -> Iterator[DriftItem]:
        existing = {column.name: column for column in actual.fields}
        current_names = {} if prefix else self._renames
        for column in wanted.fields:
            found = existing.pop(current_names.get(column.name, column.name), None)
            if found is None:
                yield self._missing(column, prefix + column.name)
            else:
                yield from self._field(column, found, prefix + column.name)
        for column in existing.values():
            yield self._extra(column, prefix)

    def _missing(self, column: NestedField, path: str) -> DriftItem:
        refused = column.required and self._written
        return DriftItem(
            kind=DriftKind.MISSING_COLUMN,
            path=path,
            declared=column_text(column),
            actual=None,
            severity=DriftSeverity.BREAKING if column.required else DriftSeverity.WARNING,
            fix="Existing rows have no value for it: declare it optional and fill it, then declare it required."
            if refused
            else _BY_APPLY.format("adds it"),
            remedy=DriftRemedy.NONE if refused else DriftRemedy.RUN,
        )

    def _extra(self, column: NestedField, prefix: str) -> DriftItem:
        fix = "Declare it in floe.yaml, or drop it with: floe apply --drop-columns"
        if not prefix and (new := self._former.get(column.name)):
            fix = f"The table also has '{new}': copy missing values to it, then drop this column with: "
            fix += "floe apply --drop-columns"
        return DriftItem(
            kind=DriftKind.EXTRA_COLUMN,
            path=prefix + column.name,
            declared=None,
            actual=column_text(column),
            severity=DriftSeverity.WARNING,
            fix=fix,
            remedy=DriftRemedy.FLAG,
        )

    def _field(self, wanted: NestedField, actual: NestedField, path: str) -> Iterator[DriftItem]:
        yield from self._type(wanted.field_type, actual.field_type, path)
        yield from self._nullability(path, actual.field_id, wanted=wanted.required, actual=actual.required)
        if wanted.doc is not None and (wanted.doc or None) != (actual.doc or None):
            yield DriftItem(
                kind=DriftKind.DOC,
                path=path,
                declared=repr(wanted.doc),
                actual=repr(actual.doc) if actual.doc else None,
                severity=DriftSeverity.INFO,
                fix=_BY_APPLY.format("changes it"),
                remedy=DriftRemedy.RUN,
            )

    def _type(self, wanted: IcebergType, actual: IcebergType, path: str) -> Iterator[DriftItem]:
        if isinstance(wanted, StructType) and isinstance(actual, StructType):
            yield from self._struct(wanted, actual, f"{path}.")
        elif isinstance(wanted, ListType) and isinstance(actual, ListType):
            yield from self._type(wanted.element_type, actual.element_type, f"{path}.element")
            required, found = wanted.element_required, actual.element_required
            yield from self._nullability(f"{path}.element", actual.element_id, wanted=required, actual=found)
        elif isinstance(wanted, MapType) and isinstance(actual, MapType):
            for item in self._type(wanted.key_type, actual.key_type, f"{path}.key"):
                yield item.model_copy(
                    update={
                        "remedy": DriftRemedy.NONE,
                        "severity": DriftSeverity.BREAKING,
                        "fix": "The key type of a map cannot change: correct it in floe.yaml, or declare a new column.",
                    }
                )
            yield from self._type(wanted.value_type, actual.value_type, f"{path}.value")
            required, found = wanted.value_required, actual.value_required
            yield from self._nullability(f"{path}.value", actual.value_id, wanted=required, actual=found)
        elif wanted != actual:
            yield self._other_type(wanted, actual, path)

    def _other_type(self, wanted: IcebergType, actual: IcebergType, path: str) -> DriftItem:
        wider = widens(actual, wanted)
        way_out = (
            "Its values cannot be read as the declared type: correct the type in floe.yaml, or declare a new column, "
            "copy the values, and drop this one."
            if self._written
            else "The table has no rows: drop it with floe tables drop, then recreate it with floe apply."
        )
        return DriftItem(
            kind=DriftKind.TYPE,
            path=path,
            declared=type_text(wanted),
            actual=type_text(actual),
            severity=DriftSeverity.WARNING if wider else DriftSeverity.BREAKING,
            fix=_BY_APPLY.format("widens it") if wider else way_out,
            remedy=DriftRemedy.RUN if wider else DriftRemedy.NONE,
        )

    def _nullability(self, path: str, field_id: int, *, wanted: bool, actual: bool) -> Iterator[DriftItem]:
        if wanted == actual:
            return
        refused = wanted and self._written and may_contain_nulls(self.table, field_id)
        yield DriftItem(
            kind=DriftKind.NULLABILITY,
            path=path,
            declared="required" if wanted else "optional",
            actual="required" if actual else "optional",
            severity=DriftSeverity.BREAKING if wanted else DriftSeverity.WARNING,
            fix="Existing rows may contain nulls: replace them and compact the table, or declare it optional."
            if refused
            else _BY_APPLY.format("makes it required" if wanted else "makes it optional"),
            remedy=DriftRemedy.NONE if refused else DriftRemedy.RUN,
        )


def column_text(column: NestedField) -> str:
    """Format a column's type and whether it is required."""
    return f"{type_text(column.field_type)}{' required' if column.required else ''}"


def _rename(old: str, new: str, fix: str) -> DriftItem:
    """Describe a column that is declared under another name; the caller sets the remedy."""
    return DriftItem(
        kind=DriftKind.RENAME, path=old, declared=new, actual=old, severity=DriftSeverity.BREAKING, fix=fix
    )
