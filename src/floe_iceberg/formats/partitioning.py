"""Splits rows by the partitions of a partition spec."""

from __future__ import annotations

import hashlib
import struct
import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionKey
from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import BinaryType, DateType, DecimalType, FixedType, IntegerType, LongType, UUIDType
from pyiceberg.utils.concurrent import ExecutorFactory
from pyiceberg.utils.decimal import decimal_to_unscaled

from floe_core.errors import CapabilityError, ConfigurationError, InvalidDataError
from floe_iceberg.formats import float_bits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.transforms import Transform
    from pyiceberg.types import IcebergType

# Rows that are already adjacent are sliced without copying, up to this many slices per partition.
_MAX_SLICES_PER_PARTITION = 8
# One pass over all rows is faster than one per partition, but needs memory for a copy.
_MAX_SORT_BYTES = 2 * 1024**3
# Counting is faster than sorting while the counters fit into the cache.
_MAX_COUNTERS = 1_000_000
# File systems allow 255 bytes for a folder name.
_MAX_FOLDER_LENGTH = 200
_UNDERFLOW_HINT = (
    "Correct the value, or partition and sort by another term. engine='spark' does not help: it wraps the number "
    "around, and range filters then miss the row."
)
_DECIMAL_UNDERFLOW_HINT = (
    "Correct the value, or partition and sort by another term. engine='spark' does not help: it fails as well."
)
_HOUR = {"s": 3600, "ms": 3_600_000, "us": 3_600_000_000, "ns": 3_600_000_000_000}
_UNITS: dict[type[Any], Any] = {YearTransform: "Y", MonthTransform: "M", DayTransform: "D", HourTransform: "h"}


@dataclass(frozen=True)
class Partition(PartitionKey):
    """One partition: its field values and the folder of its files."""

    @cached_property
    def partition(self) -> Record:
        """The values in Iceberg's representation."""
        return Record(*[value.value for value in self.field_values])

    def to_path(self) -> str:
        """Return the folder path of the partition's files."""
        return partition_path(self.partition_spec, self.schema, self.partition)


def partition_path(spec: PartitionSpec, schema: Schema, record: Record) -> str:
    """Return the folder path of a partition."""
    return "/".join(
        _folder(field, value, schema) for field, value in zip(spec.fields, record_values(record), strict=True)
    )


def _folder(field: PartitionField, value: Any, schema: Schema) -> str:  # noqa: ANN401 - of the field's type
    kind = field.transform.result_type(schema.find_type(field.source_id))
    text = quote_plus(_display_value(field.transform, value, kind), safe="")
    folder = f"{quote_plus(field.name, safe='')}={text}"
    if len(folder) <= _MAX_FOLDER_LENGTH:
        return folder
    # The folder name is only informational; the manifest has the partition values.
    return f"{folder[:_MAX_FOLDER_LENGTH].rpartition('%')[0] or folder[:_MAX_FOLDER_LENGTH]}-{_digest(folder)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _display_value(transform: Transform[Any, Any], value: Any, source: IcebergType) -> str:  # noqa: ANN401 - as above
    try:
        return transform.to_human_string(source, value)
    except (OverflowError, ValueError):
        # Python does not support the year.
        unit: Any = _UNITS.get(type(transform)) or ("D" if isinstance(source, DateType) else "us")
        return str(np.datetime64(value, unit)).replace("T", "-")


@dataclass(frozen=True)
class PartitionRows:
    """The rows of one partition."""

    record: Record
    rows: pa.Table


def record_values(record: Record) -> tuple[Any, ...]:
    """Return a partition's values in the spec's order."""
    return tuple(record[position] for position in range(len(record)))


def record_key(record: Record) -> tuple[Any, ...]:
    """Return a key for comparing partitions: NaN equals NaN, 0.0 and -0.0 differ."""
    return tuple(_key(value) for value in record_values(record))


def _key(value: Any) -> Any:  # noqa: ANN401 - of any type
    if not isinstance(value, float):
        return value
    return "NaN" if value != value else struct.pack("<d", value)  # noqa: PLR0124 - only NaN is


def require_partitions(spec: PartitionSpec, *, table: str) -> None:
    """Require a spec with partitions.

    Raises:
        ConfigurationError: The table is unpartitioned; dropped fields of format version 1 remain as void transforms.
    """
    if all(isinstance(field.transform, VoidTransform) for field in spec.fields):
        msg = f"Table '{table}' has no partitions to overwrite."
        raise ConfigurationError(msg, hint="Use mode overwrite, with or without a filter.", table=table)


