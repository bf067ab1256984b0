"""Partition specs and sort orders from short terms, and rows sorted into partitions."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import (
    PARTITION_FIELD_ID_START,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionKey,
    PartitionSpec,
    partition_record_value,
)
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import DateType
from pyiceberg.utils.concurrent import ExecutorFactory

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.schema import Schema

_TERM = re.compile(
    r"^\s*(?:(?P<transform>\w+)\s*\(\s*(?:(?P<number>\d+)\s*,\s*)?(?P<inner>[^(),]+?)\s*\)|(?P<column>[^(),]+?))\s*$"
)
_SORT_TERM = re.compile(
    r"^\s*(?P<term>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*$", re.IGNORECASE
)
_PLAIN: dict[str, tuple[type[Transform[Any, Any]], str]] = {
    "identity": (IdentityTransform, ""),
    "year": (YearTransform, "_year"),
    "years": (YearTransform, "_year"),
    "month": (MonthTransform, "_month"),
    "months": (MonthTransform, "_month"),
    "day": (DayTransform, "_day"),
    "days": (DayTransform, "_day"),
    "hour": (HourTransform, "_hour"),
    "hours": (HourTransform, "_hour"),
}
_NAN = object()
# Rows that already lie together are cut out without copying, up to this many cuts a partition.
_CUTS_PER_PARTITION = 8
# One pass over all rows is faster than one a partition, and needs room for a copy.
_SORTED_AT_ONCE = 2 * 1024**3
# Counting beats sorting while the counters fit into a cache.
_COUNTABLE = 1_000_000


def partition_spec(terms: PartitionSpec | Sequence[str] | None, schema: Schema) -> PartitionSpec:
    """Return the spec for terms such as ``day(ts)``, ``bucket(16, id)`` or ``region``.

    Raises:
        ConfigurationError: A term cannot be read, or names no column.
    """
    if terms is None:
        return UNPARTITIONED_PARTITION_SPEC
    if isinstance(terms, PartitionSpec):
        return terms
    fields = []
    for position, term in enumerate([terms] if isinstance(terms, str) else terms):
        transform, source_id, suffix = _parse(term, schema)
        column = str(schema.find_column_name(source_id))
        fields.append(
            PartitionField(
                source_id=source_id,
                field_id=PARTITION_FIELD_ID_START + position,
                transform=transform,
                name=f"{column}{suffix}",
            )
        )
    return PartitionSpec(*fields)


def sort_order(terms: SortOrder | Sequence[str] | None, schema: Schema) -> SortOrder:
    """Return the sort order for terms such as ``ts desc nulls last``.

    Raises:
        ConfigurationError: A term cannot be read, or names no column.
    """
    if terms is None:
        return UNSORTED_SORT_ORDER
    if isinstance(terms, SortOrder):
        return terms
    fields = []
    for term in [terms] if isinstance(terms, str) else terms:
        match = _SORT_TERM.match(term)
        if match is None:
            msg = f"'{term}' is no sort term."
            raise ConfigurationError(msg, hint="Write column [asc|desc] [nulls first|last].")
        transform, source_id, _ = _parse(match["term"], schema)
        direction = SortDirection[(match["direction"] or "asc").upper()]
        nulls = (match["nulls"] or ("first" if direction is SortDirection.ASC else "last")).upper()
        fields.append(
            SortField(
                source_id=source_id, transform=transform, direction=direction, null_order=NullOrder[f"NULLS_{nulls}"]
            )
        )
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def _parse(term: str, schema: Schema) -> tuple[Transform[Any, Any], int, str]:
    match = _TERM.match(term)
    name = match["transform"].lower() if match and match["transform"] else "identity"
    if match is None or name not in {*_PLAIN, "bucket", "truncate"} or (name in _PLAIN) == bool(match["number"]):
        msg = f"'{term}' is no partition term."
        hint = "Write a column, day(c), month(c), year(c), hour(c), bucket(n, c) or truncate(n, c)."
        raise ConfigurationError(msg, hint=hint)
    column = (match["inner"] or match["column"]).strip()
    try:
        field = schema.find_field(column)
    except ValueError as err:
        msg = f"'{term}' names no column of the table."
        raise ConfigurationError(msg, hint=f"Columns there: {', '.join(schema.column_names)}.") from err
    transform, suffix = _transform(name, int(match["number"] or 0))
    if not transform.can_transform(field.field_type):
        msg = f"'{term}' does not work on a column of type {field.field_type}."
        raise ConfigurationError(msg)
    return transform, field.field_id, suffix


def _transform(name: str, number: int) -> tuple[Transform[Any, Any], str]:
    if name == "bucket":
        return BucketTransform(num_buckets=number), f"_bucket_{number}"
    if name == "truncate":
        return TruncateTransform(width=number), f"_trunc_{number}"
    transform, suffix = _PLAIN[name]
    return transform(), suffix


@dataclass(frozen=True)
class Partition(PartitionKey):
    """One partition: its values by field, and the folder its files go to."""

    @cached_property
    def partition(self) -> Record:
        """The values in Iceberg's own representation."""
        return Record(*[value.value for value in self.field_values])


