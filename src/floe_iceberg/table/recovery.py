"""Recovery of tables with a missing or damaged metadata file, from an earlier metadata file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pyiceberg.serializers import FromInputFile

from floe_core.declaration.locations import normal
from floe_core.errors import (
    CapabilityError,
    CatalogConnectionError,
    CatalogTlsError,
    ConfigurationError,
    CorruptFileError,
    FloeStorageError,
    ScanError,
    StorageAuthenticationError,
    StorageError,
    TransientError,
)
from floe_iceberg.catalog.namespaces import Namespaces
from floe_iceberg.commit.file_ownership import default_table_location_of
from floe_iceberg.context import identifier_of
from floe_iceberg.pyiceberg_internals.catalogs import file_io_of
from floe_iceberg.read.integrity import metadata_location
from floe_iceberg.table.files.file_listing import FileIOListing
from floe_iceberg.table.files.live_files import METADATA_FILE

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.manager import IcebergTableManager

# Earlier than every timestamp of a store.
_UNKNOWN_TIME = datetime.min.replace(tzinfo=UTC)


def is_broken(err: FloeStorageError) -> bool:
    """Whether an error while loading a table means that only this table cannot be read."""
    if isinstance(err, TransientError | StorageAuthenticationError | CatalogTlsError):
        return False
    return isinstance(err, ScanError | StorageError | CatalogConnectionError)


def affects_only_table(context: ManagerContext, target: TableTarget, err: FloeStorageError) -> bool:
    """Whether a table cannot be read while the catalog responds; some servers read a damaged file for minutes."""
    if is_broken(err):
        return True
    if not isinstance(err, TransientError):
        return False
    try:
        return Namespaces(context.catalog).exists(identifier_of(target).parts[:-1])
    except FloeStorageError:
        return False


def likely_locations(context: ManagerContext, target: TableTarget, err: FloeStorageError) -> tuple[str, ...]:
    """Return the likely locations of an unreadable table: from its metadata file, and from its name."""
    identifier = identifier_of(target)
    locations = []
    if isinstance(err, CorruptFileError):
        folder = err.path.rpartition("/")[0]
        locations.append(folder.removesuffix("/metadata"))
    if (by_name := default_table_location_of(context, identifier.parts)) is not None:
        locations.append(by_name)
    return tuple({normal(location): location for location in reversed(locations)}.values())[::-1]


def newest_metadata(context: ManagerContext, target: TableTarget, broken: CorruptFileError | None) -> str:
    """Return the newest readable metadata file from a broken table's metadata folder.

    Raises:
        ConfigurationError: No file is readable, the table is not broken, or the folder cannot be listed.
    """
    name = str(identifier_of(target))
    if broken is None:
        msg = f"Table '{name}' does not exist, so its metadata file is required."
        raise ConfigurationError(msg, hint="Pass the full location of a …metadata.json file.", table=name)
    folder = broken.path.rpartition("/")[0]
    io = file_io_of(context.catalog, folder)
    try:
        listing = FileIOListing(io, folder, table=name)
    except CapabilityError as err:
        msg = f"Cannot list the folder of table '{name}'."
        raise ConfigurationError(msg, hint=f"Pass one of the metadata files in {folder}.", table=name) from err
    found = [
        (stored.modified or _UNKNOWN_TIME, location)
        for stored in listing.list()
        if "/" not in stored.key and METADATA_FILE.match(location := listing.location_of(stored.key))
    ]
    for _, location in sorted(found, reverse=True):
        try:
            FromInputFile.table_metadata(io.new_input(location))
        except Exception:  # noqa: BLE001, S112 - whatever the damage, the next one may be readable
            continue
        return location
    msg = f"No readable metadata file of table '{name}' in {folder}."
    raise ConfigurationError(msg, hint="Restore one from a backup, or drop the table.", table=name)


def reregister_table(manager: IcebergTableManager, target: TableTarget, location: str) -> Table:
    """Register a broken table again with another metadata file.

    Raises:
        ConfigurationError: The location has no table metadata; nothing was changed.
        CapabilityError: The catalog's server manages the metadata.
    """
    identifier = identifier_of(target)
    before = metadata_location(manager.catalog, identifier)
    if before is None:
        msg = f"The server of catalog '{manager.catalog.name}' manages the metadata of '{identifier}'."
        raise CapabilityError(msg, hint="Drop the table there, then register it.", table=str(identifier))
    # Checked before the old entry is dropped, so the name always refers to a table.
    from floe_iceberg.table.lifecycle import require_metadata

    require_metadata(manager.context, location, table=str(identifier))
    manager.drop_table(identifier)
    try:
        return manager.register_table(identifier, location)
    except FloeStorageError:
        # Restore the old entry to allow another attempt.
        manager.catalog.register_table(identifier.parts, before)
        raise