def column_path(fields: pa.Schema | pa.StructType, name: str) -> list[str] | None:
    """Split a full name into the path of a column; None if the column does not exist.

    A dot separates a struct from its field, unless it is part of a name.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        head = ".".join(parts[:length])
        position = fields.get_field_index(head)
        if position < 0:
            continue
        kind = fields.field(position).type
        if length == len(parts):
            return [head]
        rest = column_path(kind, ".".join(parts[length:])) if isinstance(kind, pa.StructType) else None
        if rest is not None:
            return [head, *rest]
    return None


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column by its full name, dotted for fields of structs."""
    head, *rest = column_path(table.schema, name) or [name]
    values = table[head]
    for part in rest:
        # By position, because Arrow reads a dot in a name as a path.
        values = pc.struct_field(values, [values.type.get_field_index(part)])
    return values


def split(table: pa.Table, spec: PartitionSpec, schema: Schema) -> Iterator[PartitionRows]:
    """Split rows by partition; each partition is yielded once and keeps the order of its rows."""
    if table.num_rows == 0:
        return
    codes, values = partition_codes(table, spec, schema)
    cuts = np.flatnonzero(np.diff(codes)) + 1
    if len(cuts) < _MAX_SLICES_PER_PARTITION * len(values):
        yield from _slices(table, codes, cuts, values)
        return
    order = np.argsort(codes, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(values)))])
    ordered = _reordered(table, order) if table.nbytes < _MAX_SORT_BYTES else None
    if ordered is None:
        table = table.combine_chunks()
    for code, record in enumerate(values):
        start, end = bounds[code], bounds[code + 1]
        rows = table.take(pa.array(order[start:end])) if ordered is None else ordered.slice(start, end - start)
        yield PartitionRows(record, rows)


def _reordered(table: pa.Table, order: np.ndarray[Any, Any]) -> pa.Table:
    indices = pa.array(order)
    columns = ExecutorFactory.get_or_create().map(lambda column: column.take(indices), table.columns)
    return pa.table(list(columns), schema=table.schema)


def _slices(
    table: pa.Table, codes: np.ndarray[Any, Any], cuts: np.ndarray[Any, Any], values: list[Record]
) -> Iterator[PartitionRows]:
    pieces: dict[int, list[pa.Table]] = {}
    start = 0
    for end in [*cuts.tolist(), len(codes)]:
        pieces.setdefault(int(codes[start]), []).append(table.slice(start, end - start))
        start = end
    for code, parts in pieces.items():
        yield PartitionRows(values[code], pa.concat_tables(parts) if len(parts) > 1 else parts[0])


