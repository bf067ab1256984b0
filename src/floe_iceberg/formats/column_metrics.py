"""Column metrics of data files for manifests: counts and bounds from the Parquet footer and the rows.

Readers skip files by these metrics, so a bound may be too wide or missing, but never too narrow.

PyIceberg 0.12 only uses the footer. It ignores row groups without statistics, which Parquet omits for strings and bytes
longer than 4 KiB, has no metrics for struct fields, and does not count NaN.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    ListType,
    LongType,
    MapType,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow.parquet as pq
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField

_DEFAULT_PROPERTY = "write.metadata.metrics.default"
_COLUMN_PREFIX = "write.metadata.metrics.column."
_INFERRED_PROPERTY = "write.metadata.metrics.max-inferred-column-defaults"
_INFERRED_COLUMNS = 100
_TRUNCATE = re.compile(r"^truncate\((\d+)\)$")
# Parquet does not store a longer minimum or maximum.
_MAX_PARQUET_BOUND_BYTES = 4096
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_EIGHT_BYTES = (
    LongType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)


@dataclass(frozen=True)
class Mode:
    """Metrics to collect for a column.

    Attributes:
        counts: Whether to count values, nulls and NaN.
        bounds: Whether to store the lower and upper bound.
        length: Maximum length of a bound in characters or bytes; None for no limit.
    """

    counts: bool = True
    bounds: bool = True
    length: int | None = None


NONE = Mode(counts=False, bounds=False)
COUNTS = Mode(bounds=False)
FULL = Mode()
DEFAULT = Mode(length=16)


def parse_mode(text: str | None, fallback: Mode) -> Mode:
    """Parse a metrics mode; an invalid mode becomes the fallback, as in Iceberg's Java implementation."""
    text = (text or "").strip().lower()
    if match := _TRUNCATE.match(text):
        return Mode(length=int(match[1])) if int(match[1]) else fallback
    return {"none": NONE, "counts": COUNTS, "full": FULL}.get(text, fallback)


def column_modes(metadata: TableMetadata) -> dict[int, Mode]:
    """Return the mode of every leaf column, by field id."""
    schema, properties = metadata.schema(), metadata.properties
    chosen: dict[int, Mode] = {}
    default = parse_mode(properties.get(_DEFAULT_PROPERTY), DEFAULT)
    limit = _parse_int(properties.get(_INFERRED_PROPERTY), _INFERRED_COLUMNS)
    if _DEFAULT_PROPERTY not in properties and len(schema.field_ids) > limit:
        # In a very wide table, the metrics of all columns would make every manifest large.
        chosen = dict.fromkeys(_first_leaves(schema.as_struct(), limit), DEFAULT)
        default = NONE
    for term in metadata.sort_order().fields:
        if isinstance(term.transform, IdentityTransform | TruncateTransform):
            chosen[term.source_id] = default if default.bounds else DEFAULT
    for field_id in schema.field_ids:
        if text := properties.get(f"{_COLUMN_PREFIX}{schema.find_column_name(field_id)}"):
            chosen[field_id] = parse_mode(text, default)
    return {field_id: chosen.get(field_id, default) for field_id in schema.field_ids}


def _parse_int(text: str | None, default: int) -> int:
    return int(text) if text and text.lstrip("-").isdigit() else default


def _first_leaves(kind: IcebergType, limit: int) -> list[int]:
    """Return leaf columns up to a limit, those of a struct before deeper ones."""
    fields = _children(kind)
    found = [child.field_id for child in fields if isinstance(child.field_type, PrimitiveType)][: max(0, limit)]
    for child in fields:
        if len(found) < limit and not isinstance(child.field_type, PrimitiveType):
            found += _first_leaves(child.field_type, limit - len(found))
    return found


def _children(kind: IcebergType) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (kind.element_field,)
    if isinstance(kind, MapType):
        return (kind.key_field, kind.value_field)
    return ()


@dataclass(frozen=True)
class Leaf:
    """A column of a Parquet file.

    Attributes:
        field_id: The field id.
        kind: The Iceberg type.
        mode: The metrics to collect.
        path: Field positions from the row to the column; None inside a list or map, for which only sizes are stored.
    """

    field_id: int
    kind: PrimitiveType
    mode: Mode
    path: tuple[int, ...] | None


