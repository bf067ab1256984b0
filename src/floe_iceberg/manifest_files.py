"""Manifests, written by PyIceberg's encoder with the header that the specification asks for."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import ManifestWriter, ManifestWriterV1, ManifestWriterV2
from pyiceberg.types import DoubleType, FloatType, UUIDType

from floe_iceberg.partitioning import spec_schema

if TYPE_CHECKING:
    from pyiceberg.avro.codecs import AvroCompressionCodec
    from pyiceberg.io import OutputFile
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table.metadata import TableMetadata


# Where a summary of a partition field keeps its bounds, each with the sign that belongs there when both zeros occur.
_LOWER, _UPPER = 2, 3
_BOUNDS = {_LOWER: -1.0, _UPPER: 1.0}


# The signs of both halves of a UUID.
_SIGNS = 1 << 127 | 1 << 63


class _OrderedAsInJava(ManifestWriter):
    """Orders partition summaries as Java does, which would skip manifests by any other order.

    It puts -0.0 below 0.0, where PyIceberg keeps the zero that came first, and takes a UUID for two signed numbers.
    """

    def to_manifest_file(self) -> ManifestFile:
        manifest = super().to_manifest_file()
        fields = self._spec.partition_type(self._schema).fields
        for place, (field, summary) in enumerate(zip(fields, manifest.partitions or (), strict=True)):
            if isinstance(field.field_type, UUIDType) and summary[_LOWER] is not None:
                known = sorted(
                    (found[place] for found in self._partitions if found[place] is not None),
                    key=lambda value: value.int ^ _SIGNS,
                )
                summary[_LOWER], summary[_UPPER] = known[0].bytes, known[-1].bytes
            if not isinstance(field.field_type, DoubleType | FloatType):
                continue
            signs = {math.copysign(1.0, found[place]) for found in self._partitions if found[place] == 0}
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
    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "schema-id": str(self._schema.schema_id)}


class _Version2(_OrderedAsInJava, ManifestWriterV2):
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
