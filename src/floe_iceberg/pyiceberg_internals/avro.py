"""Private API of PyIceberg's Avro files: manifests and manifest lists."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TypeVar

from pyiceberg.avro.codecs import KNOWN_CODECS
from pyiceberg.avro.encoder import BinaryEncoder
from pyiceberg.avro.reader import DoubleReader
from pyiceberg.manifest import _inherit_from_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.avro.codecs.codec import Codec
    from pyiceberg.avro.decoder import BinaryDecoder
    from pyiceberg.avro.file import AvroFile, AvroFileHeader, AvroOutputFile
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.typedef import StructProtocol

D = TypeVar("D", bound="StructProtocol")


def inherit_from_manifest(entry: ManifestEntry, manifest: ManifestFile) -> ManifestEntry:
    """Set the values that an entry inherits from its manifest: sequence numbers, snapshot id and partition spec.

    Why: ``ManifestFile.fetch_manifest_entry`` does this, but reads records without the field that references the data
    file of a delete file.
    """
    return _inherit_from_manifest(entry, manifest)


def read_header(file: AvroFile[D]) -> AvroFileHeader:
    """Read the header of a file whose decoder is at its start.

    Why: ``AvroFile.__enter__`` also builds a reader for whole records, which floe replaces with a reader for a few
    fields.
    """
    return file._read_header()  # noqa: SLF001 - see above


def encoded_record(output: AvroOutputFile[D], record: D) -> bytes:
    """Return a record as encoded in a block of a file.

    Why: ``AvroOutputFile.write_block`` encodes every record again, but consecutive manifest lists share most records.
    """
    buffer = io.BytesIO()
    output.writer.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def write_encoded_block(output: AvroOutputFile[D], count: int, content: bytes) -> None:
    """Write a block of encoded records.

    Why: see ``encoded_record``.

    Args:
        output: The open file.
        count: Number of records.
        content: The encoded records, one after the other.
    """
    output.encoder.write_int(count)
    if (codec := output.compression_codec()) is not None:
        content, _ = codec.compress(content)
    output.encoder.write_int(len(content))
    output.encoder.write(content)
    output.encoder.write(output.sync_bytes)


def register_codec(name: str, codec: type[Codec]) -> None:
    """Register a codec for reading and writing Avro files; replaces a codec of the same name.

    Why: PyIceberg has no public API for adding codecs.
    """
    KNOWN_CODECS[name] = codec  # type: ignore[index]


def read_doubles_with(read: Callable[[DoubleReader, BinaryDecoder], float]) -> None:
    """Replace the function that reads doubles in Avro files.

    Why: PyIceberg 0.12's compiled decoder returns a 32-bit float, and PyIceberg has no way to use another decoder.
    """
    setattr(DoubleReader, "read", read)  # noqa: B010 - mypy refuses to assign a method
