"""Converts data frames to Arrow data with types that Iceberg supports.

==========================  =======================================================================================
input type                  result type
==========================  =======================================================================================
string_view, binary_view    string, binary
dictionary, run-end encoded the type of the values
int8, int16, uint8, uint16  int32
uint32                      int64
uint64                      decimal(20, 0); int64 with overflow check if the table's column is a long
float16                     float32
date64                      date32
time32, time64[ns]          time64[us]; an error if digits would be lost
timestamp[s, ms, ns]        timestamp[us]; an error if digits would be lost; time zones become UTC
decimal32, 64, 256          decimal128; an error for more than 38 digits
fixed_size_list, list views list
null                        the type of the table's column
duration, interval, union   an error: Iceberg has no such type
==========================  =======================================================================================
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from floe_core.errors import FloeStorageError, InvalidDataError, WriteError
from floe_core.failed_writes import is_of_library
from floe_core.observing.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_UINT64_DECIMAL = pa.decimal128(20, 0)
_MAX_DIGITS = 38
_FIELD_ID = b"PARQUET:field_id"
_DOC = b"doc"

_SIMPLE: dict[int, pa.DataType] = {
    pa.lib.Type_STRING_VIEW: pa.string(),
    pa.lib.Type_BINARY_VIEW: pa.binary(),
    pa.lib.Type_INT8: pa.int32(),
    pa.lib.Type_INT16: pa.int32(),
    pa.lib.Type_UINT8: pa.int32(),
    pa.lib.Type_UINT16: pa.int32(),
    pa.lib.Type_UINT32: pa.int64(),
    pa.lib.Type_UINT64: _UINT64_DECIMAL,
    pa.lib.Type_HALF_FLOAT: pa.float32(),
    pa.lib.Type_DATE64: pa.date32(),
    pa.lib.Type_TIME32: pa.time64("us"),
    pa.lib.Type_TIME64: pa.time64("us"),
}
_ICEBERG: dict[int, IcebergType] = {
    pa.lib.Type_BOOL: BooleanType(),
    pa.lib.Type_INT32: IntegerType(),
    pa.lib.Type_INT64: LongType(),
    pa.lib.Type_FLOAT: FloatType(),
    pa.lib.Type_DOUBLE: DoubleType(),
    pa.lib.Type_DATE32: DateType(),
    pa.lib.Type_TIME64: TimeType(),
    pa.lib.Type_STRING: StringType(),
    pa.lib.Type_LARGE_STRING: StringType(),
    pa.lib.Type_BINARY: BinaryType(),
    pa.lib.Type_LARGE_BINARY: BinaryType(),
}


_PLAIN_LIBRARIES = frozenset({"builtins", "pandas", "polars", "pyarrow"})


@runtime_checkable
class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...


def is_plain(data: object) -> bool:
    """Whether data certainly is not an engine's frame: a list of rows, or an object of PyArrow, pandas or Polars."""
    return isinstance(data, list) or type(data).__module__.partition(".")[0] in _PLAIN_LIBRARIES


def is_stream(data: object) -> bool:
    """Whether data supports the Arrow PyCapsule stream interface."""
    return isinstance(data, _ArrowStream)


def to_arrow(data: object) -> pa.Table | pa.RecordBatchReader:
    """Convert a supported data frame to an Arrow table or reader, without changing types.

    If the source of a stream fails while it is read, its error is raised unchanged, or as the cause of a ``WriteError``
    if it could be mistaken for an error of the table's storage or catalog.

    Raises:
        InvalidDataError: The data type is not supported, or column names are not unique.
    """
    frame = _as_arrow(data)
    if duplicates := sorted(_find_duplicates(list(frame.schema))):
        raise _duplicate_names(duplicates)
    if isinstance(frame, pa.RecordBatchReader):
        return pa.RecordBatchReader.from_batches(frame.schema, _read(frame))
    return frame


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    with _reading():
        yield from reader


@contextmanager
def _reading() -> Iterator[None]:
    """Prevent errors of the data source from being mistaken for errors of the table's storage or catalog."""
    try:
        yield
    except FloeStorageError:
        raise
    except Exception as err:
        if not isinstance(err, OSError) and not is_of_library(err):
            raise
        # Only the first line describes the error; the rest may be, for example, a SQL statement.
        reason = redact_text(str(err).strip().partition("\n")[0] or type(err).__name__)
        msg = f"Reading the data to write failed: {reason.rstrip('.')}."
        raise WriteError(msg, hint="Check the data source. The table was not changed.") from err


