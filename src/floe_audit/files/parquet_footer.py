"""Decode Parquet footers before PyArrow does: a damaged footer can crash PyArrow and abort the process."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from floe_audit.files.avro import DamagedFileError

_MAGIC = b"PAR1"
_TAIL = 8
_TRUE, _FALSE = 1, 2
_MAX_DEPTH = 32
# Physical types by their number in the Parquet format.
_FORMATS = {1: "<i", 2: "<q", 4: "<f", 5: "<d"}
_BOOLEAN = 0
_CODECS, _TYPES = 8, 8


@dataclass(frozen=True)
class Chunk:
    """One column of one row group."""

    values: int
    size: int
    start: int
    nulls: int | None
    lower: Any
    upper: Any
    """Minimum and maximum in physical form; None if the footer has no exact ones."""


@dataclass(frozen=True)
class ParquetFooter:
    """The decoded footer of a Parquet file."""

    rows: int
    row_groups: tuple[tuple[Chunk, ...], ...]


def parse_footer(size: int, tail: bytes) -> ParquetFooter:
    """Decode a footer from the last bytes of a file.

    Raises:
        DamagedFileError: The footer cannot be decoded or is inconsistent.
    """
    length = footer_length(tail)
    if length + _TAIL > len(tail):
        _damaged("The footer is longer than the file")
    try:
        document, _ = _struct(tail[-_TAIL - length : -_TAIL], 0, 0)
        schema, groups = document[2], document.get(4, [])
        leaves = [one for one in schema if not one.get(5)]
        rows = document[3]
        if sum(group[3] for group in groups) != rows:
            _damaged("The row counts of the row groups do not add up to that of the file")
        read = tuple(tuple(_chunks(group, leaves, size)) for group in groups)
    except DamagedFileError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, struct.error, RecursionError, AttributeError) as err:
        msg = f"Cannot decode the Parquet footer: {err!r}"
        raise DamagedFileError(msg) from err
    _check_tree(schema)
    return ParquetFooter(rows, read)


def footer_length(tail: bytes) -> int:
    """Return the length of a footer from a file's last bytes.

    Raises:
        DamagedFileError: The file does not end with the Parquet magic bytes.
    """
    if tail[-4:] != _MAGIC:
        _damaged("The file does not end with the Parquet magic bytes")
    return int.from_bytes(tail[-8:-4], "little")


def _check_tree(schema: list[dict[int, Any]]) -> None:
    """Check that the schema elements form a tree and have the attributes that readers require."""
    expected = 1
    for place, one in enumerate(schema):
        expected -= 1
        if expected < 0:
            break
        expected += one.get(5) or 0
        kind = one.get(1)
        if not one.get(5) and (not isinstance(kind, int) or not 0 <= kind < _TYPES) and place:
            _damaged("A column has no type")
        if not isinstance(one.get(4), bytes) or (place and one.get(3) not in {0, 1, 2}):
            _damaged("A column has no name or repetition")
    if expected != 0:
        _damaged("The schema is not a tree")


def _chunks(group: dict[int, Any], leaves: list[dict[int, Any]], size: int) -> list[Chunk]:
    columns = group[1]
    if len(columns) != len(leaves):
        _damaged("A row group does not contain all columns")
    found = []
    for column, leaf in zip(columns, leaves, strict=True):
        details = column[3]
        if details[1] != leaf.get(1) or not 0 <= details[4] < _CODECS:
            _damaged("The type or codec of a column chunk is invalid")
        start = details[9]
        if 11 in details and 0 < details[11] < start:  # noqa: PLR2004 - dictionary_page_offset
            start = details[11]
        if start < len(_MAGIC) or details[7] < 0 or start + details[7] > size or details[5] < 0:
            _damaged("A column chunk is outside the file")
        lower, upper, nulls = _statistics(details.get(12), details[1])
        found.append(Chunk(details[5], details[7], start, nulls, lower, upper))
    return found


def _statistics(document: dict[int, Any] | None, kind: int) -> tuple[Any, Any, int | None]:
    if document is None:
        return None, None, None
    exact = document.get(7) is not False and document.get(8) is not False
    raw = (document.get(6), document.get(5)) if exact else (None, None)
    try:
        lower, upper = (None if one is None else _plain(one, kind) for one in raw)
    except struct.error:
        lower = upper = None
    return lower, upper, document.get(3)


def _plain(raw: bytes, kind: int) -> Any:
    if kind == _BOOLEAN:
        return raw != b"\x00"
    return struct.unpack(_FORMATS[kind], raw)[0] if kind in _FORMATS else raw


def _struct(data: bytes, place: int, depth: int) -> tuple[dict[int, Any], int]:
    """Read a struct in Thrift's compact protocol, as fields by number."""
    if depth > _MAX_DEPTH:
        _damaged("The footer is nested too deeply")
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[place]
        place += 1
        if head == 0:
            return fields, place
        kind, step = head & 0x0F, head >> 4
        if step:
            number += step
        else:
            raw, place = _varint(data, place)
            number = (raw >> 1) ^ -(raw & 1)
        if kind in {_TRUE, _FALSE}:
            fields[number] = kind == _TRUE
        else:
            fields[number], place = _value(data, place, kind, depth)


def _value(data: bytes, place: int, kind: int, depth: int) -> tuple[Any, int]:  # noqa: C901, PLR0911 - a table of types
    match kind:
        case 1 | 2:  # booleans in lists use one byte
            return data[place] == 1, place + 1
        case 3:
            return data[place], place + 1
        case 4 | 5 | 6:
            raw, place = _varint(data, place)
            return (raw >> 1) ^ -(raw & 1), place
        case 7:
            return struct.unpack("<d", data[place : place + 8])[0], place + 8
        case 8:
            length, place = _varint(data, place)
            if place + length > len(data):
                _damaged("A string extends beyond the end of the footer")
            return data[place : place + length], place + length
        case 9 | 10:
            head = data[place]
            place += 1
            count, inner = head >> 4, head & 0x0F
            if count == 15:  # noqa: PLR2004 - a longer list
                count, place = _varint(data, place)
            if count > len(data):
                _damaged("A list is longer than the footer")
            items = []
            for _ in range(count):
                item, place = _value(data, place, inner, depth + 1)
                items.append(item)
            return items, place
        case 12:
            return _struct(data, place, depth + 1)
    msg = f"Thrift type {kind} is not valid in footers"
    raise DamagedFileError(msg)


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return number, place
        shift += 7
        if shift > 70:  # noqa: PLR2004 - a number has 64 bits
            _damaged("A number is too long")


def _damaged(message: str) -> None:
    raise DamagedFileError(message)
