"""Casts rows to a table's schema: its columns, their order, types and field ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.types import ListType, MapType, NestedField, StructType

from floe_core.errors import InvalidDataError
from floe_iceberg.formats.arrow_types import cast_column, with_children, with_field_id, without_list_views

if TYPE_CHECKING:
    from pyiceberg.types import IcebergType

_NULLS_HINT = "Fill them in, or make the column optional first."


def arrow_type(iceberg_type: IcebergType, like: pa.DataType | None = None) -> pa.DataType:
    """Return the Arrow type of a column with nested field ids; large types are kept where the data uses them."""
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
    """Return the Arrow field of an Iceberg field, including its id."""
    return with_field_id(pa.field(field.name, arrow_type(field.field_type, like), field.optional), field.field_id)


def fit(rows: pa.Table, schema: Schema, *, like: pa.Schema | None = None) -> pa.Table:
    """Return the rows with the schema's columns in its order; missing optional columns become null.

    Args:
        rows: The rows; columns are matched by name.
        schema: The table's schema.
        like: Arrow schema of previously fitted rows to which these rows will be added. It may use large or normal
            types, and Arrow only concatenates columns of equal type without losing field ids.

    Raises:
        InvalidDataError: A value does not fit, or a required column contains nulls.
    """
    columns, fields = [], []
    for position, field in enumerate(schema.fields):
        index = rows.schema.get_field_index(field.name)
        values = rows.column(index) if index >= 0 else None
        if like is not None:
            target = like.field(position)
        else:
            target = arrow_field(field, values.type if values is not None else None)
        columns.append(_column(values, field, target.type, rows.num_rows))
        fields.append(target)
    return pa.table(columns, schema=pa.schema(fields))


def stored_names(schema: Schema) -> Schema | None:
    """Return the schema with names that are valid in Avro, as used in data files; None if it is the same."""
    stored = sanitize_column_names(schema)
    return None if stored.as_struct() == schema.as_struct() else stored


def as_stored(rows: pa.Table, stored: Schema) -> pa.Table:
    """Rename the columns of fitted rows to the names used in data files."""
    fields = [_with_stored_name(rows.schema.field(i), field) for i, field in enumerate(stored.fields)]
    columns = [
        pa.chunked_array([_with_field_names(chunk, field.type) for chunk in rows.column(i).chunks], field.type)
        for i, field in enumerate(fields)
    ]
    return pa.table(columns, schema=pa.schema(fields))


def _with_stored_name(field: pa.Field, stored: NestedField) -> pa.Field:
    kind, dtype = stored.field_type, field.type
    if isinstance(kind, StructType):
        dtype = pa.struct([_with_stored_name(part, inner) for part, inner in zip(dtype, kind.fields, strict=True)])
    elif isinstance(kind, MapType):
        dtype = pa.map_(
            _with_stored_name(dtype.key_field, kind.key_field), _with_stored_name(dtype.item_field, kind.value_field)
        )
    elif isinstance(kind, ListType):
        plain = pa.large_list if isinstance(dtype, pa.LargeListType) else pa.list_
        dtype = plain(_with_stored_name(dtype.value_field, kind.element_field))
    return field.with_type(dtype).with_name(stored.name)


def _with_field_names(values: pa.Array, target: pa.DataType) -> pa.Array:
    if isinstance(target, pa.StructType):
        parts = [_with_field_names(values.field(i), field.type) for i, field in enumerate(target)]
        return pa.StructArray.from_arrays(parts, fields=list(target), mask=values.is_null())
    if isinstance(target, pa.MapType):
        parts = [_with_field_names(values.keys, target.key_type), _with_field_names(values.items, target.item_type)]
        entries = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
        return with_children(values, target, entries)
    if isinstance(target, pa.ListType | pa.LargeListType):
        return with_children(values, target, _with_field_names(values.values, target.value_type))
    return values


def _column(values: pa.ChunkedArray | None, field: NestedField, target: pa.DataType, rows: int) -> pa.ChunkedArray:
    if values is None:
        values = pa.chunked_array([pa.nulls(rows, target)])
    elif _same_fields(values.type, target):
        values = cast_column(values, target, field.name)
    else:
        chunks = without_list_views(values).chunks
        values = pa.chunked_array([_rebuilt(chunk, target, field.name) for chunk in chunks], target)
    if field.required and values.null_count:
        msg = f"Column '{field.name}' is required but contains {values.null_count} nulls."
        raise InvalidDataError(msg, hint=_NULLS_HINT)
    if isinstance(field.field_type, ListType | MapType | StructType) and _has_required_items(field.field_type):
        for chunk in values.chunks:
            _check_nested(chunk, field.field_type, field.name)
    return values


def _has_required_items(kind: IcebergType) -> bool:
    """Whether a nested list or map has required elements or values; structs are checked when they are cast."""
    if isinstance(kind, StructType):
        return any(_has_required_items(field.field_type) for field in kind.fields)
    if isinstance(kind, MapType):
        return kind.value_required or _has_required_items(kind.value_type)
    return isinstance(kind, ListType) and (kind.element_required or _has_required_items(kind.element_type))


def _check_nested(values: pa.Array, kind: IcebergType, column: str) -> None:
    if isinstance(kind, StructType):
        for part, field in zip(values.flatten(), kind.fields, strict=True):
            _check_nested(part, field.field_type, f"{column}.{field.name}")
        return
    if not isinstance(kind, ListType | MapType):
        return
    # Flattening removes values behind a null list or outside a slice.
    if isinstance(kind, MapType):
        values = with_children(values, pa.list_(values.type.item_field), values.items)
    items = values.flatten()
    field = kind.element_field if isinstance(kind, ListType) else kind.value_field
    if field.required and items.null_count:
        msg = f"Column '{column}.{field.name}' is required but contains {items.null_count} nulls."
        raise InvalidDataError(msg, hint=_NULLS_HINT)
    _check_nested(items, field.field_type, f"{column}.{field.name}")


def _same_fields(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether structs on both sides have the same fields in the same order, so Arrow can cast them directly."""
    if isinstance(source, pa.StructType) and isinstance(target, pa.StructType):
        names = [field.name for field in source] == [field.name for field in target]
        return names and all(_same_fields(a.type, b.type) for a, b in zip(source, target, strict=True))
    if isinstance(source, pa.MapType) and isinstance(target, pa.MapType):
        return _same_fields(source.key_type, target.key_type) and _same_fields(source.item_type, target.item_type)
    if isinstance(target, pa.ListType | pa.LargeListType) and hasattr(source, "value_type"):
        return _same_fields(source.value_type, target.value_type)
    return True


