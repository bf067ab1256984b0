"""Stops an idle server: clients hold a shared file lock while they work, and a watcher process checks it.

The operating system releases a lock when its process ends, so a killed client does not keep the server running.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from floe_core.runtime.files import lock_shared, try_lock_exclusive
from floe_core.runtime.processes import birth_of
from floe_spark.server.processes import end_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCK_FILE = "in-use"
_LONGEST_POLL_SECONDS = 5.0
_POLLS_PER_TIMEOUT = 10
_WATCHER = """\
import pathlib, sys
from floe_spark.server.idle import watch
watch(pathlib.Path(sys.argv[1]), float(sys.argv[2]), pid=int(sys.argv[3]), born=sys.argv[4])
"""


class Lease:
    """Keeps the project's server running until ``release`` is called or the process ends."""

    def __init__(self, state_dir: Path) -> None:
        """Acquire the lease; blocks while a watcher is stopping the server."""
        self._path = state_dir / _LOCK_FILE
        self._handle: int | None = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        lock_shared(self._handle)
        self._touch()

    def release(self) -> None:
        """Release the lease; the server stops after its idle timeout."""
        if self._handle is not None:
            self._touch()
            os.close(self._handle)
            self._handle = None

    def _touch(self) -> None:
        # The project may have been deleted since.
        with suppress(FileNotFoundError):
            os.utime(self._path)


@contextmanager
def in_use(state_dir: Path) -> Iterator[None]:
    """Keep the project's server running during a block."""
    lease = Lease(state_dir)
    try:
        yield
    finally:
        lease.release()


def start_watcher(state_dir: Path, idle_minutes: float, *, pid: int, born: str) -> int:
    """Start a process that stops a server after that many minutes without a client; return its pid."""
    (state_dir / _LOCK_FILE).touch()
    process = subprocess.Popen(  # noqa: S603 - runs floe's own code
        [sys.executable, "-c", _WATCHER, str(state_dir.resolve()), str(idle_minutes * 60), str(pid), born],
        # Python imports from the working directory first, and a project may contain a module of any name.
        cwd=state_dir,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # It outlives this process on purpose: Popen must not warn that it was not waited for.
    process.returncode = 0
    return process.pid


def watch(state_dir: Path, idle_seconds: float, *, pid: int, born: str) -> None:
    """Wait until a server exits, or stop it once it has been idle for that long.

    A server whose project was deleted is stopped at once, because no command can find it any more.
    """
    from floe_spark.server.connect_server import stop_server

    while birth_of(pid) == born:
        time.sleep(min(_LONGEST_POLL_SECONDS, idle_seconds / _POLLS_PER_TIMEOUT))
        try:
            with _without_clients(state_dir) as unused:
                if unused and _idle_seconds(state_dir) >= idle_seconds and birth_of(pid) == born:
                    stop_server(state_dir)
                    end_process(pid, born)
        except FileNotFoundError:
            end_process(pid, born)


@contextmanager
def _without_clients(state_dir: Path) -> Iterator[bool]:
    """Yield whether there is no client; if so, none can take a lease during the block."""
    with (state_dir / _LOCK_FILE).open("r+") as stream:
        unused = try_lock_exclusive(stream.fileno())
        if not unused:
            # A client may hold its lease for hours; the server counts as in use until it is released.
            os.utime(state_dir / _LOCK_FILE)
        yield unused


def _idle_seconds(state_dir: Path) -> float:
    return time.time() - (state_dir / _LOCK_FILE).stat().st_mtime
