"""The files of a table that is going away."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyarrow.fs import FileSelector, FileType, LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.utils.concurrent import ExecutorFactory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table


def table_files(table: Table) -> set[str]:
    """Return every file that the table's metadata refers to, metadata included."""
    metadata = table.metadata
    files = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    files |= {statistics.statistics_path for statistics in metadata.statistics}
    files |= {statistics.statistics_path for statistics in metadata.partition_statistics}
    manifests: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        files.add(snapshot.manifest_list)
        # An already missing list leads nowhere and must not keep the table alive.
        with contextlib.suppress(OSError):
            manifests |= {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}
    files |= set(manifests)
    for manifest in manifests.values():
        with contextlib.suppress(OSError):
            entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            files |= {entry.data_file.file_path for entry in entries}
    return files


def purge_files(table: Table, files: Iterable[str]) -> int:
    """Delete files, and what else lies in the table's own data and metadata folders; return how many went."""
    doomed = {*files, *_leftovers(table)}

    def delete(path: str) -> bool:
        with contextlib.suppress(OSError):
            table.io.delete(path)
            return True
        return False

    deleted = sum(ExecutorFactory.get_or_create().map(delete, doomed))
    _remove_empty_folders(table)
    return deleted


def _own_folders(table: Table) -> list[str]:
    # Other tables may lie below this table's location, but never in these.
    return [f"{table.location().rstrip('/')}/{folder}" for folder in ("data", "metadata")]


def _leftovers(table: Table) -> set[str]:
    if not isinstance(table.io, PyArrowFileIO):
        return set()
    found = set()
    for folder in _own_folders(table):
        scheme, netloc, path = PyArrowFileIO.parse_location(folder, table.io.properties)
        filesystem = table.io.fs_by_scheme(scheme, netloc)
        infos = filesystem.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        found |= {folder + info.path[len(path) :] for info in infos if info.type == FileType.File}
    return found


def _remove_empty_folders(table: Table) -> None:
    if not isinstance(table.io, PyArrowFileIO):
        return
    scheme, netloc, path = PyArrowFileIO.parse_location(table.location().rstrip("/"), table.io.properties)
    filesystem = table.io.fs_by_scheme(scheme, netloc)
    if not isinstance(filesystem, LocalFileSystem):
        return
    for folder in ("data", "metadata"):
        with contextlib.suppress(OSError):
            filesystem.delete_dir(f"{path}/{folder}")
    with contextlib.suppress(OSError):
        if not filesystem.get_file_info(FileSelector(path)):
            filesystem.delete_dir(path)