def leaves(schema: Schema, modes: dict[int, Mode]) -> list[Leaf]:
    """Return the columns of a schema's Parquet files, in the files' order."""
    return list(_leaves(schema.fields, modes, ()))


def _leaves(fields: Iterable[NestedField], modes: dict[int, Mode], above: tuple[int, ...] | None) -> Iterator[Leaf]:
    for position, child in enumerate(fields):
        path = None if above is None else (*above, position)
        if isinstance(child.field_type, PrimitiveType):
            yield Leaf(child.field_id, child.field_type, modes[child.field_id], path)
        else:
            inside = path if isinstance(child.field_type, StructType) else None
            yield from _leaves(_children(child.field_type), modes, inside)


@dataclass
class ColumnMetrics:
    """Collects the metrics of one data file while it is written.

    Attributes:
        columns: The file's columns.
    """

    columns: list[Leaf]
    _nans: dict[int, int] = field(default_factory=dict)
    _nulls: dict[int, int] = field(default_factory=dict)
    _long: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)

    def observe(self, rows: pa.Table) -> None:
        """Collect metrics from rows that will not be in the Parquet footer."""
        for leaf in self.columns:
            if leaf.path is None or not leaf.mode.counts:
                continue
            if isinstance(leaf.kind, FloatType | DoubleType):
                count = pc.sum(pc.is_nan(_values(rows, leaf.path))).as_py() or 0
                self._nans[leaf.field_id] = self._nans.get(leaf.field_id, 0) + count
            elif isinstance(leaf.kind, UUIDType):
                count = _values(rows, leaf.path).null_count
                self._nulls[leaf.field_id] = self._nulls.get(leaf.field_id, 0) + count
            elif leaf.mode.bounds and isinstance(leaf.kind, StringType | BinaryType):
                self._observe_long(leaf.field_id, _values(rows, leaf.path))

    def _observe_long(self, field_id: int, values: pa.ChunkedArray) -> None:
        longest = pc.max(pc.binary_length(values)).as_py()
        if longest is None or longest <= _MAX_PARQUET_BOUND_BYTES:
            return
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            values = values.cast(pa.binary() if pa.types.is_string(values.type) else pa.large_binary())
        found = pc.min_max(values).as_py()
        low, high = self._long.get(field_id, (found["min"], found["max"]))
        self._long[field_id] = (min(low, found["min"]), max(high, found["max"]))

    def describe(self, footer: pq.FileMetaData) -> dict[str, Any]:
        """Return the metrics under the names of a manifest entry's fields."""
        sizes: dict[int, int] = {}
        counts: dict[int, int] = {}
        nulls: dict[int, int] = {}
        bounds: dict[int, _Bounds] = {}
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        for position, leaf in enumerate(self.columns):
            chunks = [group.column(position) for group in groups]
            sizes[leaf.field_id] = sum(chunk.total_compressed_size for chunk in chunks)
            if leaf.path is None or not leaf.mode.counts:
                continue
            counts[leaf.field_id] = sum(chunk.num_values for chunk in chunks)
            if isinstance(leaf.kind, UUIDType):
                # Java compares UUIDs as two signed numbers, so they get no bounds, here or in the footer.
                nulls[leaf.field_id] = self._nulls.get(leaf.field_id, 0)
                continue
            bounds[leaf.field_id] = merged = _Bounds()
            if leaf.field_id in self._long:
                merged.widen(*self._long[leaf.field_id])
            nulls[leaf.field_id] = sum(merged.add(chunk, leaf, self._long) for chunk in chunks)
        kept = {leaf.field_id: leaf for leaf in self.columns if leaf.mode.bounds and leaf.field_id in bounds}
        lower = {key: bounds[key].lower(leaf) for key, leaf in kept.items()}
        upper = {key: bounds[key].upper(leaf) for key, leaf in kept.items()}
        return {
            "record_count": footer.num_rows,
            "column_sizes": sizes,
            "value_counts": counts,
            "null_value_counts": nulls,
            "nan_value_counts": self._nans,
            "lower_bounds": {key: bound for key, bound in lower.items() if bound is not None},
            "upper_bounds": {key: bound for key, bound in upper.items() if bound is not None},
            "split_offsets": sorted(_start(group.column(0)) for group in groups),
        }


