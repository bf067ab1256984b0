"""Checks, before any data is read or written, whether floe can process a table without an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import FixedType

from floe_core.errors import CapabilityError
from floe_iceberg.formats.avro_codecs import manifest_codec
from floe_iceberg.formats.partitioning import spec_schema
from floe_iceberg.names import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

# PyIceberg reads format version 3 but does not write it.
NEWEST_WRITABLE_VERSION = 2


def require_writable(table: Table) -> None:
    """Require that floe can write a snapshot of a table in process.

    Raises:
        CapabilityError: The table's format version is too new.
        ConfigurationError: The table's properties set an unsupported codec.
    """
    if table.metadata.format_version > NEWEST_WRITABLE_VERSION:
        msg = (
            f"Table '{name_of(table)}' has format version {table.metadata.format_version}, which only Spark can write."
        )
        raise CapabilityError(msg, hint="Pass engine='spark'.", table=name_of(table))
    manifest_codec(table.metadata.properties, table=name_of(table))


def require_known_partitions(table: Table, spec_ids: Iterable[int]) -> None:
    """Require that floe can read the manifests of partition specs in process.

    Iceberg's Java implementation writes partition values of a fixed type with a length prefix, which Avro's fixed type
    does not have. All fields after such a value are misread, which is not always detected as corruption.

    Raises:
        CapabilityError: A spec partitions by a column of a fixed type; the error names the column.
    """
    metadata = table.metadata
    for spec_id in set(spec_ids):
        schema = spec_schema(metadata, spec_id)
        for field in metadata.specs()[spec_id].fields:
            kind = schema.find_type(field.source_id) if field.source_id in schema.field_ids else None
            if isinstance(field.transform, IdentityTransform) and isinstance(kind, FixedType):
                column = schema.find_column_name(field.source_id)
                msg = f"Table '{name_of(table)}' is partitioned by column '{column}' of type {kind}, which needs Spark."
                hint = f"Pass engine='spark', or read it with manager.frame('{name_of(table)}')."
                raise CapabilityError(msg, hint=hint, table=name_of(table))
