"""Avro container files: header, blocks and records, decoded without logical types.

Records are decoded with fastavro. Dates stay numbers, because a table may contain dates outside the range of Python's
``datetime``.
"""

from __future__ import annotations

import bz2
import io
import json
import lzma
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import fastavro
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"Obj\x01"
_SYNC_BYTES = 16
_CHECKSUM_BYTES = 4
_HEADER_SCHEMA = fastavro.parse_schema({"type": "map", "values": "bytes"})


class DamagedFileError(Exception):
    """A file is damaged; the message says why."""


@dataclass(frozen=True)
class AvroFile:
    """The header of an Avro file, with its records read on demand."""

    metadata: dict[str, bytes]
    schema: dict[str, Any]
    content: bytes
    start: int

    def text(self, key: str) -> str | None:
        """Return a header entry as text."""
        value = self.metadata.get(key)
        return None if value is None else value.decode("utf-8", errors="replace")

    def records(self) -> Iterator[dict[str, Any]]:
        """Decode the records, in order.

        Raises:
            DamagedFileError: A block or record cannot be decoded.
        """
        schema = fastavro.parse_schema(cast("Any", _without_logical_types(self.schema)))
        for count, block in self._blocks():
            stream = io.BytesIO(block)
            for _ in range(count):
                try:
                    yield cast("dict[str, Any]", fastavro.schemaless_reader(stream, schema, None))
                except Exception as err:
                    msg = f"Cannot decode a record: {err or type(err).__name__}"
                    raise DamagedFileError(msg) from err
            if stream.tell() != len(block):
                msg = "A block has bytes after its last record"
                raise DamagedFileError(msg)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        sync = self.content[self.start - _SYNC_BYTES : self.start]
        codec = self.text("avro.codec") or "null"
        position = self.start
        while position < len(self.content):
            count, position = _long(self.content, position)
            size, position = _long(self.content, position)
            end = position + size
            if count < 0 or size < 0 or end + _SYNC_BYTES > len(self.content):
                msg = "A block extends beyond the end of the file"
                raise DamagedFileError(msg)
            if self.content[end : end + _SYNC_BYTES] != sync:
                msg = "A sync marker is wrong"
                raise DamagedFileError(msg)
            yield count, _decompress(codec, self.content[position:end])
            position = end + _SYNC_BYTES


def open_avro(content: bytes) -> AvroFile:
    """Read the header of an Avro file.

    Raises:
        DamagedFileError: The bytes are not an Avro file.
    """
    if content[: len(_MAGIC)] != _MAGIC:
        msg = "This is not an Avro file"
        raise DamagedFileError(msg)
    stream = io.BytesIO(content)
    stream.seek(len(_MAGIC))
    try:
        metadata = cast("dict[str, bytes]", fastavro.schemaless_reader(stream, _HEADER_SCHEMA, None))
        schema = json.loads(metadata["avro.schema"])
        # All header values of a manifest are text, and readers decode all of them.
        for value in metadata.values():
            value.decode("utf-8")
    except Exception as err:
        msg = f"Cannot decode the Avro header: {err or type(err).__name__}"
        raise DamagedFileError(msg) from err
    if not isinstance(schema, dict):
        msg = "The Avro schema is not a record"
        raise DamagedFileError(msg)
    start = stream.tell() + _SYNC_BYTES
    if start > len(content):
        msg = "The Avro header is truncated"
        raise DamagedFileError(msg)
    return AvroFile(metadata, schema, content, start)


def unwrapped(schema: Any) -> Any:
    """Return the type inside an optional type."""
    if isinstance(schema, list):
        rest = [member for member in schema if member != "null"]
        return rest[0] if len(rest) == 1 else schema
    return schema


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_logical_types(member) for member in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("type"), (dict, list)) and "name" not in schema:
        return _without_logical_types(schema["type"])
    # Defaults only matter for schema resolution with a reader schema.
    plain = {key: value for key, value in schema.items() if key not in {"logicalType", "default"}}
    for key in ("type", "items", "values"):
        if key in plain:
            plain[key] = _without_logical_types(plain[key])
    if "fields" in plain:
        plain["fields"] = [_without_logical_types(member) for member in plain["fields"]]
    return plain


def _long(content: bytes, position: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if position >= len(content) or shift > 63:  # noqa: PLR2004 - a long has 64 bits
            msg = "A number is truncated"
            raise DamagedFileError(msg)
        byte = content[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), position
        shift += 7


def _decompress(codec: str, block: bytes) -> bytes:
    try:
        match codec:
            case "null":
                return block
            case "deflate":
                return zlib.decompress(block, wbits=-15)
            case "bzip2":
                return bz2.decompress(block)
            case "xz":
                return lzma.decompress(block)
            case "zstandard":
                with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
                    return cast("bytes", stream.read())
            case "snappy":
                body, checksum = block[:-_CHECKSUM_BYTES], block[-_CHECKSUM_BYTES:]
                plain = pa.decompress(body, decompressed_size=_unsigned(body), codec="snappy", asbytes=True)
                return _verified(cast("bytes", plain), checksum)
    except Exception as err:
        msg = f"Cannot decompress a {codec} block: {err}"
        raise DamagedFileError(msg) from err
    msg = f"Unknown codec {codec!r}"
    raise DamagedFileError(msg)


def _verified(content: bytes, checksum: bytes) -> bytes:
    if zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
        msg = "the checksum is wrong"
        raise ValueError(msg)
    return content


def _unsigned(content: bytes) -> int:
    number = 0
    for place, byte in enumerate(content):
        number |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            break
    return number
