"""Ends processes that outlive the one that started them."""

from __future__ import annotations

import contextlib
import time

import psutil

from floe_core.runtime.processes import birth_of

__all__ = ["birth_of", "end_process"]

_STOP_SECONDS = 15.0
_POLL_SECONDS = 0.1


def end_process(pid: int, born: str) -> None:
    """Terminate a process, and kill it when it does not end; a later process of the same id is left alone.

    Args:
        pid: The process id.
        born: When it started, from ``birth_of``.
    """
    # psutil checks as well that the id is still that process before it sends a signal.
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for end in (process.terminate, process.kill):
            if birth_of(pid) == born:
                end()
                _await_end(pid, born)


def _await_end(pid: int, born: str) -> None:
    # Not Process.wait: it takes the exit code of a child from its owner, and waits for zombies of other parents.
    deadline = time.monotonic() + _STOP_SECONDS
    while birth_of(pid) == born and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
