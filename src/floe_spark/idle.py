"""The end of a warm server that nobody uses: clients hold a lock while they work, and a watcher looks for it.

A lock of the operating system ends with the process that holds it, so a client that was killed keeps no server alive.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOCK_FILE = "in-use"
_LONGEST_LOOK_SECONDS = 5.0
_LOOKS = 10
_WATCHER = """\
import pathlib, sys
from floe_spark.idle import watch
watch(pathlib.Path(sys.argv[1]), float(sys.argv[2]))
"""


class Lease:
    """Keeps the project's server alive until it is given back, or its process ends."""

    def __init__(self, state_dir: Path) -> None:
        """Take the lease; waits while a watcher is just ending the server."""
        import fcntl

        self._path = state_dir / _LOCK_FILE
        self._stream: TextIO | None = self._path.open("a")
        fcntl.flock(self._stream, fcntl.LOCK_SH)
        self._touch()

    def give_back(self) -> None:
        """Let the server end once it has been idle for long enough."""
        if self._stream is not None:
            self._touch()
            self._stream.close()
            self._stream = None

    def _touch(self) -> None:
        os.utime(self._path)


@contextmanager
def in_use(state_dir: Path) -> Iterator[None]:
    """Keep the project's server alive for the length of a block."""
    lease = Lease(state_dir)
    try:
        yield
    finally:
        lease.give_back()


def start_watcher(state_dir: Path, idle_minutes: float) -> None:
    """Start the process that ends the server after so many minutes without a client."""
    (state_dir / _LOCK_FILE).touch()
    process = subprocess.Popen(  # noqa: S603 - our own code
        [sys.executable, "-c", _WATCHER, str(state_dir.resolve()), str(idle_minutes * 60)],
        # Python looks for modules in its working directory first, and a project's own may be called anything.
        cwd=state_dir,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    # It outlives this process on purpose; nobody is to wait for it.
    process.returncode = 0


def watch(state_dir: Path, idle_seconds: float) -> bool:
    """Wait until the server ends or has been idle for that long, and then end it; tell whether it was ended."""
    from floe_spark.connect_server import server_status, stop_server

    watched = server_status(state_dir)
    while watched is not None and watched.alive:
        time.sleep(min(_LONGEST_LOOK_SECONDS, idle_seconds / _LOOKS))
        with _alone(state_dir) as alone:
            if alone and _idle_seconds(state_dir) >= idle_seconds and server_status(state_dir) == watched:
                return stop_server(state_dir)
    return False


@contextmanager
def _alone(state_dir: Path) -> Iterator[bool]:
    """Tell whether there is no client; none gets a lease for the length of the block."""
    import fcntl

    with (state_dir / _LOCK_FILE).open("a") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # A client may hold it for hours: it is in use now.
            os.utime(state_dir / _LOCK_FILE)
            yield False
        else:
            yield True


def _idle_seconds(state_dir: Path) -> float:
    return time.time() - (state_dir / _LOCK_FILE).stat().st_mtime