def _duplicate_names(names: list[str]) -> InvalidDataError:
    msg = f"The data has duplicate column names: {', '.join(names)}."
    return InvalidDataError(msg, hint="Rename one of them.")


def _find_duplicates(fields: list[pa.Field], prefix: str = "") -> set[str]:
    """Return the names shared by several columns, or by several fields of a struct."""
    names = [field.name for field in fields]
    found = {prefix + name for name in names if names.count(name) > 1}
    for field in fields:
        inner = [field.type.field(position) for position in range(field.type.num_fields)]
        if inner:
            found |= _find_duplicates(inner, f"{prefix}{field.name}.")
    return found


def _as_arrow(data: object) -> pa.Table | pa.RecordBatchReader:
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, list) and all(isinstance(row, dict) for row in data):
        return _from_rows(data)
    frame = _from_library(data)
    if frame is not None:
        return frame
    msg = f"floe cannot write data of type {type(data).__name__}."
    hint = "Pass a PyArrow table or reader, a pandas, Polars or PySpark DataFrame, or a list of dicts."
    raise InvalidDataError(msg, hint=hint)


def _from_rows(rows: list[dict[str, Any]]) -> pa.Table:
    # PyArrow's conversion only uses the columns of the first row and drops others.
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.table({name: pa.array([row.get(name) for row in rows]) for name in names})
    except (pa.ArrowInvalid, pa.ArrowTypeError) as err:
        msg = f"Cannot convert the rows to Arrow: {err}"
        raise InvalidDataError(msg, hint="Use values of the same type in each column.") from err


def _from_library(data: Any) -> pa.Table | pa.RecordBatchReader | None:  # noqa: ANN401 - libraries that may be absent
    match f"{type(data).__module__.split('.')[0]}.{type(data).__name__}":
        case "polars.LazyFrame":
            with _reading():
                return data.collect().to_arrow()
        case "polars.DataFrame":
            return data.to_arrow()
        case "pandas.DataFrame":
            return _from_pandas(data)
        case _ if isinstance(data, _ArrowStream):
            return _from_stream(data)
        case _:
            return None


def _from_stream(data: _ArrowStream) -> pa.RecordBatchReader | None:
    try:
        return pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid:
        # A stream without columns, such as a pandas or Polars series, is not a data frame.
        return None


