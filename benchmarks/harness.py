"""Runs the arms of a workload in turn, each in its own process, and keeps times, checksums and memory."""

from __future__ import annotations

import importlib
import multiprocessing
import resource
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ARM_DEADLINE_SECONDS = 1_200


class Arm(Protocol):
    """One way of doing a workload's work."""

    def prepare(self, folder: Path, scale: float) -> None:
        """Open sessions, make inputs; not timed."""

    def reset(self, round_number: int) -> None:
        """Bring the tables into their starting state; not timed."""

    def run(self) -> dict[str, float] | None:
        """Do the work; timed. May return figures of its own."""

    def checksum(self) -> str:
        """Describe the outcome so that a wrong one shows; equal across arms."""

    def close(self) -> None:
        """Release what was opened."""


@dataclass
class Measurement:
    """What one arm showed over all rounds."""

    arm: str
    seconds: list[float] = field(default_factory=list)
    figures: list[dict[str, float]] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    peak_rss_mib: float = 0.0
    error: str | None = None


def _serve(module: str, arm_name: str, folder: str, scale: float, pipe: Connection) -> None:
    """Run inside the arm's process: obey round by round."""
    try:
        arm: Arm = importlib.import_module(module).ARMS[arm_name]()
        arm.prepare(Path(folder), scale)
        pipe.send(("ready", None))
        while (round_number := pipe.recv()) is not None:
            arm.reset(round_number)
            started = time.perf_counter()
            figures = arm.run() or {}
            seconds = time.perf_counter() - started
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send(("done", (seconds, figures, arm.checksum(), peak)))
        arm.close()
        pipe.send(("closed", None))
    except BaseException:  # noqa: BLE001 - a peer that fails is a result, not a crash of the run
        pipe.send(("failed", traceback.format_exception_only(sys.exception())[-1].strip()))


class ArmProcess:
    """One arm in a process of its own."""

    def __init__(self, module: str, name: str, folder: Path, scale: float) -> None:
        """Start it."""
        context = multiprocessing.get_context("spawn")
        self.measurement = Measurement(name)
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(module, name, str(folder), scale, child))
        self._process.start()
        self._answer()

    def _answer(self) -> Any:
        if not self._pipe.poll(ARM_DEADLINE_SECONDS):
            self._fail(f"no answer within {ARM_DEADLINE_SECONDS} s")
            return None
        kind, value = self._pipe.recv()
        if kind == "failed":
            self._fail(value)
            return None
        return value

    def _fail(self, reason: str) -> None:
        self.measurement.error = reason
        self._process.kill()

    def round(self, number: int, *, keep: bool) -> None:
        """Run one round; the warm-up is not kept."""
        if self.measurement.error:
            return
        self._pipe.send(number)
        if (answer := self._answer()) is None:
            return
        seconds, figures, checksum, peak = answer
        self.measurement.peak_rss_mib = max(self.measurement.peak_rss_mib, peak)
        self.measurement.checksums.append(checksum)
        if keep:
            self.measurement.seconds.append(seconds)
            self.measurement.figures.append(figures)

    def close(self) -> None:
        """End the process."""
        if not self.measurement.error:
            self._pipe.send(None)
            self._answer()
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()


def measure(module: str, *, scale: float, rounds: int, warm_up: bool = True) -> list[Measurement]:
    """Run a workload: every arm in turn, round by round."""
    names = list(importlib.import_module(module).ARMS)
    with tempfile.TemporaryDirectory(prefix="floe-bench-") as temporary:
        arms = []
        for name in names:
            folder = Path(temporary) / name.replace(" ", "-")
            folder.mkdir()
            arms.append(ArmProcess(module, name, folder, scale))
        try:
            for number in range(rounds + warm_up):
                for arm in arms:
                    arm.round(number, keep=number >= int(warm_up))
        finally:
            for arm in arms:
                arm.close()
    return [arm.measurement for arm in arms]
