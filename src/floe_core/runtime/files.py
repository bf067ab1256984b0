"""Atomic file writes and file locks."""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PRIVATE, _BY_UMASK = 0o600, 0o666


def write_atomically(path: Path, text: str, *, mode: int | None = None, durable: bool = False) -> None:
    """Replace a file so that readers see either the old or the new content, never a partial file.

    Args:
        path: The file; missing parent folders are created.
        text: The new content.
        mode: Permissions of the file; None uses the umask.
        durable: Flush the content to disk before the old file is replaced.

    Raises:
        OSError: The file cannot be written; the old file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    # A file with a mode may contain a secret, so it must be private even before the mode is set.
    created_with = _BY_UMASK if mode is None else _PRIVATE
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, created_with)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            if durable:
                os.fsync(descriptor)
        if mode is not None:
            temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_together(folder: Path, contents: Mapping[str, str]) -> None:
    """Write several files to an existing folder; a full disk or an interruption leaves it unchanged.

    Args:
        folder: The folder.
        contents: The content of each file by name.

    Raises:
        OSError: A file cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix=".floe-", dir=folder) as staging:
        for name, text in contents.items():
            (Path(staging) / name).write_text(text, encoding="utf-8")
        for name in contents:
            (Path(staging) / name).replace(folder / name)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file for the block; wait for other processes and threads that hold it."""
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path):
        yield


# filelock implements shared locks with a separate SQLite database. These two functions lock a file that also has
# another purpose, and the operating system releases the lock when the last process with the descriptor ends.
def lock_shared(descriptor: int) -> None:
    """Acquire a shared lock on an open file; wait while another process has an exclusive lock."""
    import fcntl  # not available on Windows, where the rest of this module works

    fcntl.flock(descriptor, fcntl.LOCK_SH)


def try_lock_exclusive(descriptor: int) -> bool:
    """Try to acquire an exclusive lock on an open file; return False if others hold a lock."""
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
