"""Runs the arms of a workload in turn, each in its own process, and records times, checksums and memory."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
import tempfile
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from benchmarks.auditing import audited
from benchmarks.memory import children_peak_mib, own_peak_mib

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ARM_DEADLINE_SECONDS = 1_200
CLOSE_SECONDS = 30
ERROR_LENGTH = 200


class NotRunError(Exception):
    """The arm is skipped on purpose; the message gives the reason."""


class Arm(Protocol):
    """One implementation of a workload."""

    def prepare(self, folder: Path, scale: float) -> None:
        """Open sessions and create inputs; not timed."""

    def reset(self, round_number: int) -> None:
        """Create the initial state of the tables; not timed."""

    def run(self) -> dict[str, float] | None:
        """Do the work; timed. May return additional metrics."""

    def checksum(self) -> str:
        """Return a checksum of the result, which must be the same for all arms."""

    def close(self) -> None:
        """Release all resources."""


@dataclass
class Measurement:
    """The measurements of one arm over all rounds.

    Attributes:
        arm: The name of the arm.
        seconds: The time of each round, without the warm-up.
        figures: The arm's additional metrics of each round.
        checksums: The checksum of each round, including the warm-up.
        peak_rss_mib: Peak memory of the arm's process.
        children_rss_mib: Peak memory of its child processes, such as a JVM.
        first_seconds: The time of the warm-up round.
        start_seconds: The time it took to start Spark, if the arm uses it.
        audited: The number of floe's tables that were audited completely.
        breaches: The breaches that the audit found, one per line.
        error: The reason why there is no result.
    """

    arm: str
    seconds: list[float] = field(default_factory=list)
    figures: list[dict[str, float]] = field(default_factory=list)
    checksums: list[str] = field(default_factory=list)
    peak_rss_mib: float = 0.0
    children_rss_mib: float = 0.0
    first_seconds: float | None = None
    start_seconds: float | None = None
    audited: int = 0
    breaches: list[str] = field(default_factory=list)
    error: str | None = None


@dataclass(frozen=True)
class Round:
    """The measurements of one arm in one round."""

    seconds: float
    figures: dict[str, float]
    checksum: str
    peak_rss_mib: float
    children_rss_mib: float


@dataclass(frozen=True)
class Setup:
    """The parameters of an arm."""

    module: str
    arm: str
    folder: Path
    scale: float
    variant: str = ""

    def make(self) -> Arm:
        """Create the arm."""
        kind = importlib.import_module(self.module).ARMS[self.arm]
        arm: Arm = kind(self.variant) if self.variant else kind()
        return arm


def _serve(setup: Setup, pipe: Connection) -> None:
    """Run an arm in its process, one round per request."""
    arm = setup.make()
    try:
        arm.prepare(setup.folder, setup.scale)
        pipe.send(("ready", getattr(arm, "start_seconds", None)))
        while (round_number := pipe.recv()) is not None:
            arm.reset(round_number)
            started = time.perf_counter()
            figures = arm.run() or {}
            seconds = time.perf_counter() - started
            memory = own_peak_mib(), children_peak_mib()
            pipe.send(("done", Round(seconds, figures, arm.checksum(), *memory)))
        arm.close()
        pipe.send(("closed", None))
    except NotRunError as reason:
        pipe.send(("failed", str(reason)))
    except BaseException:  # noqa: BLE001 - a failing peer is a result and must not end the run
        traceback.print_exc()
        pipe.send(("failed", _first_line(sys.exception())))
        with suppress(Exception):
            arm.close()


def _first_line(error: BaseException | None) -> str:
    return traceback.format_exception_only(error)[-1].strip().splitlines()[0][:ERROR_LENGTH]


class ArmProcess:
    """The process of one arm."""

    def __init__(self, setup: Setup) -> None:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        self.measurement = Measurement(setup.arm)
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_serve, args=(setup, child))
        self._process.start()
        # Otherwise, the pipe would stay open after the process has died.
        child.close()
        self.measurement.start_seconds = self._answer()

    def _answer(self) -> Any:
        if not self._pipe.poll(ARM_DEADLINE_SECONDS):
            self._fail(f"no response within {ARM_DEADLINE_SECONDS} s")
            return None
        try:
            kind, value = self._pipe.recv()
        except EOFError:
            kind, value = "failed", "its process died"
        if kind == "failed":
            self._fail(value)
            return None
        return value

    def _fail(self, reason: str) -> None:
        self.measurement.error = reason
        # The process may still be releasing resources.
        self._process.join(CLOSE_SECONDS)
        self._process.kill()

    def round(self, number: int, *, keep: bool) -> None:
        """Run one round; the time of the warm-up is recorded separately."""
        if self.measurement.error:
            return
        self._pipe.send(number)
        answer: Round | None = self._answer()
        if answer is None:
            return
        shown = self.measurement
        shown.peak_rss_mib = max(shown.peak_rss_mib, answer.peak_rss_mib)
        shown.children_rss_mib = max(shown.children_rss_mib, answer.children_rss_mib)
        shown.checksums.append(answer.checksum)
        if keep:
            shown.seconds.append(answer.seconds)
            shown.figures.append(answer.figures)
        else:
            shown.first_seconds = answer.seconds

    def close(self) -> None:
        """End the process."""
        if not self.measurement.error:
            self._pipe.send(None)
            self._answer()
        self._process.join(CLOSE_SECONDS)
        if self._process.is_alive():
            self._process.kill()


def measure(module: str, *, scale: float, rounds: int, variant: str = "", warm_up: bool = True) -> list[Measurement]:
    """Run a workload: in each round, all arms in turn."""
    names = list(importlib.import_module(module).ARMS)
    with tempfile.TemporaryDirectory(prefix="floe-bench-") as temporary:
        arms: list[ArmProcess] = []
        try:
            for name in names:
                folder = Path(temporary) / name.replace(" ", "-")
                folder.mkdir()
                arms.append(ArmProcess(Setup(module, name, folder, scale, variant)))
            for number in range(rounds + warm_up):
                for arm in arms:
                    arm.round(number, keep=number >= int(warm_up))
        finally:
            for arm in arms:
                arm.close()
        # The first arm is floe.
        tables = audited(Path(temporary) / names[0].replace(" ", "-"))
    arms[0].measurement.audited = len(tables)
    arms[0].measurement.breaches = [f"{table}: {breach}" for table, found in tables.items() for breach in found]
    return [arm.measurement for arm in arms]