@dataclass(frozen=True)
class PartitionRows:
    """The rows of one partition."""

    record: Record
    rows: pa.Table


def record_values(record: Record) -> tuple[Any, ...]:
    """Return a partition's values in the spec's order."""
    return tuple(record[position] for position in range(len(record)))


def record_key(record: Record) -> tuple[Any, ...]:
    """Return a partition's values so that equal partitions are equal; NaN, which is not equal to itself, included."""
    return tuple(_NAN if value != value else value for value in record_values(record))  # noqa: PLR0124 - only NaN


def column_path(fields: pa.Schema | pa.StructType, name: str) -> list[str] | None:
    """Split a full name into the names that lead to it; None when there is no such column.

    A dot separates a struct from its field, unless it is part of a name.
    """
    parts = name.split(".")
    for taken in range(len(parts), 0, -1):
        head = ".".join(parts[:taken])
        position = fields.get_field_index(head)
        if position < 0:
            continue
        kind = fields.field(position).type
        if taken == len(parts):
            return [head]
        rest = column_path(kind, ".".join(parts[taken:])) if isinstance(kind, pa.StructType) else None
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
    """Sort rows into the partitions of a spec; each partition comes once, rows in their order."""
    if table.num_rows == 0:
        return
    codes, values = partition_codes(table, spec, schema)
    cuts = np.flatnonzero(np.diff(codes)) + 1
    if len(cuts) < _CUTS_PER_PARTITION * len(values):
        yield from _slices(table, codes, cuts, values)
        return
    order = np.argsort(codes, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(values)))])
    ordered = _taken(table, order) if table.nbytes < _SORTED_AT_ONCE else None
    if ordered is None:
        table = table.combine_chunks()
    for code, record in enumerate(values):
        start, end = bounds[code], bounds[code + 1]
        rows = table.take(pa.array(order[start:end])) if ordered is None else ordered.slice(start, end - start)
        yield PartitionRows(record, rows)


def _taken(table: pa.Table, order: np.ndarray[Any, Any]) -> pa.Table:
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
    """Number the partition of every row; the list gives each number's partition."""
    combined = np.zeros(table.num_rows, dtype=np.int64)
    dictionaries: list[list[Any]] = []
    for field in spec.fields:
        encoded = _encoded(table, field, schema)
        dictionary = encoded.dictionary.to_pylist()
        dictionaries.append([partition_record_value(field, value, schema) for value in dictionary])
        combined = combined * max(1, len(dictionary)) + encoded.indices.to_numpy(zero_copy_only=False)
    present, codes = _compact(combined, math.prod(max(1, len(dictionary)) for dictionary in dictionaries))
    records = [Record(*_decode(int(code), dictionaries)) for code in present]
    return codes, records


def _compact(codes: np.ndarray[Any, Any], possible: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if possible > _COUNTABLE:
        present, compact = np.unique(codes, return_inverse=True)
        return present, compact.astype(np.min_scalar_type(len(present)))
    present = np.flatnonzero(np.bincount(codes, minlength=possible))
    numbers = np.zeros(possible, dtype=np.min_scalar_type(len(present)))
    numbers[present] = np.arange(len(present))
    return present, numbers[codes]


def _decode(code: int, dictionaries: list[list[Any]]) -> list[Any]:
    values = []
    for dictionary in reversed(dictionaries):
        code, index = divmod(code, max(1, len(dictionary)))
        values.append(dictionary[index])
    return values[::-1]


def _encoded(table: pa.Table, field: PartitionField, schema: Schema) -> pa.DictionaryArray:
    source = schema.find_field(field.source_id)
    values = column_of(table, str(schema.find_column_name(field.source_id)))
    transform = field.transform.pyarrow_transform(source.field_type)
    if not isinstance(source.field_type, DateType) or isinstance(field.transform, IdentityTransform):
        return _in_one_piece(transform(values)).dictionary_encode(null_encoding="encode")
    # There are few days compared with rows, so that each is transformed once.
    days = _in_one_piece(values).dictionary_encode(null_encoding="encode")
    encoded = transform(days.dictionary).dictionary_encode(null_encoding="encode")
    return pa.DictionaryArray.from_arrays(encoded.indices.take(days.indices), encoded.dictionary)


def _in_one_piece(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.ChunkedArray):  # more than 2 GiB of text does not combine
        values = pa.concat_arrays(values.cast(pa.large_string()).chunks)
    return values.storage if isinstance(values, pa.ExtensionArray) else values
