"""PyIceberg's Avro files: manifests and manifest lists."""

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
    """Give an entry what it inherits from its manifest: sequence numbers, snapshot id and partition spec.

    Why: ``ManifestFile.fetch_manifest_entry`` does so, but reads records without the field that says which data file
    a delete file belongs to.
    """
    return _inherit_from_manifest(entry, manifest)


def read_header(file: AvroFile[D]) -> AvroFileHeader:
    """Read the header of a file whose decoder is at its beginning.

    Why: ``AvroFile.__enter__`` goes on to build a reader for whole records, which floe replaces with one for a few
    fields.
    """
    return file._read_header()  # noqa: SLF001 - see above


def encoded_record(output: AvroOutputFile[D], record: D) -> bytes:
    """Return a record as it stands in a block of a file.

    Why: ``AvroOutputFile.write_block`` encodes every record anew, although a manifest list repeats those of the last.
    """
    buffer = io.BytesIO()
    output.writer.write(BinaryEncoder(buffer), record)
    return buffer.getvalue()


def write_encoded_block(output: AvroOutputFile[D], count: int, content: bytes) -> None:
    """Write a block of records that are encoded already.

    Why: see ``encoded_record``.

    Args:
        output: The open file.
        count: How many records.
        content: The encoded records, one after the other.
    """
    output.encoder.write_int(count)
    if (codec := output.compression_codec()) is not None:
        content, _ = codec.compress(content)
    output.encoder.write_int(len(content))
    output.encoder.write(content)
    output.encoder.write(output.sync_bytes)


def register_codec(name: str, codec: type[Codec]) -> None:
    """Let PyIceberg read and write Avro files with a codec; replaces the codec of the same name.

    Why: PyIceberg finds codecs in a table that has no public way to add one.
    """
    KNOWN_CODECS[name] = codec  # type: ignore[index]


def read_doubles_with(read: Callable[[DoubleReader, BinaryDecoder], float]) -> None:
    """Replace the function that reads a double in an Avro file.

    Why: PyIceberg 0.12's compiled decoder returns a float of 32 bits, and cannot be subclassed where PyIceberg makes
    it.
    """
    setattr(DoubleReader, "read", read)  # noqa: B010 - mypy refuses to assign a method
