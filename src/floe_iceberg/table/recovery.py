"""Tables whose current metadata file is gone or damaged: an earlier one may be as good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
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
from floe_iceberg.commit.own_places import folder_of
from floe_iceberg.context import identifier_of
from floe_iceberg.read.integrity import metadata_location
from floe_iceberg.table.files.live_files import METADATA_FILE

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.manager import IcebergTableManager


def is_broken(err: FloeStorageError) -> bool:
    """Whether an error on the way to a table says that this one table cannot be read, and nothing of the others."""
    if isinstance(err, TransientError | StorageAuthenticationError | CatalogTlsError):
        return False
    return isinstance(err, ScanError | StorageError | CatalogConnectionError)


def concerns_it_alone(context: ManagerContext, target: TableTarget, err: FloeStorageError) -> bool:
    """Whether one table cannot be read while the catalog answers; some servers read a damaged file for minutes."""
    if is_broken(err):
        return True
    if not isinstance(err, TransientError):
        return False
    try:
        return Namespaces(context.catalog).exists(identifier_of(target).parts[:-1])
    except FloeStorageError:
        return False


def left_places(context: ManagerContext, target: TableTarget, err: FloeStorageError) -> tuple[str, ...]:
    """Return where files of a table that cannot be read are likely to be: beside its metadata file, and by its name."""
    identifier = identifier_of(target)
    places = []
    if isinstance(err, CorruptFileError):
        folder = err.path.rpartition("/")[0]
        places.append(folder.removesuffix("/metadata"))
    if (by_name := folder_of(context, identifier.parts)) is not None:
        places.append(by_name)
    return tuple({normal(place): place for place in reversed(places)}.values())[::-1]


def newest_metadata(context: ManagerContext, target: TableTarget, broken: CorruptFileError | None) -> str:
    """Return the newest metadata file beside a broken table's own that can be read.

    Raises:
        ConfigurationError: There is none, or the table is not broken.
    """
    name = str(identifier_of(target))
    if broken is None:
        msg = f"There is no table '{name}', so its metadata file has to be named."
        raise ConfigurationError(msg, hint="Give the full location of a …metadata.json file.", table=name)
    folder = broken.path.rpartition("/")[0]
    io = context.catalog._load_file_io({}, folder)  # noqa: SLF001 - no public way to a catalog's FileIO
    if not isinstance(io, PyArrowFileIO):
        msg = f"The folder of table '{name}' cannot be listed."
        raise ConfigurationError(msg, hint=f"Name one of the metadata files in {folder}.", table=name)
    scheme, netloc, path = PyArrowFileIO.parse_location(folder, io.properties)
    infos = io.fs_by_scheme(scheme, netloc).get_file_info(FileSelector(path, allow_not_found=True))
    found = [
        (info.mtime_ns or 0, f"{folder}/{info.base_name}")
        for info in infos
        if info.type == FileType.File and METADATA_FILE.match(f"{folder}/{info.base_name}")
    ]
    for _, location in sorted(found, reverse=True):
        try:
            FromInputFile.table_metadata(io.new_input(location))
        except Exception:  # noqa: BLE001, S112 - damaged in whichever way: the next one may be sound
            continue
        return location
    msg = f"No metadata file of table '{name}' is left in {folder}."
    raise ConfigurationError(msg, hint="Restore one from a backup, or drop the table.", table=name)


def register_again(manager: IcebergTableManager, target: TableTarget, location: str) -> Table:
    """Let a broken table go on from another of its metadata files.

    Raises:
        ConfigurationError: There is no metadata file at that place; nothing was changed.
        CapabilityError: The catalog's server owns the metadata.
    """
    identifier = identifier_of(target)
    before = metadata_location(manager.catalog, identifier)
    if before is None:
        msg = f"The catalog '{manager.catalog.name}' keeps the metadata of '{identifier}' itself."
        raise CapabilityError(msg, hint="Drop the table there, then register it.", table=str(identifier))
    # Read before the old entry goes: a name must lead somewhere.
    from floe_iceberg.table.lifecycle import require_metadata

    require_metadata(manager.context, location, table=str(identifier))
    manager.drop_table(identifier)
    try:
        return manager.register_table(identifier, location)
    except FloeStorageError:
        # As it was, for another try.
        manager.catalog.register_table(identifier.parts, before)
        raise
