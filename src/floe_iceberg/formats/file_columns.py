"""Maps the columns of a data file to the columns of the table.

A file that was added in place, by Spark's ``add_files`` or ``migrate`` or by PyIceberg's ``add_files``, has no field
ids; the table's property ``schema.name-mapping.default`` maps names to ids. A column without an id that is not in the
mapping does not belong to the table and is ignored. PyIceberg fails on a file with such a column, and treats a file
with a single missing id as a file without ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import (
    ORC_FIELD_ID_KEY,
    PYARROW_PARQUET_FIELD_ID_KEY,
    UnsupportedPyArrowTypeException,
    pyarrow_to_schema,
)

from floe_core.errors import CapabilityError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.name_mapping import MappedField

NAME_MAPPING = "schema.name-mapping.default"


@dataclass(frozen=True)
class FileColumns:
    """The columns of one data file.

    Attributes:
        schema: The file's columns with their field ids; columns that do not belong to the table are omitted.
        mapped: Whether the ids come from the table's name mapping.
    """

    schema: Schema
    mapped: bool = False


def file_columns(physical: pa.Schema, metadata: TableMetadata, *, downcast: bool, path: str) -> FileColumns:
    """Match the columns of a data file by field id, or by the table's name mapping if the file has no ids.

    Args:
        physical: The file's Arrow schema.
        metadata: The table's metadata.
        downcast: Whether to convert nanoseconds to microseconds.
        path: The file, for error messages.

    Raises:
        CapabilityError: The file has no ids and the table no mapping, or floe does not support a column's type.
    """
    mapped = False
    if not all(_have_ids(physical)):
        mapped = not any(_have_ids(physical))
        columns = _Columns(path)
        physical = pa.schema(columns.by_name(physical, _mapping(metadata, path)) if mapped else columns.by_id(physical))
    try:
        schema = pyarrow_to_schema(
            physical, downcast_ns_timestamp_to_us=downcast, format_version=metadata.format_version
        )
    except (TypeError, ValueError, UnsupportedPyArrowTypeException) as err:
        msg = f"Data file '{path}' has a column of a type that only Spark can read: {err}"
        raise CapabilityError(msg, hint="Pass engine='spark', or read the table as a frame.") from err
    return FileColumns(schema, mapped)


def _mapping(metadata: TableMetadata, path: str) -> list[MappedField]:
    try:
        mapping = metadata.name_mapping()
    except ValueError as err:
        msg = f"Data file '{path}' has no field ids, and the table's property {NAME_MAPPING} is invalid."
        raise CapabilityError(msg, hint="Correct the property.") from err
    if mapping is None:
        msg = f"Data file '{path}' has no field ids, and the table has no name mapping."
        hint = f"Set the table property {NAME_MAPPING}, or pass engine='spark', which matches columns by position."
        raise CapabilityError(msg, hint=hint)
    return mapping.root


def _have_ids(fields: Iterable[pa.Field]) -> Iterator[bool]:
    for field in fields:
        yield _has_id(field)
        yield from _have_ids(_children(field.type))


def _has_id(field: pa.Field) -> bool:
    known = field.metadata or {}
    return bool(known.get(PYARROW_PARQUET_FIELD_ID_KEY) or known.get(ORC_FIELD_ID_KEY))


def _children(kind: pa.DataType) -> list[pa.Field]:
    if isinstance(kind, pa.StructType):
        return list(kind)
    if isinstance(kind, pa.MapType):
        return [kind.key_field, kind.item_field]
    if isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType):
        return [kind.value_field]
    return []


def _rebuilt(kind: pa.DataType, children: list[pa.Field]) -> pa.DataType:
    if isinstance(kind, pa.StructType):
        return pa.struct(children)
    if isinstance(kind, pa.MapType):
        return pa.map_(*children)
    return pa.list_(*children) if children else kind


@dataclass(frozen=True)
class _Columns:
    """Filters the columns of one file to those of the table, each with its id."""

    path: str

    def by_id(self, fields: Iterable[pa.Field], parent: str = "") -> list[pa.Field]:
        found = []
        for field in fields:
            name, kind = f"{parent}{field.name}", field.type
            if not _has_id(field):
                continue
            children = self.by_id(_children(kind), f"{name}.")
            if not isinstance(kind, pa.StructType) and len(children) < len(_children(kind)):
                raise self._incomplete(name)
            found.append(field.with_type(_rebuilt(kind, children)))
        return found

    def by_name(self, fields: Iterable[pa.Field], mapping: Iterable[MappedField], parent: str = "") -> list[pa.Field]:
        known = {name: entry for entry in mapping for name in entry.names}
        found = []
        for field in fields:
            entry = known.get(field.name)
            if entry is None or entry.field_id is None:
                continue
            name, kind = f"{parent}{field.name}", field.type
            children = self.by_name(_with_standard_names(kind), entry.fields, f"{name}.")
            if not isinstance(kind, pa.StructType) and len(children) < len(_children(kind)):
                raise self._incomplete(name)
            number = {PYARROW_PARQUET_FIELD_ID_KEY: str(entry.field_id).encode()}
            found.append(field.with_type(_rebuilt(kind, children)).with_metadata(number))
        return found

    def _incomplete(self, column: str) -> CapabilityError:
        msg = f"Column '{column}' of data file '{self.path}' has no field ids for its elements, keys or values."
        return CapabilityError(msg, hint=f"Complete the table property {NAME_MAPPING}, or pass engine='spark'.")


def _with_standard_names(kind: pa.DataType) -> list[pa.Field]:
    """Return a type's children with the standard names of name mappings instead of the writer's names."""
    children = _children(kind)
    if isinstance(kind, pa.MapType):
        return [field.with_name(name) for field, name in zip(children, ("key", "value"), strict=True)]
    return children if isinstance(kind, pa.StructType) else [field.with_name("element") for field in children]
