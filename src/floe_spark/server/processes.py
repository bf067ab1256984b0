"""Terminates processes that outlive the process that started them."""

from __future__ import annotations

import contextlib
import time

import psutil

from floe_core.runtime.processes import birth_of

__all__ = ["birth_of", "end_process"]

_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.1


def end_process(pid: int, born: str) -> None:
    """Terminate a process, or kill it if it does not exit; a later process with the same id is not touched.

    Args:
        pid: The process id.
        born: Its start time, from ``birth_of``.
    """
    # psutil also verifies that the id still belongs to that process before it sends a signal.
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for end in (process.terminate, process.kill):
            if birth_of(pid) == born:
                end()
                _await_end(pid, born)


def _await_end(pid: int, born: str) -> None:
    # Not Process.wait: it would reap a child's exit code, and wait for zombies of other parents.
    deadline = time.monotonic() + _STOP_SECONDS
    while birth_of(pid) == born and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
