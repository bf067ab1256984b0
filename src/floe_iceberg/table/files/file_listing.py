"""Folder listings through PyIceberg's ``FileIO``; the only module of this package that lists folders.

Tables are listed through their own ``FileIO`` and not through the storage plugin's object store:

- A REST catalog vends credentials per table. Only the table's ``FileIO`` has them and renews them; the project's own
  credentials may have no access to the table, or more access than they should.
- Files are read and deleted through the same ``FileIO``, so the listing returns the same files under the same names.
- It needs no optional client: PyArrow lists S3 without obstore, and a manager created from a catalog has no plugin.

``FileIO`` cannot create an object atomically, so this is an ``ObjectListing`` and not a whole ``ObjectStore``.
"""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow.fs import FileSelector, FileType, LocalFileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO

from floe_core.declaration.locations import local_path
from floe_core.errors import CapabilityError, StorageError
from floe_core.observing.redaction import redact_text
from floe_core.plugins.object_store import StoredObject, folder_prefix
from floe_iceberg.errors import storage_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyarrow.fs import FileSystem
    from pyiceberg.io import FileIO

# For these schemes, the file system needs the account, which is part of the host.
_AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
# Keys of the modification time in fsspec's file systems.
_MODIFIED_KEYS = ("LastModified", "last_modified", "mtime", "updated")
_NANOSECONDS = 1_000_000_000

# Path below the folder, bytes, modification time.
_Found = tuple[str, int, datetime | None]


class FileIOListing:
    """Lists the files below a location; keys are relative to it.

    Attributes:
        location: The location, without a trailing slash.
    """

    def __init__(self, io: FileIO, location: str, *, table: str | None = None) -> None:
        """Use a FileIO's file system; ``table`` is named in errors.

        Raises:
            CapabilityError: The FileIO does not support listing.
        """
        if not isinstance(io, PyArrowFileIO) and not hasattr(io, "get_fs"):
            subject = f"table '{table}'" if table else location
            msg = f"The FileIO of {subject}, {type(io).__name__}, does not support listing."
            hint = "Use PyArrowFileIO or FsspecFileIO, or pass engine='spark'."
            raise CapabilityError(msg, hint=hint, table=table)
        self.location = location.rstrip("/")
        self._io: Any = io
        self._table = table
        self._files: FileSystem | None = None
        if isinstance(io, PyArrowFileIO):
            # BranchCreator once: after a table is dropped, vended credentials cannot be renewed.
            scheme, netloc, self._path = io.parse_location(self.location, io.properties)
            self._files = io.fs_by_scheme(scheme, netloc)

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """List every file below a folder, at any depth; PyArrow also follows links to local folders."""
        folder = folder_prefix(prefix)
        files = self._files
        found = self._list_with_fsspec(folder) if files is None else self._list_with_pyarrow(files, folder)
        for path, size, modified in found:
            yield StoredObject(folder + path, size, modified)

    def location_of(self, key: str) -> str:
        """Return the full location of a key."""
        return f"{self.location}/{key}"

    def remove_empty_folder(self, key: str = "") -> None:
        """Remove a local folder if it contains no files and no links; other stores have no folders.

        The location itself (an empty key) is removed only if it is empty.
        """
        if not isinstance(self._files, LocalFileSystem):
            return
        path = f"{self._path}/{key}".rstrip("/")
        with contextlib.suppress(OSError):
            below = self._files.get_file_info(FileSelector(path, recursive=bool(key)))
            folders = [Path(info.path) for info in below if info.type == FileType.Directory]
            if len(folders) < len(below) or (folders and not key):
                return
            deepest_first = [*sorted(folders, reverse=True), Path(path)]
            if any(folder.is_symlink() for folder in deepest_first):
                return
            # One by one and not as a tree: a new table of the same location may write to it now.
            for folder in deepest_first:
                folder.rmdir()

    def _list_with_pyarrow(self, files: FileSystem, folder: str) -> Iterator[_Found]:
        path = f"{self._path}/{folder}".rstrip("/")
        try:
            found = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        except OSError as err:
            raise storage_error(err, table=self._table) from err
        except pa.ArrowInvalid as err:
            # A location that this store cannot have, such as one with an empty part.
            msg = f"Cannot list {self.location}: {err}"
            raise StorageError(msg, table=self._table) from err
        start = len(path) + 1
        for info in found:
            # A file that was deleted during the listing has the type NotFound.
            if info.type == FileType.File:
                yield info.path[start:], info.size or 0, _to_datetime(info.mtime_ns, unit=_NANOSECONDS)

    def _list_with_fsspec(self, folder: str) -> Iterator[_Found]:
        location = f"{self.location}/{folder}".rstrip("/")
        parts = urlsplit(location)
        if local_path(location) is not None:
            files = self._io.get_fs("file")
        elif parts.scheme in _AZURE_SCHEMES:
            files = self._io.get_fs(parts.scheme, parts.hostname)
        else:
            files = self._io.get_fs(parts.scheme)
        # Each thread has a file system with its own cache, which still has the files that other threads deleted.
        files.invalidate_cache()
        try:
            found = files.find(location, detail=True)
        except FileNotFoundError:
            return
        except OSError as err:
            raise storage_error(err, table=self._table) from err
        except Exception as err:
            # fsspec's file systems do not translate the errors of the store's client.
            msg = f"Cannot list {location}: {redact_text(str(err))}"
            raise StorageError(msg, table=self._table) from err
        root = f"{_path_in(files, location)}/"
        for path, info in found.items():
            if not path.startswith(root):
                # A store that lists by prefix also finds the folders whose names only begin the same.
                continue
            if info.get("islink") and files.isdir(path):
                # A link to a local folder is neither a file nor followed.
                continue
            yield path[len(root) :], int(info.get("size") or 0), _modified(info)


def _path_in(files: Any, location: str) -> str:  # noqa: ANN401 - a file system of fsspec, which floe does not import
    # fsspec's file systems return paths, and have no public API to convert a folder's URL to its path.
    return str(files._strip_protocol(location))  # noqa: SLF001 - pinned by tests/unit/iceberg/test_file_listing.py


def _modified(info: dict[str, Any]) -> datetime | None:
    value = next((info[key] for key in _MODIFIED_KEYS if info.get(key) is not None), None)
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    return _to_datetime(value)


def _to_datetime(value: Any, *, unit: int = 1) -> datetime | None:  # noqa: ANN401 - a number or something unknown
    # File systems support times outside the range of datetime.
    with contextlib.suppress(OverflowError, TypeError, ValueError, OSError):
        return datetime.fromtimestamp(float(value) / unit, UTC)
    return None
