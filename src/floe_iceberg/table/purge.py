"""The files of a table that is going away."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType, LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from floe_core.declaration.locations import normal
from floe_core.errors import StorageError
from floe_core.observing.redaction import redact_text
from floe_iceberg.commit.own_places import own_files
from floe_iceberg.models import PurgeResult
from floe_iceberg.read.versions import name_of
from floe_iceberg.table.files.deletion import try_delete
from floe_iceberg.table.files.live_files import (
    METADATA_FILE,
    FileReader,
    holds_another_table,
    metadata_folders,
    statistics_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyarrow.fs import FileSystem
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_FOLDERS = ("data", "metadata")
# How long a server may delete nothing more before its purge is taken for over.
_PATIENCE_SECONDS = 3.0
_LOOK_SECONDS = 0.2


class Remains:
    """What a table leaves when it goes, noted while it is there: a new table of its name gets the same folder.

    Files outside the table's own places are kept, and so is every table whose folder lies below this one's. What is
    missing or damaged already leads nowhere, and must not keep the table alive.

    Attributes:
        foreign: Files that the metadata refers to and that are kept.
        server_may_purge: Whether a server that deletes whatever the manifests name would delete the own files only.
    """

    def __init__(self, context: ManagerContext, table: Table) -> None:
        """Read the metadata and list the folder."""
        reader = FileReader(table)
        named = _named_files(table, reader)
        self._table = table
        self._folder = _Folder(table)
        owned = own_files(context, table, shared=holds_another_table(table, self._folder.leftovers))
        inside = (f"{other}/{folder}" for other in self._folder.tables for folder in _FOLDERS)
        self._named, self.foreign = owned.without(inside).split(named)
        self._leftovers = owned.without(self._folder.tables).split(self._folder.leftovers - named)[0]
        # Iceberg's own purge deletes the files of removed entries too.
        safe = not reader.skipped and not owned.refused and not owned.others
        self.server_may_purge = safe and not owned.split(named | reader.removed)[1]

    def delete(self, context: ManagerContext) -> PurgeResult:
        """Delete the table's own files, and what else lies in its data and metadata folders."""
        if kept := self.foreign:
            name = name_of(self._table)
            context.logger.warning("iceberg.purge", table=name, kept_foreign_files=len(kept), first=kept[0])
        return self._deleted(context, [*self._named, *self._leftovers])

    def delete_leftovers(self, context: ManagerContext) -> PurgeResult:
        """Delete what lies in the table's folders and no version of the table names, and what the server left."""
        return self._deleted(context, [*self._left_by_server(), *self._leftovers])

    def _left_by_server(self) -> list[str]:
        """Give a server that deletes in the background its time, as long as files go."""
        left = self._still_there(self._named)
        patience = time.monotonic() + _PATIENCE_SECONDS
        while left and time.monotonic() < patience:
            time.sleep(_LOOK_SECONDS)
            now = self._still_there(left)
            if len(now) < len(left):
                patience = time.monotonic() + _PATIENCE_SECONDS
            left = now
        return left

    def _deleted(self, context: ManagerContext, files: list[str]) -> PurgeResult:
        refused = try_delete(context, self._table.io, files)
        self._folder.remove_empty()
        # A store that ignores a request is as little a success as one that refuses it.
        if left := self._still_there(files):
            raise self._incomplete(left, len(files), next(iter(refused.values()), None))
        return PurgeResult(deleted_files=len(files), foreign_files=self.foreign)

    def _still_there(self, files: Iterable[str]) -> list[str]:
        """Return the files that are not gone: those at the table's location by one listing, others one by one."""
        try:
            listed = self._folder.present()
            start = f"{normal(self._table.location().rstrip('/'))}/"
            return [
                file
                for file in files
                if (normal(file) in listed if listed is not None and normal(file).startswith(start) else self._is(file))
            ]
        except OSError as err:
            name = name_of(self._table)
            msg = f"Table '{name}' is gone from the catalog; whether its files are gone cannot be checked: {err}"
            raise StorageError(redact_text(msg), hint=f"Look at {self._table.location()}.", table=name) from err

    def _is(self, file: str) -> bool:
        return self._table.io.new_input(file).exists()

    def _incomplete(self, left: list[str], number: int, reason: Exception | None) -> StorageError:
        name, place = name_of(self._table), self._table.location()
        why = f": {redact_text(str(reason))}" if reason is not None else "."
        msg = (
            f"Table '{name}' is gone from the catalog, but {len(left)} of its {number} files are still in {place}{why}"
        )
        hint = "Allow deletes there (permissions, bucket policy, object lock), then delete that folder."
        return StorageError(msg, hint=hint, table=name)


def _named_files(table: Table, reader: FileReader) -> set[str]:
    """Return every file that the table's metadata refers to, metadata included."""
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
    """What lies at a table's location.

    Attributes:
        tables: Places of other tables below it.
        leftovers: Files in the table's data and metadata folders.
    """

    def __init__(self, table: Table) -> None:
        self._location = table.location().rstrip("/")
        self._files, self._path = self._open(table)
        listed = self._list() or []
        own = metadata_folders(table)
        folders = {match["folder"] for file in listed if (match := METADATA_FILE.match(file))}
        self.tables = sorted(f.removesuffix("/metadata") for f in folders if normal(f) not in own)
        starts = tuple(f"{self._location}/{folder}/" for folder in _FOLDERS)
        self.leftovers = {file for file in listed if file.startswith(starts)}

    def _open(self, table: Table) -> tuple[FileSystem | None, str]:
        if not isinstance(table.io, PyArrowFileIO):
            return None, ""
        scheme, netloc, path = PyArrowFileIO.parse_location(self._location, table.io.properties)
        return table.io.fs_by_scheme(scheme, netloc), path

    def present(self) -> set[str] | None:
        """Return what is at the location now, each file in one spelling; None where nothing can be listed."""
        listed = self._list()
        return None if listed is None else {normal(file) for file in listed}

    def _list(self) -> list[str] | None:
        if self._files is None:
            return None
        infos = self._files.get_file_info(FileSelector(self._path, recursive=True, allow_not_found=True))
        return [self._location + info.path[len(self._path) :] for info in infos if info.type == FileType.File]

    def remove_empty(self) -> None:
        """Remove the table's folders as far as nothing is left in them."""
        if not isinstance(self._files, LocalFileSystem):
            return
        for path in (*(f"{self._path}/{folder}" for folder in _FOLDERS), self._path):
            with contextlib.suppress(OSError):
                below = self._files.get_file_info(FileSelector(path, recursive=path != self._path))
                if all(info.type == FileType.Directory for info in below) and (path != self._path or not below):
                    self._files.delete_dir(path)
