"""Starts servers, shares each of them between processes, and stops them when the last user leaves."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from floe_core.runtime.files import exclusive, write_atomically
from floe_testing.services.host.supervise import KEEP, is_alive

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_START_SECONDS = 90.0


class ServiceError(RuntimeError):
    """A server could not be fetched or started; the message contains the path of its log."""


@dataclass(frozen=True)
class Launch:
    """How to start a server.

    Attributes:
        command: Command line of the server.
        ready: Returns whether the server responds.
        properties: Properties that users need, such as the address.
        environ: Additional environment variables.
        after: Called once the server responds, for example to create a bucket.
    """

    command: list[str]
    ready: Callable[[], bool]
    properties: dict[str, str]
    environ: Mapping[str, str] = field(default_factory=dict)
    after: Callable[[], None] | None = None


@dataclass(frozen=True)
class Server:
    """A running server."""

    name: str
    properties: dict[str, str]
    pid: int
    log: Path

    @property
    def url(self) -> str:
        """Address of the server."""
        return self.properties["url"]

    def __getitem__(self, key: str) -> str:
        """Return a property of the server."""
        return self.properties[key]


class Service(ABC):
    """A server that can run on this machine for tests and development."""

    name: str

    @abstractmethod
    def missing(self) -> str | None:
        """Return the tool that is missing on this machine, or None."""

    @abstractmethod
    def prepare(self, dev: Path) -> None:
        """Fetch or build the server in ``dev``; returns quickly if that has been done."""

    @abstractmethod
    def launch(self, dev: Path, folder: Path) -> Launch:
        """Choose a port and return how to start the server with its data in ``folder``."""


class ServiceRun:
    """The servers of a test run or of a developer, shared by all processes that use the same folder."""

    def __init__(self, dev: Path, name: str) -> None:
        """Store state in ``dev/services/name``."""
        self._dev = dev
        self._root = dev / "services" / name
        self._name = name

    def start(self, service: Service, *, keep: bool = False) -> Server:
        """Return a running server; start it if necessary.

        Args:
            service: The service to start.
            keep: Keep it running after this process has ended, until ``stop``.

        Raises:
            ServiceError: The server could not be fetched or started.
        """
        folder = self._root / service.name
        users = folder / "users"
        users.mkdir(parents=True, exist_ok=True)
        with exclusive(folder / ".lock"):
            (users / (KEEP if keep else str(os.getpid()))).touch()
            running = self.find(service.name)
            if running is not None:
                return running
            with exclusive(self._dev / f".prepare-{service.name}.lock"):
                service.prepare(self._dev)
            return self._launch(service, folder)

    def find(self, name: str) -> Server | None:
        """Return the server if it is running."""
        path = self._root / name / "server.json"
        if not path.is_file():
            return None
        state = json.loads(path.read_text(encoding="utf-8"))
        if not is_alive(state["pid"]):
            return None
        return Server(name, state["properties"], state["pid"], Path(state["log"]))

    def running(self) -> list[Server]:
        """List the running servers."""
        if not self._root.is_dir():
            return []
        found = (self.find(folder.name) for folder in sorted(self._root.iterdir()))
        return [server for server in found if server is not None]

    def leave(self) -> None:
        """Unregister this process from all servers; those without users are stopped."""
        if self._root.is_dir():
            for users in self._root.glob("*/users"):
                (users / str(os.getpid())).unlink(missing_ok=True)

    def stop(self, name: str) -> None:
        """Stop a server."""
        server = self.find(name)
        if server is None:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(server.pid).terminate()
        wait_until(lambda: not is_alive(server.pid), seconds=20, what=f"the end of {name}")

    def _launch(self, service: Service, folder: Path) -> Server:
        logs = self._dev / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{service.name}-{self._name}.log"
        launch = service.launch(self._dev, folder)
        command = [sys.executable, "-m", "floe_testing.services.host.supervise", str(folder), str(log), "--"]
        supervisor = subprocess.Popen(  # noqa: S603 - floe's own supervisor
            [*command, *launch.command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **launch.environ},
            start_new_session=True,
        )
        try:
            _wait_for(service.name, launch, supervisor, log)
        except BaseException:
            supervisor.terminate()
            supervisor.wait(20)
            raise
        state = {"pid": supervisor.pid, "properties": launch.properties, "log": str(log)}
        write_atomically(folder / "server.json", json.dumps(state, indent=2), mode=0o600)
        # The supervisor outlives this process on purpose: Popen must not warn that it was not waited for.
        supervisor.returncode = 0
        return Server(service.name, launch.properties, supervisor.pid, log)


def _wait_for(name: str, launch: Launch, supervisor: subprocess.Popen[bytes], log: Path) -> None:
    def up() -> bool:
        if supervisor.poll() is not None:
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.is_file() else ""
            msg = f"{name} exited during startup. Last lines of {log}:\n{tail}"
            raise ServiceError(msg)
        return launch.ready()

    wait_until(up, seconds=_START_SECONDS, what=f"{name} to answer (log: {log})")
    if launch.after is not None:
        launch.after()


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait until a condition is true.

    Raises:
        ServiceError: The condition was still false after the timeout.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            msg = f"Timed out after {seconds:g} s waiting for {what}."
            raise ServiceError(msg)
        time.sleep(0.1)


def free_port() -> int:
    """Return an unused port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Whether an HTTP server responds at this address without a server error."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as err:
        return err.code < 500
    except OSError:
        return False
