"""A folder as an object store."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from floe_tenancy.stores.base import StoredObject, folder_prefix, store_error

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class LocalObjectStore:
    """Files below one folder."""

    def __init__(self, root: Path) -> None:
        """Use a folder; it is made when something is written."""
        self._root = root

    def create(self, key: str, content: bytes) -> bool:
        """Write a file that is not there yet, whole or not at all."""
        path = self._root / key
        # At the root: what a killed process leaves must not lie in anybody's prefix.
        temporary = self._root / f".{uuid.uuid4().hex}.tmp"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            try:
                # A link is made only when the name is free; a rename would replace what is there.
                os.link(temporary, path)
            except FileExistsError:
                return False
        except OSError as err:
            raise store_error(err, "write", key) from err
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        return True

    def read(self, key: str) -> bytes | None:
        """Return a file's content, None when it is not there."""
        try:
            return (self._root / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise store_error(err, "read", key) from err

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """List every file below a folder; links are listed, never followed."""
        start = self._root / folder_prefix(prefix)
        try:
            for folder, _, names in os.walk(start, onerror=_unless_missing):
                for name in sorted(names):
                    path = Path(folder, name)
                    yield StoredObject(path.relative_to(self._root).as_posix(), path.lstat().st_size)
        except OSError as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete files, and the folders that become empty."""
        count, folders = 0, set()
        for key in keys:
            path = self._root / key
            try:
                path.unlink(missing_ok=True)
            except NotADirectoryError:
                pass
            except OSError as err:
                raise store_error(err, "delete", key) from err
            folders.add(path.parent)
            count += 1
        for folder in folders:
            self._remove_empty_folders(folder)
        return count

    def _remove_empty_folders(self, folder: Path) -> None:
        # Also those below, which a delete that was killed may have left.
        for below, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):
                Path(below).rmdir()
        with contextlib.suppress(OSError):
            while folder != self._root and folder.is_relative_to(self._root):
                if folder.exists():
                    folder.rmdir()
                folder = folder.parent


def _unless_missing(err: OSError) -> None:
    if not isinstance(err, FileNotFoundError):
        raise err
