"""Manifests, written by PyIceberg's encoder with the header that the specification asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.manifest import ManifestWriter, ManifestWriterV1, ManifestWriterV2

from floe_iceberg.partitioning import spec_schema

if TYPE_CHECKING:
    from pyiceberg.avro.codecs import AvroCompressionCodec
    from pyiceberg.io import OutputFile
    from pyiceberg.table.metadata import TableMetadata


class _Version1(ManifestWriterV1):
    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "schema-id": str(self._schema.schema_id)}


class _Version2(ManifestWriterV2):
    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "schema-id": str(self._schema.schema_id)}


def manifest_writer(
    metadata: TableMetadata,
    spec_id: int,
    *,
    output_file: OutputFile,
    snapshot_id: int,
    codec: AvroCompressionCodec,
) -> ManifestWriter:
    """Return a writer of a manifest of one partition spec; format version 1 or 2."""
    writer = _Version1 if metadata.format_version == 1 else _Version2
    return writer(metadata.specs()[spec_id], spec_schema(metadata, spec_id), output_file, snapshot_id, codec)
