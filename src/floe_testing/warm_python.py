"""Python programs as processes of their own that begin with everything imported.

A process is a fork of one that has imported the heavy libraries and done nothing else. It is killed, waited for and
read as any other; only the seconds of importing are spared. How a program begins from nothing is for other tests, with
the interpreter itself.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["alembic.command", "dagster", "floe_dagster.runs.materialize", "pyiceberg.catalog.sql", "pyiceberg.catalog.rest"]
)
_ENDING_SECONDS = 60.0


class WarmProcess:
    """A running program, with the part of ``subprocess.Popen`` that tests use; it leads a session of its own.

    Attributes:
        arguments: What the interpreter was given.
        pid: Number of the process.
        stdin: What it reads.
        stdout: What it says.
        stderr: What it complains about.
    """

    def __init__(self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start a program as ``python ARGUMENTS`` would: ``-m module …``, ``-c code …`` or ``script …``."""
        self.arguments = arguments
        (read, write_in), (read_out, said), (read_err, complained) = (os.pipe() for _ in range(3))
        theirs = (read, said, complained)
        environment = dict(os.environ if env is None else env)
        self._process = _FORKS.Process(
            target=_begin, args=(arguments, cwd or Path.cwd(), environment, [DupFd(one) for one in theirs])
        )
        self._process.start()
        for descriptor in theirs:
            os.close(descriptor)
        self.pid = self._process.pid or 0
        self.stdin: IO[str] = os.fdopen(write_in, "w", encoding="utf-8")
        self.stdout: IO[str] = os.fdopen(read_out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(read_err, encoding="utf-8")

    @property
    def returncode(self) -> int | None:
        """How it ended, below zero by a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return how it ended, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until it has ended.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait until it has ended, and so has whoever shares its output; return all that was said.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        self.stdin.close()
        readers = ThreadPoolExecutor(2)
        try:
            streams = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            self.wait(timeout)
            said, complained = (stream.result(_ENDING_SECONDS) for stream in streams)
        except TimeoutError as err:
            raise subprocess.TimeoutExpired(self.arguments, timeout) from err
        finally:
            readers.shutdown(wait=False)
        self.stdout.close()
        self.stderr.close()
        return said, complained

    def kill(self) -> None:
        """End it at once, if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def run(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 280
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as ``subprocess.run`` does."""
    process = WarmProcess(*arguments, cwd=cwd, env=env)
    try:
        said, complained = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.wait(_ENDING_SECONDS), said, complained)


def _begin(arguments: tuple[str, ...], folder: Path, environment: dict[str, str], streams: list[Any]) -> None:
    os.setsid()
    # A program that somebody else started is nobody's child to it.
    vars(multiprocessing.process)["_parent_process"] = None
    for number, stream in enumerate(streams):
        descriptor = stream.detach()
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False, buffering=1)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    kind, *rest = arguments
    if kind in {"-m", "-c"}:
        given, *rest = rest
        sys.argv = [kind, *rest]
        sys.path.insert(0, str(folder))
        if kind == "-m":
            runpy.run_module(given, run_name="__main__", alter_sys=True)
        else:
            exec(compile(given, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - a test's own
    else:
        sys.argv = [kind, *rest]
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")
