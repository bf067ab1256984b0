"""Peak memory of this process and of its child processes, such as a JVM."""

from __future__ import annotations

import os
import resource
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")


def own_peak_mib() -> float:
    """Return the peak resident set size of this process."""
    if (peak := _peak_kib(os.getpid())) is not None:
        return peak / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def children_peak_mib() -> float:
    """Return the sum of the peak resident set sizes of all running descendants of this process."""
    parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
    below, found = {os.getpid()}, set[int]()
    while found := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= found
    return sum(_peak_kib(pid) or 0 for pid in below - {os.getpid()}) / 1024


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()] if _PROC.is_dir() else []


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int((_PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
    return None


def _peak_kib(pid: int) -> int | None:
    # Unlike ru_maxrss, VmHWM does not include the peak of the parent process before the fork.
    with suppress(OSError):
        for line in (_PROC / str(pid) / "status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
    return None
