"""A table's files, opened by the locations that its metadata gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, cast

from floe_core.errors import StorageError
from floe_iceberg.context import identifier_of
from floe_iceberg.pyiceberg_internals.catalogs import file_io_of
from floe_iceberg.read.integrity import load_table, metadata_location, unreadable

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from floe_iceberg.context import ManagerContext, TableTarget


class FileIOSource:
    """Reads files through a table's own file client, for whoever reads them raw."""

    def __init__(self, io: FileIO) -> None:
        self._io = io

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading at any position.

        Raises:
            FileNotFoundError: There is no such file.
        """
        return cast("BinaryIO", self._io.new_input(path).open(seekable=True))

    def size(self, path: str) -> int:
        """Return a file's length in bytes.

        Raises:
            FileNotFoundError: There is no such file.
        """
        return len(self._io.new_input(path))


def locate(context: ManagerContext, target: TableTarget) -> tuple[str, FileIOSource]:
    """Return a table's metadata file and the way to its files, however damaged the table is.

    Only an embedded catalog knows the file without reading it. Others read it to answer.

    Raises:
        TableNotFoundError: The table does not exist.
        CorruptFileError: The catalog cannot read the table's metadata file.
    """
    location = metadata_location(context.catalog, identifier_of(target))
    if location is not None:
        return location, source_of(context, location)
    table = load_table(context, target)
    return table.metadata_location, FileIOSource(table.io)


def source_of(context: ManagerContext, location: str) -> FileIOSource:
    """Return the way to files of the catalog's storage."""
    return FileIOSource(file_io_of(context.catalog, location))


def require_reachable(source: FileIOSource, path: str, *, table: str) -> None:
    """Read a whole file, which an audit could not read, to tell a store that fails from a damaged file.

    Raises:
        StorageError: The store, or the way to it, failed, or it refuses access.
    """
    try:
        with source.open(path) as stream:
            stream.read()
    except Exception as err:
        told = unreadable(path, table=table, err=err)
        if isinstance(told, StorageError):
            raise told from err
