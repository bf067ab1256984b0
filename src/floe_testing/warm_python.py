"""Runs Python programs in forked processes with the heavy libraries already imported.

Each process is forked from a server that has imported the libraries and done nothing else. It can be killed, waited for
and read like any other process, without the time for imports. Tests of program startup run the interpreter itself.
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
    """A running program with the parts of ``subprocess.Popen`` that tests use; it leads its own session.

    Attributes:
        arguments: Arguments of the interpreter.
        pid: Process id.
        stdin: Standard input.
        stdout: Standard output.
        stderr: Standard error.
    """

    def __init__(self, *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start a program like ``python ARGUMENTS``: ``-m module …``, ``-c code …`` or ``script …``."""
        self.arguments = arguments
        (read, write_in), (read_out, out), (read_err, err) = (os.pipe() for _ in range(3))
        child_ends = (read, out, err)
        environment = dict(os.environ if env is None else env)
        self._process = _FORKS.Process(
            target=_begin, args=(arguments, cwd or Path.cwd(), environment, [DupFd(one) for one in child_ends])
        )
        self._process.start()
        for descriptor in child_ends:
            os.close(descriptor)
        self.pid = self._process.pid or 0
        self.stdin: IO[str] = os.fdopen(write_in, "w", encoding="utf-8")
        self.stdout: IO[str] = os.fdopen(read_out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(read_err, encoding="utf-8")

    @property
    def returncode(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until the process exits, and return its exit code.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(self.arguments, timeout)
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait until the process and all processes that share its output have exited; return the output.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        self.stdin.close()
        readers = ThreadPoolExecutor(2)
        try:
            streams = [readers.submit(stream.read) for stream in (self.stdout, self.stderr)]
            self.wait(timeout)
            out, err = (stream.result(_ENDING_SECONDS) for stream in streams)
        except TimeoutError as err:
            raise subprocess.TimeoutExpired(self.arguments, timeout) from err
        finally:
            readers.shutdown(wait=False)
        self.stdout.close()
        self.stderr.close()
        return out, err

    def kill(self) -> None:
        """Kill the process if it is still running."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def run(
    *arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 280
) -> subprocess.CompletedProcess[str]:
    """Run a program to completion, like ``subprocess.run``."""
    process = WarmProcess(*arguments, cwd=cwd, env=env)
    try:
        out, err = process.communicate(timeout)
    finally:
        process.kill()
    return subprocess.CompletedProcess(arguments, process.wait(_ENDING_SECONDS), out, err)


def _begin(arguments: tuple[str, ...], folder: Path, environment: dict[str, str], streams: list[Any]) -> None:
    os.setsid()
    # The program must not see the process that forked it as its multiprocessing parent.
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
            exec(compile(given, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - code from a test
    else:
        sys.argv = [kind, *rest]
        sys.path.insert(0, str(Path(kind).parent))
        runpy.run_path(kind, run_name="__main__")
