"""Map the columns of a data file to Iceberg fields, and normalize their values across file formats."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from floe_audit.spec.values import INTEGRAL, MICROS_PER_DAY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_audit.spec.schemas import Type

_ID_KEYS = (b"PARQUET:field_id", b"iceberg.id")
_UNITS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 0}


@dataclass(frozen=True)
class Node:
    """A field of a file's schema, at any depth."""

    id: int | None
    path: tuple[str, ...]
    type: pa.DataType
    repeated: bool
    leaf: bool


def nodes(schema: pa.Schema) -> list[Node]:
    """Return the fields of a file's schema, parents before children."""
    return [node for one in schema for node in _nodes(one, (), repeated=False)]


def _nodes(one: pa.Field, parents: tuple[str, ...], *, repeated: bool) -> Iterator[Node]:
    path = (*parents, one.name)
    kind = plain_type(one.type)
    children: list[tuple[pa.Field, str]] = []
    if pa.types.is_struct(kind):
        children = [(kind.field(place), kind.field(place).name) for place in range(kind.num_fields)]
    elif pa.types.is_map(kind):
        children = [(kind.key_field, "key"), (kind.item_field, "value")]
    elif is_list(kind):
        children = [(kind.value_field, "element")]
    yield Node(field_id(one), path, kind, repeated, leaf=not children)
    for child, role in children:
        inside = repeated or not pa.types.is_struct(kind)
        yield from _nodes(child.with_name(role), path, repeated=inside)


def is_list(kind: pa.DataType) -> bool:
    """Whether a type is a list of any width."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension or dictionary type."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if pa.types.is_dictionary(kind) else kind


def field_id(one: pa.Field) -> int | None:
    """Return the field id of a column in a file."""
    for key in _ID_KEYS:
        raw = (one.metadata or {}).get(key)
        if raw is not None and raw.lstrip(b"-").isdigit() and int(raw) >= 0:
            return int(raw)
    return None


def mapped_ids(mapping: str | None) -> dict[tuple[str, ...], int]:
    """Parse a name mapping into field ids by column path."""
    ids: dict[tuple[str, ...], int] = {}

    def collect(members: Any, parents: tuple[str, ...]) -> None:
        for one in members if isinstance(members, list) else []:
            for name in one.get("names") or []:
                if isinstance(one.get("field-id"), int):
                    ids[(*parents, name)] = one["field-id"]
                collect(one.get("fields"), (*parents, name))

    try:
        collect(json.loads(mapping or "[]"), ())
    except (ValueError, AttributeError):
        return {}
    return ids


def column_values(array: pa.Array, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], pa.Array]]:
    """Yield the values of a column's leaves; children of a null parent are null."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        yield from column_values(array.storage, path)
    elif pa.types.is_dictionary(kind):
        yield path, array.cast(kind.value_type)
    elif pa.types.is_struct(kind):
        for place, child in enumerate(array.flatten()):
            yield from column_values(child, (*path, kind.field(place).name))
    elif pa.types.is_map(kind):
        # Slice by the offsets, to exclude entries outside the array's own slice.
        offsets = array.offsets
        start, end = (offsets[0].as_py(), offsets[-1].as_py()) if len(offsets) else (0, 0)
        yield from column_values(array.keys.slice(start, end - start), (*path, "key"))
        yield from column_values(array.items.slice(start, end - start), (*path, "value"))
    elif is_list(kind):
        yield from column_values(array.flatten(), (*path, "element"))
    else:
        yield path, array


def fits(written: pa.DataType, kind: Type) -> bool:  # noqa: C901, PLR0911, PLR0912 - a table of types
    """Whether a file may store a column of this type as the given Arrow type, including promotions."""
    match kind.name:
        case "boolean":
            return bool(pa.types.is_boolean(written))
        case "int":
            return written in {pa.int32(), pa.int16(), pa.int8()}
        case "long":
            return written in {pa.int64(), pa.int32(), pa.int16(), pa.int8()}
        case "float":
            return bool(written == pa.float32())
        case "double":
            return written in {pa.float64(), pa.float32()}
        case "date":
            return bool(written == pa.date32())
        case "time":
            return bool(pa.types.is_time(written)) or written == pa.int64()
        case "timestamp" | "timestamp_ns":
            return bool(pa.types.is_timestamp(written) and written.tz is None) or written == pa.date32()
        case "timestamptz" | "timestamptz_ns":
            return bool(pa.types.is_timestamp(written) and written.tz is not None)
        case "string":
            return is_text(written) or is_bytes(written)
        case "binary" | "geometry" | "geography":
            return is_bytes(written)
        case "uuid":
            return bool(written == pa.binary(16)) or is_bytes(written)
        case "fixed":
            return bool(written == pa.binary(kind.length)) or is_bytes(written)
        case "decimal":
            same_scale = pa.types.is_decimal(written) and written.scale == kind.scale
            return bool(same_scale and written.precision <= kind.precision)
        case "struct" | "variant":
            return bool(pa.types.is_struct(written))
        case "list":
            return is_list(written)
        case "map":
            return bool(pa.types.is_map(written))
    return kind.name == "unknown"


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is a string type."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a type is a variable-length binary type."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


def normal(array: pa.Array, kind: Type) -> pa.Array:
    """Normalize values: numbers to int64 in the type's unit, floats to float64, others to binary or decimal256."""
    written = array.type
    if kind.name == "boolean":
        return array
    if kind.floating:
        return array.cast(pa.float64())
    if kind.name == "decimal":
        return array.cast(pa.decimal256(76, kind.scale))
    if kind.name in INTEGRAL:
        return _numbers(array, written, kind)
    if pa.types.is_fixed_size_binary(written):
        return array.cast(pa.binary())
    if pa.types.is_string_view(written):
        array = array.cast(pa.large_string())
    return array.cast(pa.large_binary())


def _numbers(array: pa.Array, written: pa.DataType, kind: Type) -> pa.Array:
    nanos = kind.name.endswith("_ns")
    if pa.types.is_date32(written):
        days = array.cast(pa.int32()).cast(pa.int64())
        if kind.name == "date":
            return days
        return pc.multiply(days, MICROS_PER_DAY * (1000 if nanos else 1))
    if pa.types.is_time32(written):
        return pc.multiply(array.cast(pa.int32()).cast(pa.int64()), _UNITS[written.unit])
    if pa.types.is_timestamp(written) or pa.types.is_time64(written):
        numbers = array.cast(pa.int64())
        if written.unit == "ns":
            return numbers if nanos else _floor(numbers, 1000)
        factor = _UNITS[written.unit] * (1000 if nanos else 1)
        return numbers if factor == 1 else pc.multiply(numbers, factor)
    return array.cast(pa.int64())


def _floor(numbers: pa.Array, width: int) -> pa.Array:
    halves = pc.divide(numbers, width)
    low = pc.and_(pc.less(numbers, 0), pc.not_equal(pc.multiply(halves, width), numbers))
    return pc.if_else(low, pc.subtract(halves, 1), halves)
