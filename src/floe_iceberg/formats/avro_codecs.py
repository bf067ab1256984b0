"""Compression codecs of manifests and manifest lists, with the names of Iceberg's Java implementation.

PyIceberg needs an extra package for snappy, which it does not install; floe uses PyArrow's implementation.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.avro.codecs.codec import Codec

from floe_core.errors import ConfigurationError
from floe_iceberg.pyiceberg_internals.avro import register_codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.avro.codecs import AvroCompressionCodec

# Java has a property for metadata files; PyIceberg uses the property of Avro data files for them.
_PROPERTIES = ("write.manifest.compression-codec", "write.avro.compression-codec")
_NAMES: dict[str, AvroCompressionCodec] = {
    "gzip": "deflate",
    "zstd": "zstandard",
    "snappy": "snappy",
    "uncompressed": "null",
    # PyIceberg's names.
    "deflate": "deflate",
    "zstandard": "zstandard",
    "null": "null",
}
_CHECKSUM_BYTES = 4


class SnappyCodec(Codec):
    """Snappy as specified by Avro: a raw block, followed by the checksum of its content."""

    @staticmethod
    def compress(data: bytes) -> tuple[bytes, int]:
        """Compress a block."""
        packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
        packed += zlib.crc32(data).to_bytes(_CHECKSUM_BYTES, "big")
        return packed, len(packed)

    @staticmethod
    def decompress(data: bytes) -> bytes:
        """Decompress a block.

        Raises:
            ValueError: The block is damaged.
        """
        packed, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
        content: bytes = pa.decompress(packed, _snappy_length(packed), codec="snappy", asbytes=True)
        if zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") != checksum:
            msg = "Checksum mismatch in a snappy block"
            raise ValueError(msg)
        return content


def _snappy_length(packed: bytes) -> int:
    """Return the length at the start of the block, seven bits per byte in little-endian order."""
    length = 0
    for position, byte in enumerate(packed):
        length |= (byte & 0x7F) << 7 * position
        if byte < 0x80:  # noqa: PLR2004 - the highest bit marks a continuation
            return length
    msg = "A snappy block has no length"
    raise ValueError(msg)


register_codec("snappy", SnappyCodec)


def manifest_codec(properties: Mapping[str, str], *, table: str) -> AvroCompressionCodec:
    """Return the Avro name of the codec for a table's manifests and manifest lists, gzip by default.

    Raises:
        ConfigurationError: The table's properties set an unsupported codec.
    """
    for name in _PROPERTIES:
        if (value := properties.get(name)) is not None:
            if (codec := _NAMES.get(value.lower())) is not None:
                return codec
            msg = f"Table '{table}' sets {name} to '{value}', which is not supported."
            raise ConfigurationError(msg, hint="Use gzip, zstd, snappy or uncompressed.", table=table)
    return "deflate"