def _from_pandas(data: Any) -> pa.Table:  # noqa: ANN401 - pandas is optional
    try:
        return pa.Table.from_pandas(_with_index(data), preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as err:
        msg = f"Cannot convert the pandas frame to Arrow: {err}"
        raise InvalidDataError(msg, hint="Convert the column to one type, for example with astype().") from err


def _with_index(frame: Any) -> Any:  # noqa: ANN401 - pandas is optional
    """Return a pandas frame with its named indexes as columns, such as the keys of a ``groupby``.

    An unnamed index of integers only numbers the rows, so it is dropped.

    Raises:
        InvalidDataError: The index is unnamed and has other values, a column has the same name but other values, or
            the columns have several levels.
    """
    index = frame.index
    if duplicates := sorted({str(name) for name in frame.columns[frame.columns.duplicated()]}):
        raise _duplicate_names(duplicates)
    if frame.columns.nlevels > 1:
        msg = f"The pandas frame has {frame.columns.nlevels} levels of column names."
        hint = "Give each column one name, for example with agg(total=('amount', 'sum'))."
        raise InvalidDataError(msg, hint=hint)
    if None in index.names:
        if index.nlevels == 1 and (index.inferred_type == "integer" or not len(frame)):
            return frame
        msg = f"The pandas frame has an unnamed index of {index.inferred_type} values."
        hint = "Name it with rename_axis(...), or drop it with reset_index(drop=True)."
        raise InvalidDataError(msg, hint=hint)
    numbered = frame.reset_index(drop=True)
    repeated = [name for name in index.names if name in frame.columns]
    for name in repeated:
        if not index.get_level_values(name).to_series(index=numbered.index).equals(numbered[name]):
            msg = f"The pandas frame has an index and a column '{name}' with different values."
            raise InvalidDataError(msg, hint="Rename one of them, or drop the index with reset_index(drop=True).")
    return frame.droplevel(repeated).reset_index() if len(repeated) < index.nlevels else numbered


def supported_type(dtype: pa.DataType, column: str) -> pa.DataType:
    """Return the supported type for an Arrow type.

    Raises:
        InvalidDataError: Iceberg has no equivalent type.
    """
    if isinstance(dtype, pa.DictionaryType | pa.RunEndEncodedType):
        return supported_type(dtype.value_type, column)
    if isinstance(dtype, pa.BaseExtensionType):
        return dtype if isinstance(dtype, pa.UuidType) else supported_type(dtype.storage_type, column)
    if types.is_nested(dtype):
        return _supported_nested(dtype, column)
    if types.is_duration(dtype) or types.is_interval(dtype):
        msg = f"Column '{column}' has type {dtype}, which Iceberg does not support."
        raise InvalidDataError(msg, hint="Cast it to int64 (microseconds) or write two timestamps.")
    return _supported_plain(dtype, column)


def _supported_plain(dtype: pa.DataType, column: str) -> pa.DataType:
    if types.is_timestamp(dtype):
        return pa.timestamp("us", tz="UTC" if dtype.tz else None)
    if types.is_decimal(dtype):
        return _supported_decimal(dtype, column)
    return _SIMPLE.get(dtype.id, dtype)


def _supported_decimal(dtype: pa.DataType, column: str) -> pa.DataType:
    if dtype.precision > _MAX_DIGITS or dtype.scale < 0:
        msg = (
            f"Column '{column}' has type {dtype}; Iceberg supports at most {_MAX_DIGITS} digits and no negative scale."
        )
        raise InvalidDataError(msg, hint="Cast it to a smaller decimal or a string.")
    return pa.decimal128(dtype.precision, dtype.scale)


def _supported_nested(dtype: pa.DataType, column: str) -> pa.DataType:
    def inner(field: pa.Field, name: str | None = None) -> pa.Field:
        return field.with_type(supported_type(field.type, f"{column}.{name or field.name}"))

    if isinstance(dtype, pa.StructType):
        return pa.struct([inner(field) for field in dtype])
    if isinstance(dtype, pa.MapType):
        return pa.map_(inner(dtype.key_field, "key"), inner(dtype.item_field, "value"))
    if isinstance(dtype, pa.LargeListType | pa.LargeListViewType):
        return pa.large_list(inner(dtype.value_field, "element"))
    if isinstance(dtype, pa.ListType | pa.FixedSizeListType | pa.ListViewType):
        return pa.list_(inner(dtype.value_field, "element"))
    msg = f"Column '{column}' has type {dtype}, which Iceberg does not support."
    raise InvalidDataError(msg, hint="Split it into columns of one type each.")


def supported_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with every type replaced by a supported one; null columns stay null."""
    return pa.schema([field.with_type(supported_type(field.type, field.name)) for field in schema])


def normalized(table: pa.Table) -> pa.Table:
    """Return the table with every column cast to a supported type.

    Raises:
        InvalidDataError: A value does not fit.
    """
    schema = supported_schema(table.schema)
    columns = [cast_column(table.column(i), field.type, field.name) for i, field in enumerate(schema)]
    return pa.table(columns, schema=schema)


def to_iceberg_type(dtype: pa.DataType, column: str, new_id: Callable[[], int]) -> IcebergType:
    """Return the Iceberg type of a supported Arrow type; ``new_id`` assigns the ids of nested fields.

    Raises:
        InvalidDataError: The column has no type because all its values are null.
    """
    if (simple := _ICEBERG.get(dtype.id)) is not None:
        return simple
    if types.is_timestamp(dtype):
        return TimestamptzType() if dtype.tz else TimestampType()
    if types.is_decimal(dtype):
        return DecimalType(dtype.precision, dtype.scale)
    if types.is_fixed_size_binary(dtype):
        return FixedType(dtype.byte_width)
    if isinstance(dtype, pa.UuidType):
        return UUIDType()
    if types.is_nested(dtype):
        return _nested_to_iceberg(dtype, column, new_id)
    msg = f"Column '{column}' contains only nulls, so its type is unknown."
    raise InvalidDataError(msg, hint="Cast it to a type, or drop the column.")


def _nested_to_iceberg(dtype: pa.DataType, column: str, new_id: Callable[[], int]) -> IcebergType:
    if isinstance(dtype, pa.StructType):
        return StructType(*to_iceberg_fields(list(dtype), new_id, prefix=f"{column}."))
    if isinstance(dtype, pa.MapType):
        key_id, value_id = new_id(), new_id()
        return MapType(
            key_id=key_id,
            key_type=to_iceberg_type(dtype.key_type, f"{column}.key", new_id),
            value_id=value_id,
            value_type=to_iceberg_type(dtype.item_type, f"{column}.value", new_id),
            value_required=not dtype.item_field.nullable,
        )
    element_id = new_id()
    return ListType(
        element_id=element_id,
        element=to_iceberg_type(dtype.value_type, f"{column}.element", new_id),
        element_required=not dtype.value_field.nullable,
    )


def to_iceberg_fields(fields: list[pa.Field], new_id: Callable[[], int], prefix: str = "") -> list[NestedField]:
    """Return Iceberg fields for supported Arrow fields, with docs from their metadata."""
    ids = [new_id() for _ in fields]
    return [
        NestedField(
            field_id=field_id,
            name=field.name,
            field_type=to_iceberg_type(field.type, prefix + field.name, new_id),
            required=not field.nullable,
            doc=((field.metadata or {}).get(_DOC) or b"").decode() or None,
        )
        for field_id, field in zip(ids, fields, strict=True)
    ]


def cast_column(values: pa.ChunkedArray, target: pa.DataType, column: str) -> pa.ChunkedArray:
    """Cast a column without losing information.

    Raises:
        InvalidDataError: A value does not fit.
    """
    if values.type == target:
        return values
    values = without_list_views(values)
    if isinstance(values.type, pa.RunEndEncodedType):
        values = pa.chunked_array([pc.run_end_decode(chunk) for chunk in values.chunks], values.type.value_type)
    if isinstance(values.type, pa.BaseExtensionType) and not isinstance(target, pa.BaseExtensionType):
        values = pa.chunked_array([chunk.storage for chunk in values.chunks], values.type.storage_type)
    try:
        return values.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as err:
        msg = f"Cannot cast column '{column}' to {target}: {err}"
        hint = "Iceberg stores microseconds: round the values first." if "lose data" in str(err) else None
        raise InvalidDataError(msg, hint=hint) from err


def without_list_views(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Replace list views at any depth with plain lists, because PyArrow's cast (26.0) loses their elements."""
    if not _has_list_view(values.type):
        return values
    chunks = [_without_list_views(chunk) for chunk in values.chunks]
    return pa.chunked_array(chunks, None if chunks else supported_type(values.type, ""))


def _has_list_view(dtype: pa.DataType) -> bool:
    if isinstance(dtype, pa.ListViewType | pa.LargeListViewType):
        return True
    return any(_has_list_view(dtype.field(position).type) for position in range(dtype.num_fields))


def _without_list_views(values: pa.Array) -> pa.Array:
    kind = values.type
    if not _has_list_view(kind):
        return values
    if isinstance(kind, pa.StructType):
        parts = [_without_list_views(values.field(position)) for position in range(kind.num_fields)]
        fields = [kind.field(position).with_type(part.type) for position, part in enumerate(parts)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    if isinstance(kind, pa.MapType):
        keys, items = _without_list_views(values.keys), _without_list_views(values.items)
        target = pa.map_(kind.key_field.with_type(keys.type), kind.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([keys, items], fields=[target.key_field, target.item_field])
        return with_children(values, target, entries)
    if isinstance(kind, pa.FixedSizeListType):
        values = values.cast(pa.list_(kind.value_field))
    if isinstance(kind, pa.ListViewType | pa.LargeListViewType):
        values = _as_list(values)
    elements = _without_list_views(values.values)
    plain = pa.large_list if isinstance(values.type, pa.LargeListType) else pa.list_
    return with_children(values, plain(kind.value_field.with_type(elements.type)), elements)


def _as_list(values: pa.Array) -> pa.Array:
    large = isinstance(values.type, pa.LargeListViewType)
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy(zero_copy_only=False)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    offsets = pa.array(ends, pa.int64() if large else pa.int32())
    plain, made = (pa.large_list, pa.LargeListArray) if large else (pa.list_, pa.ListArray)
    target = plain(values.type.value_field)
    return made.from_arrays(offsets, values.flatten(), type=target, mask=values.is_null())


def with_field_id(field: pa.Field, field_id: int) -> pa.Field:
    """Return the Arrow field with the Parquet field id."""
    return field.with_metadata({_FIELD_ID: str(field_id).encode()})


def with_children(items: pa.Array, target: pa.DataType, children: pa.Array) -> pa.Array:
    """Return a list or map array with replaced children: the elements, or the entries of a map.

    Offsets and validity are kept: slices stay valid, null stays null, and nothing is copied.
    """
    return pa.Array.from_buffers(
        target, len(items), items.buffers()[:2], items.null_count, items.offset, children=[children]
    )
