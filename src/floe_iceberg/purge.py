"""The files of a table that is going away."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType, LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from floe_iceberg.maintenance.deletion import delete_files
from floe_iceberg.maintenance.reachable import METADATA_FILE, FileReader, metadata_folders, statistics_files
from floe_iceberg.models import PurgeResult
from floe_iceberg.own_files import OwnFiles, normal
from floe_iceberg.versions import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyarrow.fs import FileSystem
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_FOLDERS = ("data", "metadata")


class Remains:
    """What a table leaves when it goes, noted while it is there: a new table of its name gets the same folder.

    Files outside the table's own places are kept, and so is every table whose folder lies below this one's. What is
    missing or damaged already leads nowhere, and must not keep the table alive.

    Attributes:
        foreign: Files that the metadata refers to and that are kept.
        server_may_purge: Whether a server that deletes whatever the manifests name would delete the own files only.
    """

    def __init__(self, table: Table) -> None:
        """Read the metadata and list the folder."""
        reader = FileReader(table)
        named = _named_files(table, reader)
        owned = OwnFiles.of(table.metadata)
        self._table = table
        self._folder = _Folder(table)
        inside = (f"{other}/{folder}" for other in self._folder.tables for folder in _FOLDERS)
        self._named, self.foreign = owned.without(inside).split(named)
        self._leftovers = owned.without(self._folder.tables).split(self._folder.leftovers - named)[0]
        # Iceberg's own purge deletes the files of removed entries too.
        self.server_may_purge = not reader.skipped and not owned.split(named | reader.removed)[1]

    def delete(self, context: ManagerContext) -> PurgeResult:
        """Delete the table's own files, and what else lies in its data and metadata folders."""
        if kept := self.foreign:
            name = name_of(self._table)
            context.logger.warning("iceberg.purge", table=name, kept_foreign_files=len(kept), first=kept[0])
        return self._deleted(context, [*self._named, *self._leftovers])

    def delete_leftovers(self, context: ManagerContext) -> PurgeResult:
        """Delete what lies in the table's folders and no version of the table names; a server took the rest."""
        return self._deleted(context, self._leftovers)

    def _deleted(self, context: ManagerContext, files: Iterable[str]) -> PurgeResult:
        gone = delete_files(context, self._table.io, files)
        self._folder.remove_empty()
        return PurgeResult(deleted_files=len(gone), foreign_files=self.foreign)


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
        listed = self._list()
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

    def _list(self) -> list[str]:
        if self._files is None:
            return []
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
