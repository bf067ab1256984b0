"""Access to a table's raw files by the locations in its metadata."""

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
    """Reads raw files through a table's FileIO."""

    def __init__(self, io: FileIO) -> None:
        self._io = io

    def open(self, path: str) -> BinaryIO:
        """Open a file for random access reads.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        return cast("BinaryIO", self._io.new_input(path).open(seekable=True))

    def size(self, path: str) -> int:
        """Return a file's length in bytes.

        Raises:
            FileNotFoundError: The file does not exist.
        """
        return len(self._io.new_input(path))


def locate(context: ManagerContext, target: TableTarget) -> tuple[str, FileIOSource]:
    """Return a table's metadata file and a source for its files, even if the table is damaged.

    Only an embedded catalog knows the location without reading the file; other catalogs read it to respond.

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
    """Return a source for files in the catalog's storage."""
    return FileIOSource(file_io_of(context.catalog, location))


def require_reachable(source: FileIOSource, path: str, *, table: str) -> None:
    """Read a file that an audit could not read, to distinguish a failing store from a damaged file.

    Raises:
        StorageError: The store is unreachable, fails or denies access.
    """
    try:
        with source.open(path) as stream:
            stream.read()
    except Exception as err:
        failure = unreadable(path, table=table, err=err)
        if isinstance(failure, StorageError):
            raise failure from err
