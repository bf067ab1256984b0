"""Puffin files: footer, blobs and deletion vector bitmaps."""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from floe_audit.files.avro import DamagedFileError

if TYPE_CHECKING:
    from floe_audit.files.access import FileSource

_MAGIC = b"PFA1"
_VECTOR_MAGIC = b"\xd1\xd3\x39\x64"
_TAIL = 12
_WORD = 4
_WITH_RUNS, _WITHOUT_RUNS = 12347, 12346
_NO_OFFSETS_BELOW = 4
_ARRAY_LIMIT = 4096
_BITMAP_BYTES = 8192


@dataclass(frozen=True)
class Puffin:
    """The footer of a Puffin file."""

    size: int
    footer_size: int
    blobs: tuple[dict[str, Any], ...]


def read_footer(files: FileSource, path: str) -> Puffin:
    """Read the footer of a Puffin file.

    Raises:
        DamagedFileError: The file is not a Puffin file.
    """
    size = files.size(path)
    with files.open(path) as stream:
        head = stream.read(_WORD)
        stream.seek(max(0, size - _TAIL))
        tail = stream.read(_TAIL)
        if head != _MAGIC or tail[-_WORD:] != _MAGIC:
            _damaged("The magic bytes are wrong")
        length = int.from_bytes(tail[:_WORD], "little", signed=True)
        start = size - _TAIL - length - _WORD
        if length < 0 or start < _WORD:
            _damaged("The length of the footer is invalid")
        stream.seek(start)
        if stream.read(_WORD) != _MAGIC:
            _damaged("The footer does not start with the magic bytes")
        payload = stream.read(length)
    flags = tail[_WORD : 2 * _WORD]
    if flags[0] & ~1 or any(flags[1:]):
        _damaged("Unknown flags are set")
    try:
        if flags[0] & 1:
            with pa.CompressedInputStream(pa.BufferReader(payload), "lz4") as plain:
                payload = plain.read()
        document = json.loads(payload)
        blobs = tuple(document["blobs"])
    except Exception as err:
        msg = f"Cannot decode the footer: {err}"
        raise DamagedFileError(msg) from err
    for blob in blobs:
        names = {"type": str, "fields": list, "snapshot-id": int, "sequence-number": int, "offset": int, "length": int}
        if not isinstance(blob, dict) or not all(isinstance(blob.get(name), kind) for name, kind in names.items()):
            _damaged("The metadata of a blob is missing a field")
        if blob["offset"] < _WORD or blob["length"] < 0 or blob["offset"] + blob["length"] > start:
            _damaged("A blob is outside the file")
    return Puffin(size, size - start, blobs)


def read_blob(files: FileSource, path: str, blob: dict[str, Any]) -> bytes:
    """Read and decompress a blob.

    Raises:
        DamagedFileError: The blob cannot be decompressed.
    """
    with files.open(path) as stream:
        stream.seek(blob["offset"])
        raw = stream.read(blob["length"])
    codec = blob.get("compression-codec")
    if codec is None:
        return raw
    if codec not in {"lz4", "zstd"}:
        _damaged(f"Unknown codec {codec!r}")
    try:
        with pa.CompressedInputStream(pa.BufferReader(raw), codec) as plain:
            return bytes(plain.read())
    except Exception as err:
        msg = f"Cannot decompress a {codec} blob: {err}"
        raise DamagedFileError(msg) from err


def read_vector(blob: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Read the positions of a deletion vector.

    Raises:
        DamagedFileError: The blob is not a deletion vector, or its checksum is wrong.
    """
    minimum = 3 * _WORD + 8
    if len(blob) < minimum:
        _damaged("The deletion vector is truncated")
    if int.from_bytes(blob[:_WORD], "big") != len(blob) - 2 * _WORD:
        _damaged("The deletion vector's length is wrong")
    body = blob[_WORD:-_WORD]
    if body[:_WORD] != _VECTOR_MAGIC:
        _damaged("The deletion vector's magic bytes are wrong")
    if zlib.crc32(body) != int.from_bytes(blob[-_WORD:], "big"):
        _damaged("The deletion vector's checksum is wrong")
    try:
        return _positions(body[_WORD:])
    except (struct.error, ValueError, IndexError) as err:
        msg = f"Cannot decode the bitmap: {err}"
        raise DamagedFileError(msg) from err


def _positions(data: bytes) -> np.ndarray[Any, np.dtype[np.int64]]:
    (count,) = struct.unpack_from("<Q", data, 0)
    place = 8
    parts: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    last = -1
    for _ in range(count):
        (key,) = struct.unpack_from("<I", data, place)
        if key <= last:
            _damaged("The bitmaps are not in order")
        last = key
        low, place = _bitmap(data, place + _WORD)
        parts.append(low + (np.int64(key) << np.int64(32)))
    if place != len(data):
        _damaged("There are bytes after the last bitmap")
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _bitmap(data: bytes, place: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    """Read one 32-bit Roaring bitmap in the portable format."""
    (cookie,) = struct.unpack_from("<I", data, place)
    place += _WORD
    runs = b""
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        runs = data[place : place + (count + 7) // 8]
        place += len(runs)
    elif cookie == _WITHOUT_RUNS:
        (count,) = struct.unpack_from("<I", data, place)
        place += _WORD
    else:
        _damaged("The cookie of the bitmap is unknown")
    headers = [struct.unpack_from("<HH", data, place + 4 * one) for one in range(count)]
    place += 4 * count
    if not runs or count >= _NO_OFFSETS_BELOW:
        place += 4 * count
    parts: list[np.ndarray[Any, np.dtype[np.int64]]] = []
    for number, (key, less_one) in enumerate(headers):
        if runs and runs[number // 8] >> (number % 8) & 1:
            low, place = _run_container(data, place)
        elif less_one + 1 <= _ARRAY_LIMIT:
            size = 2 * (less_one + 1)
            low = np.frombuffer(data[place : place + size], dtype="<u2").astype(np.int64)
            place += size
        else:
            raw = np.frombuffer(data[place : place + _BITMAP_BYTES], dtype=np.uint8)
            low = np.flatnonzero(np.unpackbits(raw, bitorder="little")).astype(np.int64)
            place += _BITMAP_BYTES
        if len(low) != less_one + 1:
            _damaged("The cardinality of a container does not match its positions")
        parts.append(low + (np.int64(key) << np.int64(16)))
    return (np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)), place


def _run_container(data: bytes, place: int) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    (count,) = struct.unpack_from("<H", data, place)
    place += 2
    pairs = np.frombuffer(data[place : place + 4 * count], dtype="<u2").astype(np.int64).reshape(-1, 2)
    ranges = [np.arange(start, start + length + 1, dtype=np.int64) for start, length in pairs]
    return (np.concatenate(ranges) if ranges else np.empty(0, dtype=np.int64)), place + 4 * count


def _damaged(message: str) -> None:
    raise DamagedFileError(message)
