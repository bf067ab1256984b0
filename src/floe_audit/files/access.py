"""Where an audit reads files from."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit


class FileSource(Protocol):
    """Opens a table's files by the locations its metadata gives."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading at any position; raise ``FileNotFoundError`` when it is not there."""
        ...

    def size(self, path: str) -> int:
        """Return a file's length in bytes; raise ``FileNotFoundError`` when it is not there."""
        ...


class LocalFiles:
    """Files of this machine, by path or by ``file:`` location."""

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
    # Metadata keeps locations as the writer made them: only a location that is not there as it stands may be quoted.
    plain = Path(path.removeprefix("file://") if path.startswith("file://") else path.removeprefix("file:"))
    return plain if plain.exists() else Path(unquote(urlsplit(path).path))
