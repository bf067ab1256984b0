"""Which process made something, told so that others can find out later whether it still runs."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import re
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TEXT = re.compile(r"^(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>[0-9a-f]+)$")
_PROC = Path("/proc")
# Fields of /proc/PID/stat after the command's name: the state is the first, the start in clock ticks the twentieth.
_STATE, _START = 0, 19
_ENDED = {"Z", "X", "x"}


@dataclass(frozen=True)
class ProcessMark:
    """One process of one host.

    A process id alone says little: ids are used again, and every container has its own. The host stands for the
    machine and its table of processes; the start tells one process from a later one of the same id.

    Attributes:
        host: Digest of the host's name and its table of processes.
        pid: The process id.
        started: When it began, as the system counts; a boot is part of it.
    """

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        """Write it in letters, digits and dashes."""
        return f"{self.host}-{self.pid}-{self.started}"

    @classmethod
    def of_this(cls) -> ProcessMark:
        """Mark the process that runs this."""
        return cls._of(os.getpid())

    @classmethod
    def of_parent(cls) -> ProcessMark | None:
        """Mark the process that started this one by ``multiprocessing``, if one did and still runs."""
        parent = multiprocessing.parent_process()
        if parent is None or parent.pid is None or _start_of(parent.pid) is None:
            return None
        return cls._of(parent.pid)

    @classmethod
    def _of(cls, pid: int) -> ProcessMark:
        return cls(_host(), pid, _start_of(pid) or "0")

    @classmethod
    def parse(cls, text: str) -> ProcessMark | None:
        """Read a mark; None for any other text."""
        found = _TEXT.match(text)
        return cls(found["host"], int(found["pid"]), found["started"]) if found else None

    @property
    def here(self) -> bool:
        """Whether the process is, or was, one of this host."""
        return self.host == _host()

    @property
    def dead(self) -> bool:
        """Whether the process has ended for certain; False for one of another host, of which nobody here can tell."""
        return self.here and self.started != "0" and _start_of(self.pid) != self.started


@functools.cache
def _host() -> str:
    # Containers may share a name and a kernel; what they never share is the namespace of their process ids.
    try:
        space = str((_PROC / "self/ns/pid").readlink())
    except OSError:
        space = ""
    return hashlib.sha256(f"{socket.gethostname()}\0{space}".encode()).hexdigest()[:8]


def _start_of(pid: int) -> str | None:
    """Return when a process began, as hexadecimal text; None when there is no such process any more."""
    if not (_PROC / "self/stat").exists():
        return _start_by_ps(pid)
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The name of the command may hold blanks and brackets.
    fields = stat.rpartition(")")[2].split()
    if fields[_STATE] in _ENDED:
        return None
    return _digest(f"{_boot()} {fields[_START]}")


@functools.cache
def _boot() -> str:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _start_by_ps(pid: int) -> str | None:
    command = ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - numbers only
    state, _, began = answer.stdout.strip().partition(" ")
    return _digest(began.strip()) if began and not state.startswith("Z") else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
