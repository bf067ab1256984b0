"""A table's files, opened by the locations that its metadata gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, cast

if TYPE_CHECKING:
    from pyiceberg.io import FileIO


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
