"""Fault injection: drawn from the seed, below floe's code."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from floe_testing.faults.database_faults import DatabaseFault, DatabaseFaults
from floe_testing.faults.gateway import COMMIT_PATH, Exchange, Reply, Rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATABASE_FAULTS = [
    DatabaseFault.LANDED_LOST,
    DatabaseFault.LANDED_IO_ERROR,
    DatabaseFault.LOST,
    DatabaseFault.BUSY,
    DatabaseFault.BUSY_COMMIT,
    DatabaseFault.UNREACHABLE,
    DatabaseFault.FULL,
]
_STATUSES = (409, 429, 500, 502, 503, 504)
_HANG_SECONDS = 10.0


class Steps:
    """Counts a writer's I/O steps and ends the process, as kill -9 does, at the one that was drawn."""

    def __init__(self) -> None:
        self._left: int | None = None
        self._lock = threading.Lock()
        for owner, name in ((PyArrowFile, "create"), (PyArrowFileIO, "delete"), (DatabaseFaults, "commit")):
            self._around(owner, name)

    def arm(self, steps: int | None) -> None:
        self._left = steps

    def _step(self) -> None:
        with self._lock:
            if self._left is None:
                return
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _around(self, owner: type, name: str) -> None:
        original = getattr(owner, name)

        def stepped(*args, **options):
            self._step()
            result = original(*args, **options)
            self._step()
            return result

        setattr(owner, name, stepped)


def skew_clock(seconds: float) -> None:
    """Let this process live in another time."""
    real, real_ns = time.time, time.time_ns
    time.time = lambda: real() + seconds
    time.time_ns = lambda: real_ns() + int(seconds * 1e9)


class GatewayChaos:
    """Draws a fault for some of the requests to a REST catalog."""

    def __init__(self, seed: str, *, share: float) -> None:
        self.faults: Counter[str] = Counter()
        self.share = share
        self._rng = random.Random(seed)
        self._lock = threading.Lock()

    def __call__(self, exchange: Exchange) -> Rule | None:
        commit = exchange.method == "POST" and re.search(COMMIT_PATH, exchange.path)
        with self._lock:
            if self._rng.random() > (self.share if commit else self.share / 8):
                return None
            rule, name = self._commit_fault() if commit else self._other_fault()
            self.faults[name] += 1
        return rule

    def _commit_fault(self) -> tuple[Rule, str]:
        after = self._rng.random() < 0.5
        when = "after landing" if after else "before landing"
        kind = self._rng.choice(["status"] * 8 + ["cut"] * 6 + ["delay"] * 3 + ["hang"])
        if kind == "status":
            status = self._rng.choice(_STATUSES)
            return Rule("", "", forward=after, reply=_answer(status)), f"{status} {when}"
        if kind == "cut":
            return Rule("", "", forward=after, cut=True), f"connection cut {when}"
        if kind == "hang":
            return Rule("", "", forward=False, hang=True, hang_seconds=_HANG_SECONDS), "commit hangs"
        return Rule("", "", delay_seconds=self._rng.uniform(0.1, 1.0)), "commit delayed"

    def _other_fault(self) -> tuple[Rule, str]:
        if self._rng.random() < 0.5:
            return Rule("", "", forward=False, cut=True), "connection cut on a read"
        status = self._rng.choice((429, 502, 503))
        return Rule("", "", forward=False, reply=_answer(status)), f"{status} on a read"


def _answer(status: int) -> Reply:
    headers = {"Retry-After": "0"} if status == 429 else {}
    return Reply.of(status, {"error": {"message": "by the gateway", "type": "Fault", "code": status}}, headers)


@contextlib.contextmanager
def small_disk(folder: Path, *, megabytes: int) -> Iterator[bool]:
    """Give a folder a disk of its own, where this machine allows that; tell whether it did."""
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=False, capture_output=True)


def fill_disk(folder: Path, *, seconds: float) -> None:
    """Take all space of a small disk for a while."""
    filler = folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * (1 << 20))
        with filler.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"\0" * 4096)
        time.sleep(seconds)
    finally:
        filler.unlink(missing_ok=True)
