"""Starts a server once, lets several processes share it, and ends it when the last one leaves."""

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
    """A server could not be fetched or did not start; the message names its log."""


@dataclass(frozen=True)
class Launch:
    """How a server is started.

    Attributes:
        command: Its command line.
        ready: Tells whether it answers.
        properties: What its users need to know, such as its address.
        environ: Variables on top of the process's own.
        after: Runs once it answers, such as making a bucket.
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
        """Its address."""
        return self.properties["url"]

    def __getitem__(self, key: str) -> str:
        """Return one of its properties."""
        return self.properties[key]


class Service(ABC):
    """A real server that tests and people can have on this machine."""

    name: str

    @abstractmethod
    def missing(self) -> str | None:
        """Name the tool this machine lacks for it, None when it can run."""

    @abstractmethod
    def prepare(self, dev: Path) -> None:
        """Fetch or build it below ``dev``; quick when it is already there."""

    @abstractmethod
    def launch(self, dev: Path, folder: Path) -> Launch:
        """Choose a port and say how to start it with its data in ``folder``."""


class ServiceRun:
    """The servers of one test run, or of one person; shared by all processes that use the same folder."""

    def __init__(self, dev: Path, name: str) -> None:
        """Keep state in ``dev/services/name``."""
        self._dev = dev
        self._root = dev / "services" / name
        self._name = name

    def start(self, service: Service, *, keep: bool = False) -> Server:
        """Return the server, started by whoever comes first.

        Args:
            service: Which one.
            keep: Leave it running after this process ended, until ``stop``.

        Raises:
            ServiceError: It could not be fetched or did not start.
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
        """Return the server when it runs."""
        path = self._root / name / "server.json"
        if not path.is_file():
            return None
        state = json.loads(path.read_text(encoding="utf-8"))
        if not is_alive(state["pid"]):
            return None
        return Server(name, state["properties"], state["pid"], Path(state["log"]))

    def running(self) -> list[Server]:
        """List the servers that run."""
        if not self._root.is_dir():
            return []
        found = (self.find(folder.name) for folder in sorted(self._root.iterdir()))
        return [server for server in found if server is not None]

    def leave(self) -> None:
        """Tell that this process uses no server any more; the last one out ends them."""
        if self._root.is_dir():
            for users in self._root.glob("*/users"):
                (users / str(os.getpid())).unlink(missing_ok=True)

    def stop(self, name: str) -> None:
        """End a server by its process id."""
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
        supervisor = subprocess.Popen(  # noqa: S603 - our own supervisor
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
        # The supervisor outlives this process on purpose; nobody is to wait for it.
        supervisor.returncode = 0
        return Server(service.name, launch.properties, supervisor.pid, log)


def _wait_for(name: str, launch: Launch, supervisor: subprocess.Popen[bytes], log: Path) -> None:
    def up() -> bool:
        if supervisor.poll() is not None:
            tail = log.read_text(encoding="utf-8", errors="replace")[-2000:] if log.is_file() else ""
            msg = f"{name} ended while it started; its log is {log}:\n{tail}"
            raise ServiceError(msg)
        return launch.ready()

    wait_until(up, seconds=_START_SECONDS, what=f"{name} to answer (log: {log})")
    if launch.after is not None:
        launch.after()


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for a condition.

    Raises:
        ServiceError: It did not come true in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            msg = f"Waited {seconds:g} s in vain for {what}."
            raise ServiceError(msg)
        time.sleep(0.1)


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def answers(url: str) -> bool:
    """Whether an HTTP server gives any answer short of an internal error there."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=2) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as err:
        return err.code < 500
    except OSError:
        return False
