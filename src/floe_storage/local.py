"""A folder on this machine: the ``local`` storage plugin, and the object store."""

from __future__ import annotations

import contextlib
import os
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core.plugins.object_store import StoredObject, folder_prefix
from floe_storage.store_errors import store_error
from floe_storage.warehouse import PYARROW_FILE_IO, WarehousePlugin, problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from floe_core.errors import ConfigProblem
    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig
    from floe_storage.opening import StoreLocation

SCHEMES = frozenset({"file"})
# These characters end the path of a URI, and neither PyIceberg nor Hadoop decodes escapes.
_INVALID_IN_URI = frozenset("?#")


class LocalStoragePlugin(WarehousePlugin):
    """Stores files in a folder, by default ``.floe/warehouse`` in the project."""

    @property
    def name(self) -> str:
        """``local``."""
        return "local"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "A folder on this machine"

    def _problems(self, config: StorageConfig, project_root: Path) -> list[ConfigProblem]:
        root = _folder(config, project_root)
        if found := sorted(_INVALID_IN_URI & set(str(root))):
            text = f"the path {root} contains {' and '.join(found)}, which table locations must not contain"
            return [problem("root", text, "Choose a folder without these characters.")]
        return []

    def _root_uri(self) -> str:
        # Not Path.as_uri(): PyIceberg and Hadoop accept spaces and unicode, and do not decode escapes.
        return f"file://{_folder(self.config, self._project_root).as_posix()}"

    def _file_io(self) -> dict[str, str]:
        return {"py-io-impl": PYARROW_FILE_IO}

    def _spark(self) -> dict[str, str]:
        return {}


def _folder(config: StorageConfig, project_root: Path) -> Path:
    return (project_root / Path(config.root).expanduser()).resolve()


class LocalObjectStore:
    """Files below one folder."""

    def __init__(self, root: Path) -> None:
        """Use a folder; it is created when something is written."""
        self._root = root

    def create(self, key: str, content: bytes) -> bool:
        """Write a file that does not exist yet; a killed process never leaves a partial file."""
        path = self._root / key
        # At the root: a temporary file left by a killed process must not appear in listings of a prefix.
        temporary = self._root / f".{uuid.uuid4().hex}.tmp"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(content)
            try:
                # Fails if the name is taken; a rename would replace the file.
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
        """Return a file's content, None if it does not exist."""
        try:
            return (self._root / key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise store_error(err, "read", key) from err

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """List every file below a folder; links to files are listed, links to folders are not followed."""
        start = self._root / folder_prefix(prefix)
        try:
            for folder, _, names in os.walk(start, onerror=_unless_missing):
                for name in sorted(names):
                    path = Path(folder, name)
                    try:
                        status = path.lstat()
                    except FileNotFoundError:
                        # Deleted since the folder was read.
                        continue
                    key = path.relative_to(self._root).as_posix()
                    yield StoredObject(key, status.st_size, _to_datetime(status.st_mtime))
        except OSError as err:
            raise store_error(err, "list", prefix) from err

    def delete(self, keys: Iterable[str]) -> int:
        """Delete files, and folders that become empty."""
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
        # Also the folders below, which a killed delete may have left behind.
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


def _to_datetime(seconds: float) -> datetime | None:
    # File systems support times outside the range of datetime.
    with contextlib.suppress(OverflowError, ValueError, OSError):
        return datetime.fromtimestamp(seconds, UTC)
    return None


def open_store(location: StoreLocation, properties: Mapping[str, str]) -> ObjectStore:
    """Open a folder; a local folder needs no properties."""
    del properties
    return LocalObjectStore(Path(location.path))
