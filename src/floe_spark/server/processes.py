"""Processes that outlive whoever started them: told apart by their birth, because numbers are used again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.1


def birth_of(pid: int) -> str | None:
    """Return what the operating system says about when a process started, None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return _birth_by_ps(pid) if not Path("/proc/self/stat").exists() else None
    state, born = fields[0], fields[19]
    return None if state == "Z" else born


def _birth_by_ps(pid: int) -> str | None:
    answer = subprocess.run(  # noqa: S603 - a number
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() or None


def end_process(pid: int, born: str) -> None:
    """End a process, by force when it does not listen."""
    with contextlib.suppress(ProcessLookupError):
        for ending in (signal.SIGTERM, signal.SIGKILL):
            if birth_of(pid) == born:
                os.kill(pid, ending)
                _await_end(pid, born)


def _await_end(pid: int, born: str) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while birth_of(pid) == born and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
