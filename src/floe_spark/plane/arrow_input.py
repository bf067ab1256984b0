"""Converts Arrow data to Spark frames.

Spark supports fewer Arrow types than Iceberg, so columns are first converted to Spark's type for the table's column:
view types become plain ones, UUIDs become text, and fixed-size binary becomes binary.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as spark

from floe_core.errors import CapabilityError, InvalidDataError
from floe_iceberg.formats.arrow_types import without_list_views

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

# Larger data is passed as files, which is faster than through the driver.
_STAGED_BYTES = 64 * 1024**2
_ROW_GROUP_BYTES = 64 * 1024**2
# A stream to a Spark that cannot read local files has to fit into memory.
_REMOTE_STREAM_BYTES = 1024**3

_ATOMIC: dict[type[spark.DataType], pa.DataType] = {
    spark.BinaryType: pa.binary(),
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.DateType: pa.date32(),
    spark.DoubleType: pa.float64(),
    spark.FloatType: pa.float32(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.ShortType: pa.int16(),
    spark.StringType: pa.string(),
    spark.TimestampNTZType: pa.timestamp("us"),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
}
_UUID_BYTES = 16
_UUID_DASHES = (8, 13, 18, 23)


class ArrowInput:
    """Arrow data to be written by Spark; a context manager that deletes its temporary files on exit."""

    def __init__(self, session: SparkSession, *, shares_files: bool) -> None:
        """Prepare for one write in a session."""
        self._session = session
        self._shares_files = shares_files
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        """Return this object."""
        return self

    def __exit__(self, *_: object) -> None:
        """Delete the temporary files."""
        if self._scratch is not None:
            self._scratch.cleanup()

    def frame(self, data: pa.Table | pa.RecordBatch | pa.RecordBatchReader, target: spark.StructType) -> DataFrame:
        """Return the data as a frame with the column types of the target.

        Raises:
            InvalidDataError: A column cannot be converted to its type.
            CapabilityError: The stream is too large for a Spark that cannot read local files.
        """
        if isinstance(data, pa.RecordBatchReader):
            if self._shares_files:
                return self._staged(_chunks(data), data.schema, target)
            data = _collected(data)
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if self._shares_files and data.nbytes > _STAGED_BYTES:
            return self._staged(iter([data]), data.schema, target)
        return self._session.createDataFrame(spark_table(data, target), schema=_frame_schema(data.schema, target))

    def _staged(self, tables: Iterator[pa.Table], schema: pa.Schema, target: spark.StructType) -> DataFrame:
        self._scratch = tempfile.TemporaryDirectory(prefix="floe-spark-")
        path = Path(self._scratch.name) / "part-0.parquet"
        with pq.ParquetWriter(path, spark_schema(schema, target), compression="zstd") as writer:
            for table in tables:
                rows = max(1, int(len(table) * _ROW_GROUP_BYTES / max(table.nbytes, 1)))
                writer.write_table(spark_table(table, target), row_group_size=rows)
        return self._session.read.schema(_frame_schema(schema, target)).parquet(path.as_uri())


def spark_schema(schema: pa.Schema, target: spark.StructType) -> pa.Schema:
    """Return the schema of the data with Spark's types for the target's columns.

    Raises:
        InvalidDataError: The target lacks a column of the data.
    """
    fields = {field.name: field.dataType for field in target.fields}
    if unknown := [name for name in schema.names if name not in fields]:
        msg = f"The table has no column {', '.join(unknown)}."
        raise InvalidDataError(msg, hint="Add the columns to the table first, or remove them from the data.")
    return pa.schema([pa.field(name, arrow_type(fields[name])) for name in schema.names])


def spark_table(table: pa.Table, target: spark.StructType) -> pa.Table:
    """Convert the columns of a table to Spark's types for the target's columns.

    Raises:
        InvalidDataError: A column cannot be converted, or the target lacks it.
    """
    schema = spark_schema(table.schema, target)
    columns = []
    for field, column in zip(schema, table.columns, strict=True):
        try:
            chunks = [_converted(chunk, field.type) for chunk in without_list_views(column).chunks]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as err:
            msg = f"Cannot cast column '{field.name}' from {column.type} to {field.type}: {err}"
            raise InvalidDataError(msg) from err
        columns.append(pa.chunked_array(chunks, type=field.type))
    return pa.table(columns, schema=schema)


def arrow_schema(schema: spark.StructType) -> pa.Schema:
    """Return the Arrow schema of a frame, with its nullability.

    Raises:
        CapabilityError: Spark does not support Arrow data for a column's type.
    """
    return pa.schema(list(arrow_type(schema, exact=True)))


def arrow_type(kind: spark.DataType, *, exact: bool = False) -> pa.DataType:
    """Return the Arrow type that Spark uses for this type.

    Args:
        kind: Spark's type.
        exact: Whether fields that are not nullable in Spark become not nullable in Arrow.

    Raises:
        CapabilityError: Spark does not support Arrow data for this type.
    """

    def field(name: str, inner: spark.DataType, *, nullable: bool) -> pa.Field:
        return pa.field(name, arrow_type(inner, exact=exact), nullable=nullable or not exact)

    match kind:
        case spark.DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case spark.ArrayType():
            return pa.list_(field("element", kind.elementType, nullable=kind.containsNull))
        case spark.MapType():
            value = field("value", kind.valueType, nullable=kind.valueContainsNull)
            return pa.map_(arrow_type(kind.keyType, exact=exact), value)
        case spark.StructType():
            return pa.struct([field(part.name, part.dataType, nullable=part.nullable) for part in kind.fields])
    if (found := _ATOMIC.get(type(kind))) is not None:
        return found
    msg = f"Cannot write Arrow data to a column of Spark type {kind.simpleString()}."
    raise CapabilityError(msg, hint="Write a PySpark DataFrame instead.")


def _frame_schema(schema: pa.Schema, target: spark.StructType) -> spark.StructType:
    fields = {field.name: field.dataType for field in target.fields}
    # Spark does not verify that a non-nullable column has no nulls; for nullable columns it checks on write.
    return spark.StructType([spark.StructField(name, _nullable(fields[name])) for name in schema.names])


def _nullable(kind: spark.DataType) -> spark.DataType:
    """Return the type with all nested fields nullable."""
    match kind:
        case spark.StructType():
            return spark.StructType([spark.StructField(field.name, _nullable(field.dataType)) for field in kind.fields])
        case spark.ArrayType():
            return spark.ArrayType(_nullable(kind.elementType), containsNull=True)
        case spark.MapType():
            return spark.MapType(_nullable(kind.keyType), _nullable(kind.valueType), valueContainsNull=True)
        case _:
            return kind


def _converted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if array.type.equals(wanted):
        return array
    if pa.types.is_dictionary(array.type):
        return _converted(array.dictionary_decode(), wanted)
    if pa.types.is_nested(wanted):
        return _converted_nested(array, wanted)
    if pa.types.is_fixed_size_binary(array.type) and pa.types.is_string(wanted):
        return _uuid_text(array)
    return array.cast(wanted)


def _converted_nested(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        return _converted_struct(array, wanted)
    if pa.types.is_map(kind) and pa.types.is_map(wanted):
        keys, items = _converted(array.keys, wanted.key_type), _converted(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(_offsets(array), keys, items, type=wanted, mask=_null_mask(array))
    if _is_list(kind) and pa.types.is_list(wanted):
        plain = array.cast(pa.list_(kind.value_type))
        values = _converted(plain.values, wanted.value_type)
        return pa.ListArray.from_arrays(_offsets(plain), values, type=wanted, mask=_null_mask(plain))
    return array.cast(wanted)


def _converted_struct(array: pa.StructArray, wanted: pa.StructType) -> pa.Array:
    children = []
    for field in wanted:
        position = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if position < 0 else _converted(array.field(position), field.type)
        children.append(child)
    unknown = [field.name for field in array.type if wanted.get_field_index(field.name) < 0]
    if unknown:
        msg = f"the table has no field {', '.join(unknown)}"
        raise pa.ArrowInvalid(msg)
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=_null_mask(array))


def _is_list(kind: pa.DataType) -> bool:
    checks = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(check(kind) for check in checks)


def _offsets(array: Any) -> pa.Array:  # noqa: ANN401 - list and map arrays have no common base class
    # Arrow accepts a mask only with offsets that start a buffer.
    return pa.array(array.offsets.to_numpy(zero_copy_only=False), type=pa.int32())


def _null_mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def _uuid_text(array: pa.FixedSizeBinaryArray) -> pa.Array:
    """Format 16-byte values as UUID text, vectorized."""
    valid = array.drop_null()
    raw = b"".join(valid.to_pylist())
    digits = np.frombuffer(raw.hex().encode(), dtype="S1").reshape(len(valid), 2 * _UUID_BYTES)
    text = np.insert(digits, [dash - position for position, dash in enumerate(_UUID_DASHES)], b"-", axis=1)
    rendered = pa.array(text.view(f"S{text.shape[1]}").ravel().astype(str) if len(valid) else [], type=pa.string())
    if array.null_count == 0:
        return rendered
    positions = np.cumsum(array.is_valid().to_numpy(zero_copy_only=False)) - 1
    return rendered.take(pa.array(positions, mask=array.is_null().to_numpy(zero_copy_only=False)))


def _chunks(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Combine small batches into tables of about a row group."""
    buffered: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        buffered.append(batch)
        size += batch.nbytes
        if size >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(buffered, reader.schema)
            buffered, size = [], 0
    if buffered:
        yield pa.Table.from_batches(buffered, reader.schema)


def _collected(reader: pa.RecordBatchReader) -> pa.Table:
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size > _REMOTE_STREAM_BYTES:
            msg = "The stream is larger than 1 GiB, and this Spark cannot read files on this machine."
            raise CapabilityError(msg, hint="Use the arrow engine, which streams in bounded memory.")
    return pa.Table.from_batches(batches, reader.schema)
