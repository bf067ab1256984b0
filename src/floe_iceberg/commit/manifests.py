"""Manifest writers that extend PyIceberg's encoder to match the Iceberg specification and Java."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import (
    MANIFEST_ENTRY_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestWriter,
    ManifestWriterV1,
    ManifestWriterV2,
    data_file_with_partition,
    manifest_entry_schema_with_data_file,
)
from pyiceberg.types import DoubleType, FloatType, StructType, UUIDType

from floe_iceberg.formats.partitioning import spec_schema
from floe_iceberg.pyiceberg_internals.avro import inherit_from_manifest

if TYPE_CHECKING:
    from pyiceberg.avro.codecs import AvroCompressionCodec
    from pyiceberg.io import FileIO, OutputFile
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.typedef import Record, TableVersion


# Positions of the bounds in a partition field summary, with the sign of zero to use if both zeros occur.
_LOWER, _UPPER = 2, 3
_BOUNDS = {_LOWER: -1.0, _UPPER: 1.0}


# PyIceberg only has referenced_data_file in its version 3 record; these are the other fields that version 2 lacks.
_WITH_REFERENCE: TableVersion = 3
_ONLY_IN_VERSION_3 = frozenset({142, 144, 145})

# The sign bits of both halves of a UUID.
_SIGNS = 1 << 127 | 1 << 63


class _OrderedAsInJava(ManifestWriter):
    """Manifest writer that orders partition summaries like Java, which would otherwise skip manifests wrongly.

    Java orders -0.0 below 0.0, where PyIceberg keeps the first zero, and compares UUIDs as two signed numbers.
    """

    def __init__(
        self,
        spec: PartitionSpec,
        schema: Schema,
        output_file: OutputFile,
        snapshot_id: int,
        avro_compression: AvroCompressionCodec,
    ) -> None:
        super().__init__(spec, schema, output_file, snapshot_id, avro_compression)
        self.partition_type = spec.partition_type(schema)
        self.schema_id = schema.schema_id
        self.partitions: list[Record] = []

    def add_entry(self, entry: ManifestEntry) -> ManifestWriter:
        self.partitions.append(entry.data_file.partition)
        return super().add_entry(entry)

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        writer = super().new_writer()
        writer.metadata = {**writer.metadata, "schema-id": str(self.schema_id)}
        return writer

    def to_manifest_file(self) -> ManifestFile:
        manifest = super().to_manifest_file()
        fields = self.partition_type.fields
        for position, (field, summary) in enumerate(zip(fields, manifest.partitions or (), strict=True)):
            if isinstance(field.field_type, UUIDType) and summary[_LOWER] is not None:
                known = sorted(
                    (found[position] for found in self.partitions if found[position] is not None),
                    key=lambda value: value.int ^ _SIGNS,
                )
                summary[_LOWER], summary[_UPPER] = known[0].bytes, known[-1].bytes
            if not isinstance(field.field_type, DoubleType | FloatType):
                continue
            signs = {math.copysign(1.0, found[position]) for found in self.partitions if found[position] == 0}
            for bound, sign in _BOUNDS.items():
                zero: object = 0.0
                if (
                    sign in signs
                    and summary[bound] is not None
                    and from_bytes(field.field_type, summary[bound]) == zero
                ):
                    summary[bound] = to_bytes(field.field_type, math.copysign(0.0, sign))
        return manifest


class _Version1(_OrderedAsInJava, ManifestWriterV1):
    """Writer for manifests of format version 1."""


class _Version2(_OrderedAsInJava, ManifestWriterV2):
    """Writer for manifests of format version 2."""


class _Deletes(_Version2):
    """Writer for delete manifests that includes referenced_data_file, which PyIceberg omits."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        writer = super().new_writer()
        return AvroOutputFile[ManifestEntry](
            output_file=writer.output_file,
            file_schema=self._schema_without(_ONLY_IN_VERSION_3),
            record_schema=self._schema_without(frozenset()),
            schema_name=writer.schema_name,
            metadata={**writer.metadata, "content": "deletes"},
        )

    def _schema_without(self, omitted: frozenset[int]) -> Schema:
        full = data_file_with_partition(partition_type=self.partition_type, format_version=_WITH_REFERENCE)
        kept = StructType(*(field for field in full.fields if field.field_id not in omitted))
        return manifest_entry_schema_with_data_file(format_version=2, data_file=kept)


def delete_entries(manifest: ManifestFile, io: FileIO) -> list[ManifestEntry]:
    """Read the live entries of a delete manifest, including the fields that the writer needs."""
    with AvroFile[ManifestEntry](
        io.new_input(manifest.manifest_path),
        MANIFEST_ENTRY_SCHEMAS[_WITH_REFERENCE],
        read_types={-1: ManifestEntry, 2: DataFile},
        read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
    ) as reader:
        live = (entry for entry in reader if entry.status != ManifestEntryStatus.DELETED)
        return [inherit_from_manifest(entry, manifest) for entry in live]


def manifest_writer(  # noqa: PLR0913 - options by keyword
    metadata: TableMetadata,
    spec_id: int,
    *,
    output_file: OutputFile,
    snapshot_id: int,
    codec: AvroCompressionCodec,
    content: ManifestContent = ManifestContent.DATA,
) -> ManifestWriter:
    """Return a manifest writer for one partition spec, in format version 1 or 2."""
    writer: type[ManifestWriter] = _Version1 if metadata.format_version == 1 else _Version2
    if content is ManifestContent.DELETES:
        writer = _Deletes
    return writer(metadata.specs()[spec_id], spec_schema(metadata, spec_id), output_file, snapshot_id, codec)
