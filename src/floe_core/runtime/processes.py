"""Identities of processes, which let another process check later whether they are still running."""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import re
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

_TEXT = re.compile(r"^(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<started>[0-9a-f]+)$")
_LINUX = sys.platform == "linux"
_ENDED = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
_UNKNOWN_START = "0"


@dataclass(frozen=True)
class ProcessMark:
    """The identity of one process on one host.

    A process id alone is not enough: ids are reused, and every container has its own.

    Attributes:
        host: Digest of the host name and the namespace of process ids.
        pid: The process id.
        started: Digest of the boot and the process's start time; a later process with the same id has another one.
    """

    host: str
    pid: int
    started: str

    def __str__(self) -> str:
        """Return the mark as letters, digits and dashes."""
        return f"{self.host}-{self.pid}-{self.started}"

    @classmethod
    def of_this(cls) -> ProcessMark:
        """Return the mark of the current process."""
        return cls._of(os.getpid())

    @classmethod
    def of_parent(cls) -> ProcessMark | None:
        """Return the mark of the ``multiprocessing`` parent; None if there is none or it has ended."""
        parent = multiprocessing.parent_process()
        if parent is None or parent.pid is None or _start_of(parent.pid) is None:
            return None
        return cls._of(parent.pid)

    @classmethod
    def _of(cls, pid: int) -> ProcessMark:
        return cls(_host(), pid, _start_of(pid) or _UNKNOWN_START)

    @classmethod
    def parse(cls, text: str) -> ProcessMark | None:
        """Parse a mark; None for any other text."""
        found = _TEXT.match(text)
        return cls(found["host"], int(found["pid"]), found["started"]) if found else None

    @property
    def here(self) -> bool:
        """Whether the process belongs to this host."""
        return self.host == _host()

    @property
    def dead(self) -> bool:
        """Whether the process has certainly ended; False for another host, whose processes are not visible here."""
        return self.here and self.started != _UNKNOWN_START and _start_of(self.pid) != self.started


def birth_of(pid: int) -> str | None:
    """Return a process's start time, as the operating system counts it; None if the process has ended.

    The text is stored in files and compared for equality: two processes with the same id have different start times.
    """
    while True:
        try:
            before = psutil.boot_time()
            process = psutil.Process(pid)
            if process.status() in _ENDED:
                return None
            created = process.create_time()
        except (psutil.Error, ValueError):
            # A negative id, from a damaged file, is a ValueError.
            return None
        if not _LINUX:
            return time.ctime(created)
        # psutil adds the boot time, which changes whenever the clock is set; the ticks since boot never change.
        if psutil.boot_time() == before:
            return str(round((created - before) * os.sysconf("SC_CLK_TCK")))


def _start_of(pid: int) -> str | None:
    birth = birth_of(pid)
    if birth is None:
        return None
    return _digest(f"{_boot()} {birth}" if _LINUX else birth)


@functools.cache
def _host() -> str:
    # Containers may share a host name and a kernel, but never their process id namespace.
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return _digest(f"{socket.gethostname()}\0{namespace}")


@functools.cache
def _boot() -> str:
    # psutil provides only the boot time.
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