def _rebuilt(values: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    """Rebuild nested values field by field; missing fields become null."""
    if isinstance(target, pa.StructType):
        parts = dict(zip([field.name for field in values.type], values.flatten(), strict=True))
        children = [
            _rebuilt(parts[field.name], field.type, f"{column}.{field.name}")
            if field.name in parts
            else pa.nulls(len(values), field.type)
            for field in target
        ]
        return pa.StructArray.from_arrays(children, fields=list(target), mask=values.is_null())
    if isinstance(target, pa.MapType | pa.ListType | pa.LargeListType):
        return _rebuilt_items(values, target, column)
    return cast_column(pa.chunked_array([values]), target, column).combine_chunks()


def _rebuilt_items(values: pa.Array, target: pa.DataType, column: str) -> pa.Array:
    if isinstance(target, pa.MapType):
        keys = _rebuilt(values.keys, target.key_type, f"{column}.key")
        items = _rebuilt(values.items, target.item_type, f"{column}.value")
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return with_children(values, target, entries)
    large = isinstance(target, pa.LargeListType)
    if not isinstance(values.type, pa.LargeListType if large else pa.ListType):
        values = values.cast((pa.large_list if large else pa.list_)(values.type.value_field))
    return with_children(values, target, _rebuilt(values.values, target.value_type, f"{column}.element"))
