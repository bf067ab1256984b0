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
    from collections.abc import Collection, Iterable

    from pyarrow.fs import FileSystem
    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext

_FOLDERS = ("data", "metadata")


def table_files(table: Table) -> set[str]:
    """Return every file that the table's metadata refers to, metadata included.

    What is missing or damaged already leads nowhere, and must not keep the table alive.
    """
    metadata, reader = table.metadata, FileReader(table)
    manifests = reader.manifests(metadata.snapshots, lenient=True)
    return {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *statistics_files(metadata),
        *(snapshot.manifest_list for snapshot in metadata.snapshots),
        *manifests,
        *reader.data_files(manifests, lenient=True),
    }


def foreign_files(table: Table, files: Iterable[str]) -> tuple[str, ...]:
    """Return the files that are not the table's own."""
    return OwnFiles.of(table.metadata).split(files)[1]


def purge_files(context: ManagerContext, table: Table, files: Collection[str]) -> PurgeResult:
    """Delete files, and what else lies in the table's own data and metadata folders.

    Files outside the table's own places are kept, and so is every table whose folder lies below this one's.
    """
    below = _Folder(table)
    own = OwnFiles.of(table.metadata).without(f"{other}/{folder}" for other in below.tables for folder in _FOLDERS)
    doomed, kept = own.split(files)
    doomed += OwnFiles.of(table.metadata).without(below.tables).split(below.leftovers - set(files))[0]
    if kept:
        context.logger.warning("iceberg.purge", table=name_of(table), kept_foreign_files=len(kept), first=kept[0])
    gone = delete_files(context, table.io, doomed)
    below.remove_empty()
    return PurgeResult(deleted_files=len(gone), foreign_files=kept)


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