@dataclass
class _Bounds:
    """The bounds of a column; unknown if a row group has no statistics."""

    low: Any = None
    high: Any = None
    known: bool = True

    def add(self, chunk: Any, leaf: Leaf, long: dict[int, Any]) -> int:  # noqa: ANN401 - PyArrow has no types
        """Add a column chunk and return its null count."""
        statistics = chunk.statistics
        nulls = int(statistics.null_count)
        if not leaf.mode.bounds or nulls == chunk.num_values:
            return nulls
        if statistics.has_min_max:
            self.widen(_decoded(leaf.kind, statistics.min_raw), _decoded(leaf.kind, statistics.max_raw))
        elif leaf.field_id not in long and not isinstance(leaf.kind, FloatType | DoubleType):
            # Only floats can lack statistics safely: all values are NaN, which bounds never include.
            self.known = False
        return nulls

    def widen(self, low: Any, high: Any) -> None:  # noqa: ANN401 - of the column's type
        self.low = low if self.low is None else min(self.low, low)
        self.high = high if self.high is None else max(self.high, high)

    def lower(self, leaf: Leaf) -> bytes | None:
        return truncated(encoded(leaf.kind, self.low), leaf) if self.known and self.low is not None else None

    def upper(self, leaf: Leaf) -> bytes | None:
        return rounded_up(encoded(leaf.kind, self.high), leaf) if self.known and self.high is not None else None


def _decoded(kind: PrimitiveType, raw: Any) -> Any:  # noqa: ANN401 - Parquet's physical value
    """Return a physical value in a form with the same order as the column."""
    return int.from_bytes(raw, "big", signed=True) if isinstance(kind, DecimalType) and isinstance(raw, bytes) else raw


def encoded(kind: PrimitiveType, value: Any) -> bytes:  # noqa: ANN401 - Parquet's physical value
    """Return a bound in Iceberg's single-value serialization.

    It is computed from physical values, because Python cannot represent all dates and timestamps.
    """
    if isinstance(kind, BooleanType):
        return b"\x01" if value else b"\x00"
    if isinstance(kind, FloatType):
        return struct.pack("<f", value)
    if isinstance(kind, DoubleType):
        return struct.pack("<d", value)
    if isinstance(kind, DecimalType):
        length = (value if value >= 0 else ~value).bit_length() // 8 + 1
        return int(value).to_bytes(length, "big", signed=True)
    if isinstance(value, bytes):
        return value
    return struct.pack("<q" if isinstance(kind, _EIGHT_BYTES) else "<i", value)


def truncated(bound: bytes, leaf: Leaf) -> bytes:
    """Truncate a lower bound to the length in the column's mode."""
    if leaf.mode.length is None:
        return bound
    if isinstance(leaf.kind, StringType):
        return bound.decode()[: leaf.mode.length].encode()
    return bound[: leaf.mode.length] if isinstance(leaf.kind, BinaryType) else bound


def rounded_up(bound: bytes, leaf: Leaf) -> bytes | None:
    """Truncate an upper bound to the length in the column's mode and round it up; None if that is impossible."""
    if leaf.mode.length is None:
        return bound
    if isinstance(leaf.kind, StringType):
        text = bound.decode()
        return bound if len(text) <= leaf.mode.length else _next_text(text[: leaf.mode.length])
    if isinstance(leaf.kind, BinaryType) and len(bound) > leaf.mode.length:
        kept = bound[: leaf.mode.length].rstrip(b"\xff")
        return kept[:-1] + bytes([kept[-1] + 1]) if kept else None
    return bound


def _next_text(text: str) -> bytes | None:
    for position in range(len(text) - 1, -1, -1):
        following = ord(text[position]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CODE_POINT:
            return (text[:position] + chr(following)).encode()
    return None


def _values(rows: pa.Table, path: tuple[int, ...]) -> pa.ChunkedArray:
    values = rows.column(path[0])
    return pc.struct_field(values, list(path[1:])) if len(path) > 1 else values


def _start(chunk: Any) -> int:  # noqa: ANN401 - PyArrow has no types
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(min(dictionary, chunk.data_page_offset) if dictionary else chunk.data_page_offset)