def partition_codes(table: pa.Table, spec: PartitionSpec, schema: Schema) -> tuple[np.ndarray[Any, Any], list[Record]]:
    """Return the partition number of every row, and the list of partitions by number.

    Raises:
        InvalidDataError: A value has no partition.
        CapabilityError: A transform is unknown.
    """
    codes = np.zeros(table.num_rows, dtype=np.int64)
    values: list[tuple[Any, ...]] = [()]
    for field in spec.fields:
        indices, dictionary = _encoded(table, field, schema)
        width = max(1, len(dictionary))
        # Renumbered after each field: the product of all value counts could overflow.
        present, codes = _compact(codes.astype(np.int64) * width + indices, len(values) * width)
        values = [(*values[code // width], dictionary[code % width]) for code in present.tolist()]
    return codes, [Record(*value) for value in values]


def _compact(codes: np.ndarray[Any, Any], possible: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if possible > _MAX_COUNTERS:
        present, compact = np.unique(codes, return_inverse=True)
        return present, compact.astype(np.min_scalar_type(len(present)))
    present = np.flatnonzero(np.bincount(codes, minlength=possible))
    numbers = np.zeros(possible, dtype=np.min_scalar_type(len(present)))
    numbers[present] = np.arange(len(present))
    return present, numbers[codes]


def transformed(
    values: pa.ChunkedArray, transform: Transform[Any, Any], source: IcebergType, column: str
) -> pa.Array | pa.ChunkedArray:
    """Apply a transform to a column.

    Raises:
        InvalidDataError: A value has no result.
        CapabilityError: The transform is unknown.
    """
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    if isinstance(transform, IdentityTransform):
        return values
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(values), pa.int32())
    if isinstance(transform, UnknownTransform):
        msg = f"Unsupported transform {transform} of column '{column}'."
        raise CapabilityError(msg, hint="Pass engine='spark'.")
    if isinstance(transform, HourTransform):
        _require_hours(values, column)
    if isinstance(transform, TruncateTransform):
        if isinstance(source, BinaryType):
            return pc.binary_slice(values, 0, transform.width)
        _require_no_underflow(values, transform, source, column)
    return transform.pyarrow_transform(source)(values)


def _require_hours(values: pa.ChunkedArray, column: str) -> None:
    bounds = pc.min_max(values.cast(pa.int64()))
    limits = np.iinfo(np.int32)
    for bound in (bounds["min"].as_py(), bounds["max"].as_py()):
        if bound is not None and not limits.min <= bound // _HOUR[values.type.unit] <= limits.max:
            msg = f"Column '{column}' has a timestamp that is too far from 1970 for hour partitioning."
            raise InvalidDataError(msg, hint="Partition by day, month or year, or correct the value.")


def _require_no_underflow(
    values: pa.ChunkedArray, transform: TruncateTransform[Any], source: IcebergType, column: str
) -> None:
    """Reject numbers whose truncation underflows their type: Java wraps them, so range filters miss the row."""
    if isinstance(source, DecimalType):
        minimum = 1 - 10**source.precision
    elif isinstance(source, IntegerType | LongType):
        minimum = -(2**31) if isinstance(source, IntegerType) else -(2**63)
    else:
        return
    lowest = pc.min(values).as_py()
    if lowest is None:
        return
    number = decimal_to_unscaled(lowest) if isinstance(source, DecimalType) else lowest
    if number - number % transform.width < minimum:
        msg = f"{transform} of {lowest} in column '{column}' is below the minimum of {source}."
        raise InvalidDataError(
            msg, hint=_DECIMAL_UNDERFLOW_HINT if isinstance(source, DecimalType) else _UNDERFLOW_HINT
        )


def _encoded(table: pa.Table, field: PartitionField, schema: Schema) -> tuple[np.ndarray[Any, Any], list[Any]]:
    """Return the value number of every row for a partition field, and the values in Iceberg's representation."""
    source = schema.find_field(field.source_id).field_type
    name = str(schema.find_column_name(field.source_id))
    values = column_of(table, name)
    if isinstance(source, FixedType) and isinstance(field.transform, IdentityTransform):
        msg = f"floe cannot write partitions by column '{name}' of type {source}."
        raise CapabilityError(msg, hint="Pass engine='spark', or partition by bucket(n, column).")
    if isinstance(field.transform, IdentityTransform) and pa.types.is_floating(values.type):
        bits = float_bits.distinct(values).dictionary_encode(null_encoding="encode")
        return _indices(bits), list(float_bits.as_floats(bits.dictionary))
    if isinstance(source, DateType) and not isinstance(field.transform, IdentityTransform):
        # There are far fewer days than rows, so each day is transformed once.
        days = _combined(values).dictionary_encode(null_encoding="encode")
        distinct = transformed(pa.chunked_array([days.dictionary]), field.transform, source, name)
        encoded = _combined(distinct).dictionary_encode(null_encoding="encode")
        return _indices(encoded)[_indices(days)], _physical(encoded.dictionary)
    encoded = _combined(transformed(values, field.transform, source, name)).dictionary_encode(null_encoding="encode")
    physical = _physical(encoded.dictionary)
    if isinstance(source, UUIDType) and isinstance(field.transform, IdentityTransform):
        physical = [None if value is None else uuid.UUID(bytes=value) for value in physical]
    return _indices(encoded), physical


def _indices(encoded: pa.DictionaryArray) -> np.ndarray[Any, Any]:
    indices: np.ndarray[Any, Any] = encoded.indices.to_numpy(zero_copy_only=False)
    return indices


def _physical(values: pa.Array) -> list[Any]:
    # Python's dates end in the year 9999, Iceberg's do not.
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(values.type):
        values = values.cast(pa.int64())
    return list(values.to_pylist())


def _combined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # more than 2 GiB of strings cannot be combined
        large = pa.large_string() if pa.types.is_string(values.type) else pa.large_binary()
        values = pa.concat_arrays(values.cast(large).chunks)
    return values.storage if isinstance(values, pa.ExtensionArray) else values


def spec_schema(metadata: TableMetadata, spec_id: int) -> Schema:
    """Return the newest schema with every source column of a spec; a column may have been dropped since."""
    sources = {field.source_id for field in metadata.specs()[spec_id].fields}
    current = metadata.schema()
    if sources <= current.field_ids:
        return current
    known = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    return next((schema for schema in known if sources <= schema.field_ids), current)
