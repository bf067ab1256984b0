"""Updates of table properties that name columns, after a column is renamed or dropped."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.schema import index_by_id
from pyiceberg.table.name_mapping import parse_mapping_from_json, update_mapping
from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate
from pyiceberg.types import ListType, MapType, StructType

from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, keys_text, parse_keys

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyiceberg.schema import Schema
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.types import IcebergType, NestedField

NAME_MAPPING = "schema.name-mapping.default"

# Prefixes of properties that end with a column name.
_COLUMN_PREFIXES = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.bloom-filter-ndv.column.",
    "write.parquet.stats-enabled.column.",
)
# The id that PyIceberg uses for the schema's root.
_ROOT = -1


@dataclass(frozen=True)
class PropertyChanges:
    """Property changes that a schema change requires.

    Attributes:
        updates: Properties with new values.
        removals: Properties of dropped or renamed columns.
    """

    updates: dict[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()

    def table_updates(self) -> tuple[TableUpdate, ...]:
        """Return the updates for a commit."""
        updates: tuple[TableUpdate, ...] = (SetPropertiesUpdate(updates=self.updates),) if self.updates else ()
        return (*updates, RemovePropertiesUpdate(removals=list(self.removals))) if self.removals else updates


def property_changes(before: Schema, after: Schema, properties: Mapping[str, str]) -> PropertyChanges:
    """Return the property changes that a schema change requires."""
    updates: dict[str, str] = {}
    removals = []
    if text := properties.get(KEYS_PROPERTY):
        keys = parse_keys(text)
        renamed = tuple(renamed_column(key, before, after) or key for key in keys)
        if renamed != keys:
            updates[KEYS_PROPERTY] = keys_text(renamed)
    elif before.identifier_field_ids and not after.identifier_field_ids:
        # A nullable key cannot be an identifier field, so it is recorded in the property.
        kept = (after.find_column_name(number) for number in before.identifier_field_ids)
        updates[KEYS_PROPERTY] = keys_text(sorted(name for name in kept if name is not None))
    for name, value in properties.items():
        prefix = next((prefix for prefix in _COLUMN_PREFIXES if name.startswith(prefix)), None)
        if prefix is None or (column := name.removeprefix(prefix)) not in before.column_names:
            continue
        now = renamed_column(column, before, after)
        if now != column:
            removals.append(name)
            if now is not None:
                updates[prefix + now] = value
    return PropertyChanges(updates, tuple(removals))


def renamed_column(column: str, before: Schema, after: Schema) -> str | None:
    """Return a column's name after a schema change; None if it was dropped or never existed."""
    return after.find_column_name(before.find_field(column).field_id) if column in before.column_names else None


def updated_name_mapping(before: Schema, after: Schema, mapping: str) -> str:
    """Return a table's name mapping after a schema change.

    Files without field ids, written outside of Iceberg, are read through it; it keeps old names and adds new ones.
    """
    known = index_by_id(before)
    changed = {
        number: now for number, now in index_by_id(after).items() if number in known and known[number].name != now.name
    }
    added: dict[int, list[NestedField]] = {}
    for parent, new in _added(after.as_struct(), _ROOT, set(known)):
        added.setdefault(parent, []).append(new)
    return update_mapping(parse_mapping_from_json(mapping), changed, added).model_dump_json()


def _added(kind: IcebergType, parent: int, known: set[int]) -> Iterator[tuple[int, NestedField]]:
    """Yield the new fields, each with the id of its parent."""
    if isinstance(kind, StructType):
        for field_ in kind.fields:
            if field_.field_id not in known:
                yield parent, field_
            else:
                yield from _added(field_.field_type, field_.field_id, known)
    elif isinstance(kind, ListType):
        yield from _added(kind.element_type, kind.element_id, known)
    elif isinstance(kind, MapType):
        yield from _added(kind.key_type, kind.key_id, known)
        yield from _added(kind.value_type, kind.value_id, known)
