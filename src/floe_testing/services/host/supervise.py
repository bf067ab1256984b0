"""Runs a server for as long as any process uses it.

Run as ``python -m floe_testing.services.host.supervise FOLDER LOG -- COMMAND``. ``FOLDER/users`` contains a file for
each process that uses the server, named by its process id. The server is stopped once none of them is alive, so that a
crashed test run leaves nothing behind. A file named ``keep`` keeps it running until the supervisor is stopped.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Never

import psutil

from floe_core.runtime.files import exclusive

KEEP = "keep"
_POLL_SECONDS = 0.5
_GRACE_SECONDS = 2.0
_END_SECONDS = 10.0


def is_alive(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def in_use(users: Path) -> bool:
    """Whether any registered process is alive."""
    names = [entry.name for entry in users.iterdir()]
    return KEEP in names or any(name.isdigit() and is_alive(int(name)) for name in names)


def end(process: subprocess.Popen[bytes]) -> None:
    """Terminate the server, or kill it if it does not exit."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def supervise(folder: Path, log: Path, command: list[str]) -> int:
    """Run the command until it exits or is no longer used."""

    def stop(*_: object) -> Never:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - the given server command
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
        try:
            while process.poll() is None and not deserted(folder):
                time.sleep(_POLL_SECONDS)
        finally:
            end(process)
    if not (folder / "users" / KEEP).exists():
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            # The last server of a run also removes the run's folder.
            folder.parent.rmdir()
    return process.returncode


def deserted(folder: Path) -> bool:
    """Whether the server is unused; if so, remove its state file, so that new users start another server."""
    if in_use(folder / "users"):
        return False
    time.sleep(_GRACE_SECONDS)
    with exclusive(folder / ".lock"):
        if in_use(folder / "users"):
            return False
        (folder / "server.json").unlink(missing_ok=True)
        return True


if __name__ == "__main__":
    folder, log, separator, *command = sys.argv[1:]
    if separator != "--":
        sys.exit(__doc__)
    sys.exit(supervise(Path(folder), Path(log), command))
