"""Purge: deletes the files of a dropped table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from floe_core.declaration.locations import normal
from floe_core.errors import CapabilityError, StorageError
from floe_core.observing.redaction import redact_text
from floe_iceberg.commit.file_ownership import own_files
from floe_iceberg.models import PurgeResult
from floe_iceberg.names import name_of
from floe_iceberg.table.files.deletion import try_delete
from floe_iceberg.table.files.file_listing import FileIOListing
from floe_iceberg.table.files.live_files import (
    METADATA_FILE,
    FileReader,
    contains_another_table,
    metadata_folders,
    statistics_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_FOLDERS = ("data", "metadata")
# A server's purge counts as finished after it has deleted nothing for this long.
_STALL_SECONDS = 3.0
_POLL_SECONDS = 0.2


class PurgePlan:
    """The files of a table, recorded before it is dropped, because a new table of the same name gets the same folder.

    Files outside the table's own locations are kept, and so are tables in folders below this one. Missing or damaged
    metadata files are skipped; they do not prevent the purge.

    Attributes:
        foreign: Files that the metadata references and that are kept.
        server_may_purge: Whether a server that deletes every file in the manifests would delete only the table's own.
    """

    def __init__(self, context: ManagerContext, table: Table) -> None:
        """Read the metadata and list the folder."""
        reader = FileReader(table)
        referenced = _referenced_files(table, reader)
        self._table = table
        self._folder = _Folder(table)
        owned = own_files(context, table, shared=contains_another_table(table, self._folder.leftovers))
        inside = (f"{other}/{folder}" for other in self._folder.tables for folder in _FOLDERS)
        self._referenced, self.foreign = owned.without(inside).split(referenced)
        self._leftovers = owned.without(self._folder.tables).split(self._folder.leftovers - referenced)[0]
        # Iceberg's purge also deletes the files of deleted entries.
        safe = not reader.skipped and not owned.refused and not owned.others
        self.server_may_purge = safe and not owned.split(referenced | reader.removed)[1]

    def delete(self, context: ManagerContext) -> PurgeResult:
        """Delete the table's own files, and everything else in its data and metadata folders."""
        if kept := self.foreign:
            name = name_of(self._table)
            context.logger.warning("iceberg.purge", table=name, kept_foreign_files=len(kept), first=kept[0])
        return self._deleted(context, [*self._referenced, *self._leftovers])

    def delete_leftovers(self, context: ManagerContext) -> PurgeResult:
        """Delete files that the server did not delete, and unreferenced files in the table's folders."""
        return self._deleted(context, [*self._remaining_after_server(), *self._leftovers])

    def _remaining_after_server(self) -> list[str]:
        """Wait while a server deletes files in the background and makes progress; return the remaining files."""
        remaining = self._existing(self._referenced)
        deadline = time.monotonic() + _STALL_SECONDS
        while remaining and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            now = self._existing(remaining)
            if len(now) < len(remaining):
                deadline = time.monotonic() + _STALL_SECONDS
            remaining = now
        return remaining

    def _deleted(self, context: ManagerContext, files: list[str]) -> PurgeResult:
        refused = try_delete(context, self._table.io, files)
        self._folder.remove_empty()
        # A store may also ignore a request without an error.
        if remaining := self._existing(files):
            raise self._incomplete(remaining, len(files), next(iter(refused.values()), None))
        return PurgeResult(deleted_files=len(files), foreign_files=self.foreign)

    def _existing(self, files: Iterable[str]) -> list[str]:
        """Return the files that still exist; those at the table's location are found with one listing."""
        try:
            listed = self._folder.present()
            start = f"{normal(self._table.location().rstrip('/'))}/"
            return [
                file
                for file in files
                if (
                    normal(file) in listed
                    if listed is not None and normal(file).startswith(start)
                    else self._exists(file)
                )
            ]
        except (OSError, StorageError) as err:
            name = name_of(self._table)
            msg = f"Table '{name}' was dropped, but checking that its files are deleted failed: {err}"
            hint = f"Check {self._table.location()}."
            raise StorageError(redact_text(msg), hint=hint, table=name) from err

    def _exists(self, file: str) -> bool:
        return self._table.io.new_input(file).exists()

    def _incomplete(self, remaining: list[str], number: int, reason: Exception | None) -> StorageError:
        name, location = name_of(self._table), self._table.location()
        why = f": {redact_text(str(reason))}" if reason is not None else "."
        msg = f"Table '{name}' was dropped, but {len(remaining)} of its {number} files are still in {location}{why}"
        hint = "Allow deletes there (permissions, bucket policy, object lock), then delete that folder."
        return StorageError(msg, hint=hint, table=name)


def _referenced_files(table: Table, reader: FileReader) -> set[str]:
    """Return every file that the table's metadata references, and the metadata files themselves."""
    metadata = table.metadata
    manifests = reader.manifests(metadata.snapshots, lenient=True)
    return {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *statistics_files(metadata),
        *(snapshot.manifest_list for snapshot in metadata.snapshots),
        *manifests,
        *reader.data_files(manifests, lenient=True),
    }


class _Folder:
    """The content of a table's location.

    Attributes:
        tables: Locations of other tables below it.
        leftovers: Files in the table's data and metadata folders.
    """

    def __init__(self, table: Table) -> None:
        self._listing = _listing_of(table)
        listed = self._list() or []
        own = metadata_folders(table)
        folders = {match["folder"] for file in listed if (match := METADATA_FILE.match(file))}
        self.tables = sorted(f.removesuffix("/metadata") for f in folders if normal(f) not in own)
        starts = tuple(f"{table.location().rstrip('/')}/{folder}/" for folder in _FOLDERS)
        self.leftovers = {file for file in listed if file.startswith(starts)}

    def present(self) -> set[str] | None:
        """Return the current files at the location, normalized; None if the store cannot be listed."""
        listed = self._list()
        return None if listed is None else {normal(file) for file in listed}

    def _list(self) -> list[str] | None:
        listing = self._listing
        return None if listing is None else [listing.location_of(found.key) for found in listing.list()]

    def remove_empty(self) -> None:
        """Remove the table's folders if they contain no files."""
        if self._listing is not None:
            for key in (*_FOLDERS, ""):
                self._listing.remove_empty_folder(key)


def _listing_of(table: Table) -> FileIOListing | None:
    try:
        return FileIOListing(table.io, table.location(), table=name_of(table))
    except CapabilityError:
        return None
