"""Sources of the files that an audit reads."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit


class FileSource(Protocol):
    """Opens a table's files by their locations in the metadata."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for random-access reads; raise ``FileNotFoundError`` if it does not exist."""
        ...

    def size(self, path: str) -> int:
        """Return a file's length in bytes; raise ``FileNotFoundError`` if it does not exist."""
        ...


class LocalFiles:
    """Local files, by path or by ``file:`` URI."""

    def open(self, path: str) -> BinaryIO:
        """Open a file."""
        return _local(path).open("rb")

    def size(self, path: str) -> int:
        """Return a file's length."""
        return _local(path).stat().st_size


def read_all(files: FileSource, path: str) -> bytes:
    """Read a whole file."""
    with files.open(path) as stream:
        return stream.read()


def _local(path: str) -> Path:
    if not path.startswith("file:"):
        return Path(path)
    # Writers may or may not percent-encode locations: use the literal path if it exists, else decode it.
    plain = Path(path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:"))
    return plain if plain.exists() else Path(unquote(urlsplit(path).path))
