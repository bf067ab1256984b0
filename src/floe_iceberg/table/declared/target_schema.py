"""Computes the schema that a declaration requires: the table's columns with their ids, changed as declared."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from floe_iceberg.table.schema import declared_schema, widens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyiceberg.table.metadata import TableMetadata

    from floe_core.schemas import ColumnConfig


def pending_renames(schema: Schema, columns: Sequence[ColumnConfig]) -> dict[str, str]:
    """Return the declared renames that are not applied yet, as new name to current name."""
    present = {column.name for column in schema.fields}
    return {
        column.name: column.renamed_from
        for column in columns
        if column.renamed_from in present and column.name not in present and column.renamed_from is not None
    }


def target_schema(metadata: TableMetadata, columns: Sequence[ColumnConfig], *, drop_columns: bool = False) -> Schema:
    """Return the schema that a table should have.

    Columns keep their ids, also under a new name. A type that cannot be widened to the declared one stays unchanged,
    because existing rows would be unreadable. Undeclared columns stay unless ``drop_columns`` is set.

    Args:
        metadata: The table's metadata.
        columns: The declared columns; if empty, the schema stays unchanged.
        drop_columns: Whether undeclared columns are dropped.
    """
    schema = metadata.schema()
    if not columns:
        return schema
    merge = _Merge(
        new_id=itertools.count(metadata.last_column_id + 1).__next__,
        drop=drop_columns,
        renames=pending_renames(schema, columns),
    )
    fields = merge.struct(declared_schema(columns).as_struct(), schema.as_struct(), top=True).fields
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=_identifiers(schema, fields))


def _identifiers(before: Schema, fields: Sequence[NestedField]) -> list[int]:
    """Return the identifier fields if all of them still exist and are required, else none."""
    never_null = set(_never_null(StructType(*fields)))
    kept = [number for number in before.identifier_field_ids if number in never_null]
    return sorted(kept) if len(kept) == len(before.identifier_field_ids) else []


def _never_null(kind: IcebergType) -> Iterator[int]:
    """Yield the ids of the fields that are never null: they and all their parents are required."""
    match kind:
        case StructType():
            fields = kind.fields
        case ListType():
            fields = (kind.element_field,)
        case MapType():
            fields = (kind.key_field, kind.value_field)
        case _:
            return
    for inner in fields:
        if inner.required:
            yield inner.field_id
            yield from _never_null(inner.field_type)


@dataclass(frozen=True)
class _Merge:
    """Merges declared types into the types of a table.

    Attributes:
        new_id: Returns the id of a new field.
        drop: Whether undeclared fields are dropped.
        renames: New names of top-level columns mapped to their current names.
    """

    new_id: Callable[[], int]
    drop: bool
    renames: Mapping[str, str] = field(default_factory=dict)

    def struct(self, wanted: StructType, actual: StructType, *, top: bool = False) -> StructType:
        existing = {column.name: column for column in actual.fields}
        current_names = self.renames if top else {}
        pairs = [(column, existing.get(current_names.get(column.name, column.name))) for column in wanted.fields]
        merged = [self._field(column, found) for column, found in pairs]
        matched = [found.field_id for _, found in pairs if found is not None]
        extra = [] if self.drop else [column for column in actual.fields if column.field_id not in matched]
        if top and matched != [column.field_id for column in actual.fields if column.field_id in set(matched)]:
            return StructType(*merged, *extra)
        by_id = {column.field_id: column for column in merged}
        kept = {column.field_id for column in extra} | set(matched)
        result = [by_id.get(column.field_id, column) for column in actual.fields if column.field_id in kept]
        for position, column in enumerate(merged):
            if column.field_id not in kept:
                # A new column follows the column that precedes it in the declaration.
                result.insert(result.index(merged[position - 1]) + 1 if position else 0, column)
        return StructType(*result)

    def _field(self, wanted: NestedField, actual: NestedField | None) -> NestedField:
        if actual is None:
            return self._new_field(wanted)
        return actual.model_copy(
            update={
                "name": wanted.name,
                "field_type": self._type(wanted.field_type, actual.field_type),
                "required": wanted.required,
                "doc": actual.doc if wanted.doc is None or wanted.doc == (actual.doc or "") else wanted.doc or None,
            }
        )

    def _type(self, wanted: IcebergType, actual: IcebergType) -> IcebergType:
        match wanted, actual:
            case StructType(), StructType():
                return self.struct(wanted, actual)
            case ListType(), ListType():
                element = self._type(wanted.element_type, actual.element_type)
                return ListType(actual.element_id, element, element_required=wanted.element_required)
            case MapType(), MapType():
                return MapType(
                    key_id=actual.key_id,
                    # The key type of a map never changes.
                    key_type=actual.key_type,
                    value_id=actual.value_id,
                    value_type=self._type(wanted.value_type, actual.value_type),
                    value_required=wanted.value_required,
                )
            case _ if wanted == actual:
                return actual
            case _:
                return wanted if widens(actual, wanted) else actual

    def _new_field(self, wanted: NestedField) -> NestedField:
        number = self.new_id()
        kind = self._new_type(wanted.field_type)
        return wanted.model_copy(update={"field_id": number, "field_type": kind, "doc": wanted.doc or None})

    def _new_type(self, wanted: IcebergType) -> IcebergType:
        match wanted:
            case StructType():
                return StructType(*[self._new_field(column) for column in wanted.fields])
            case ListType():
                number = self.new_id()
                return ListType(number, self._new_type(wanted.element_type), element_required=wanted.element_required)
            case MapType():
                key, value = self.new_id(), self.new_id()
                return MapType(
                    key_id=key,
                    key_type=self._new_type(wanted.key_type),
                    value_id=value,
                    value_type=self._new_type(wanted.value_type),
                    value_required=wanted.value_required,
                )
            case _:
                return wanted
