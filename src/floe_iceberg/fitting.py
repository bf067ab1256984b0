"""Rows brought into the shape of a table's schema: its columns, their order, types and field ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import ListType, MapType, NestedField, StructType

from floe_core.errors import InvalidDataError
from floe_iceberg.arrow_types import cast_column, with_field_id

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType


def arrow_type(iceberg_type: IcebergType, like: pa.DataType | None = None) -> pa.DataType:
    """Return the Arrow type of a column, with field ids inside; large where the data already is."""
    if isinstance(iceberg_type, StructType):
        parts = {field.name: field.type for field in like} if isinstance(like, pa.StructType) else {}
        return pa.struct([arrow_field(field, parts.get(field.name)) for field in iceberg_type.fields])
    if isinstance(iceberg_type, MapType):
        key, item = (like.key_type, like.item_type) if isinstance(like, pa.MapType) else (None, None)
        return pa.map_(arrow_field(iceberg_type.key_field, key), arrow_field(iceberg_type.value_field, item))
    if isinstance(iceberg_type, ListType):
        large = isinstance(like, pa.LargeListType)
        element = arrow_field(iceberg_type.element_field, getattr(like, "value_type", None))
        return pa.large_list(element) if large else pa.list_(element)
    plain = _plain(iceberg_type)
    if like is not None and pa.types.is_large_string(plain) and not pa.types.is_large_string(like):
        return pa.string()
    if like is not None and pa.types.is_large_binary(plain) and not pa.types.is_large_binary(like):
        return pa.binary()
    return plain


def _plain(iceberg_type: IcebergType) -> pa.DataType:
    return schema_to_pyarrow(Schema(NestedField(1, "c", iceberg_type)), include_field_ids=False).field(0).type


def arrow_field(field: NestedField, like: pa.DataType | None = None) -> pa.Field:
    """Return the Arrow field of an Iceberg field, its id attached."""
    return with_field_id(pa.field(field.name, arrow_type(field.field_type, like), field.optional), field.field_id)


def fit(rows: pa.Table, schema: Schema) -> pa.Table:
    """Return the rows with the schema's columns in its order; absent optional columns become null.

    Raises:
        InvalidDataError: A value does not fit, or a required column holds null.
    """
    columns, fields = [], []
    for field, stored in zip(schema.fields, sanitize_column_names(schema).fields, strict=True):
        index = rows.schema.get_field_index(field.name)
        values = rows.column(index) if index >= 0 else None
        target = arrow_field(stored, values.type if values is not None else None)
        columns.append(_column(values, field, target.type, rows.num_rows))
        fields.append(target)
    return pa.table(columns, schema=pa.schema(fields))


def _column(values: pa.ChunkedArray | None, field: NestedField, target: pa.DataType, rows: int) -> pa.ChunkedArray:
    if values is None:
        values = pa.chunked_array([pa.nulls(rows, target)])
    elif _same_fields(values.type, target):
        values = cast_column(values, target, field.name)
    else:
        values = pa.chunked_array([_shaped(chunk, target, field.name) for chunk in values.chunks], target)
    if field.required and values.null_count:
        msg = f"Column '{field.name}' is required and holds {values.null_count} nulls."
        raise InvalidDataError(msg, hint="Fill them in, or make the column optional first.")
    return values


def _same_fields(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether structs on both sides have the same fields in the same order, so that Arrow can cast as a whole."""
    if isinstance(source, pa.StructType) and isinstance(target, pa.StructType):
        names = [field.name for field in source] == [field.name for field in target]
        return names and all(_same_fields(a.type, b.type) for a, b in zip(source, target, strict=True))
    if isinstance(source, pa.MapType) and isinstance(target, pa.MapType):
        return _same_fields(source.key_type, target.key_type) and _same_fields(source.item_type, target.item_type)
    if isinstance(target, pa.ListType | pa.LargeListType) and hasattr(source, "value_type"):
        return _same_fields(source.value_type, target.value_type)
    return True


def _shaped(values: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """Rebuild nested values field by field; fields the data lacks become null."""
    if isinstance(target, pa.StructType):
        parts = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
        children = [
            _shaped(parts[field.name], field.type, f"{column}.{field.name}")
            if field.name in parts
            else pa.nulls(len(values), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())
    if isinstance(target, pa.MapType | pa.ListType | pa.LargeListType):
        return _shaped_items(values, target, column)
    return cast_column(pa.chunked_array([values]), target, column).combine_chunks()


def _shaped_items(values: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    if not isinstance(target, pa.MapType) and not isinstance(values.type, pa.ListType | pa.LargeListType):
        plain = pa.large_list if isinstance(target, pa.LargeListType) else pa.list_
        values = values.cast(plain(values.type.value_field))
    # A slice keeps the offsets of the whole, which cannot be combined with a null mask.
    values = pa.concat_arrays([values]) if values.offset == 0 else pa.concat_arrays([values, values.slice(0, 0)])
    mask = values.is_null() if values.null_count else None
    if isinstance(target, pa.MapType):
        keys = _shaped(values.keys, target.key_type, f"{column}.key")
        items = _shaped(values.items, target.item_type, f"{column}.value")
        return pa.MapArray.from_arrays(values.offsets, keys, items, type=target, mask=mask)
    elements = _shaped(values.values, target.value_type, f"{column}.element")
    kind = pa.LargeListArray if isinstance(target, pa.LargeListType) else pa.ListArray
    return kind.from_arrays(values.offsets, elements, type=target, mask=mask)
