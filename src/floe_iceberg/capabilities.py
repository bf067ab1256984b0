"""What a table must be like for a write in process; asked before the first byte is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import CapabilityError
from floe_iceberg.avro_codecs import manifest_codec
from floe_iceberg.versions import name_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

# PyIceberg reads format version 3 and does not write it.
NEWEST_WRITTEN = 2


def require_writable(table: Table) -> None:
    """Make sure that a snapshot of a table can be written in process.

    Raises:
        CapabilityError: The table's format version is too new.
        ConfigurationError: The table's properties ask for a codec that is not supported.
    """
    if table.metadata.format_version > NEWEST_WRITTEN:
        msg = f"Table '{name_of(table)}' has format version {table.metadata.format_version}, which only Spark writes."
        raise CapabilityError(msg, hint="Pass engine='spark'.", table=name_of(table))
    manifest_codec(table.metadata.properties, table=name_of(table))
