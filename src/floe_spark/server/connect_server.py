"""Starts and stops a local Spark Connect server, which listens on loopback only and requires a token."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from floe_core.errors import EngineSetupError, EngineUnavailableError
from floe_core.runtime.files import exclusive, write_atomically
from floe_core.runtime.processes import birth_of
from floe_core.telemetry import get_logger
from floe_spark.java.ivy import spark_home
from floe_spark.server.idle import Lease, start_watcher
from floe_spark.server.processes import end_process
from floe_spark.session.settings import LOOPBACK, launch_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from floe_spark.session.settings import SparkSettings

_STATE_FILE = "connect-server.json"
_LOG_FILE = "connect-server.log"
_TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - a variable's name
_SERVER_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_START_SECONDS = 90.0
_POLL_SECONDS = 0.1
_LOG_TAIL = 2000


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A Spark Connect server started by floe.

    Attributes:
        pid: Its process id.
        born: Start time of the process, as reported by the operating system; detects a reused pid.
        port: Port on the loopback address.
        fingerprint: Digest of the settings it was started with.
        packages: Maven packages it was started with.
        log: Path of its log file.
        started_at: Start time in seconds since the epoch.
        token: Token that clients authenticate with.
        idle_timeout_minutes: Minutes without a client after which it stops; 0 for never.
        watcher: Pid and start time of the process that stops it when idle.
    """

    pid: int
    born: str
    port: int
    fingerprint: str
    packages: tuple[str, ...]
    log: str
    started_at: float
    token: str = field(repr=False)
    idle_timeout_minutes: float = 0.0
    watcher: tuple[int, str] | None = None

    @property
    def address(self) -> str:
        """The address it listens on, without the token; safe to log."""
        return f"sc://{LOOPBACK}:{self.port}"

    @property
    def url(self) -> str:
        """The address clients connect to, including the token; never log it."""
        # Without TLS, PySpark sends a token only to this host name.
        return f"sc://localhost:{self.port}/;token={self.token}"

    @property
    def alive(self) -> bool:
        """Whether the process that floe started is still running."""
        return birth_of(self.pid) == self.born

    def fits(self, settings: SparkSettings) -> bool:
        """Whether it was started with these settings and at least these packages."""
        return self.fingerprint == settings.fingerprint and set(settings.packages) <= set(self.packages)


def start_server(settings: SparkSettings) -> ServerInfo:
    """Start the project's server, or return the running one.

    Raises:
        EngineSetupError: The master is not local, a server with other settings is running, or Java or a jar is missing.
        EngineUnavailableError: The server did not start; the message contains the end of its log.
    """
    if not settings.local:
        msg = f"Only a local Spark server can be started, but compute.master is {settings.master}."
        raise EngineSetupError(msg, hint="Set compute.master to local[*].")
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    with exclusive(settings.state_dir / ".lock"):
        running = server_status(settings.state_dir)
        if running is not None and running.fits(settings):
            # Restarts the idle timeout: the caller is about to use the server.
            Lease(settings.state_dir).release()
            return running
        if running is not None:
            msg = f"A Spark server with other settings is running as process {running.pid}."
            raise EngineSetupError(msg, hint="Stop it first: floe spark stop")
        return _start(settings)


def stop_server(state_dir: Path) -> bool:
    """Stop the project's server; return whether one was running."""
    server = _read_state(state_dir)
    _state_path(state_dir).unlink(missing_ok=True)
    if server is None or not server.alive:
        return False
    end_process(server.pid, server.born)
    # If the caller is the watcher itself, it must not end itself here.
    if server.watcher is not None and server.watcher[0] != os.getpid():
        end_process(*server.watcher)
    return True


def server_status(state_dir: Path) -> ServerInfo | None:
    """Return the project's running server, or None; the state file of a dead server is removed."""
    server = _read_state(state_dir)
    if server is None:
        return None
    if not server.alive:
        get_logger("floe.spark").warning(
            "spark.server.died", pid=server.pid, log=server.log, hint="Start it again: floe spark start"
        )
        _state_path(state_dir).unlink(missing_ok=True)
        return None
    return server


def join_server(settings: SparkSettings) -> tuple[ServerInfo, Lease] | None:
    """Return the project's server and a lease on it if it runs, responds and matches the settings."""
    if not _state_path(settings.state_dir).is_file():
        return None
    # Taken first: a server found while the lease is held does not stop while its client uses it.
    lease = Lease(settings.state_dir)
    server = server_for(settings)
    if server is None:
        lease.release()
        return None
    return server, lease


def server_for(settings: SparkSettings) -> ServerInfo | None:
    """Return the project's server if it runs, responds and matches the settings."""
    server = server_status(settings.state_dir)
    if server is None:
        return None
    if not server.fits(settings):
        get_logger("floe.spark").warning(
            "spark.server.other_settings", pid=server.pid, hint="Restart it: floe spark stop, floe spark start"
        )
        return None
    return server if _listens(server.port) else None


def _start(settings: SparkSettings) -> ServerInfo:
    java, jars = settings.resolve()
    port, token = _free_port(), secrets.token_urlsafe(32)
    conf = settings.driver_conf(jars) | {
        "spark.app.name": "floe",
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": str(port),
    }
    # After an OutOfMemoryError, the server would hang in an unusable state instead of exiting.
    conf["spark.driver.defaultJavaOptions"] += " -XX:+ExitOnOutOfMemoryError"
    properties = settings.state_dir / "connect-server.properties"
    write_atomically(properties, _properties_text(conf), mode=0o600)
    log = settings.state_dir / _LOG_FILE
    command = [str(spark_home() / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
    command += ["--properties-file", str(properties), "--master", settings.master, "--class", _SERVER_CLASS]
    environment = os.environ | launch_environment(java, local=True)
    # The token is passed in the environment: every user on the machine can read command lines.
    environment |= {_TOKEN_VARIABLE: token, "SPARK_HOME": str(spark_home())}
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(  # noqa: S603 - Spark's launcher
                [*command, "spark-internal"],
                cwd=settings.state_dir,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            _await_start(process, port, log)
        except BaseException:
            # An interrupt must not leave a server without a state file.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
            raise
    finally:
        properties.unlink(missing_ok=True)
    # It outlives this process on purpose: Popen must not warn that it was not waited for.
    process.returncode = 0
    server = ServerInfo(
        pid=process.pid,
        born=birth_of(process.pid) or "",
        port=port,
        fingerprint=settings.fingerprint,
        packages=settings.packages,
        log=str(log),
        started_at=time.time(),
        token=token,
        idle_timeout_minutes=settings.idle_timeout_minutes,
    )
    if minutes := settings.idle_timeout_minutes:
        watcher = start_watcher(settings.state_dir, minutes, pid=server.pid, born=server.born)
        server = replace(server, watcher=(watcher, birth_of(watcher) or ""))
    write_atomically(_state_path(settings.state_dir), json.dumps(asdict(server)), mode=0o600)
    return server


def _await_start(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        if _listens(port):
            return
        time.sleep(_POLL_SECONDS)
    tail = log.read_text(errors="replace")[-_LOG_TAIL:].strip()
    msg = f"The local Spark server did not start. Last lines of {log}:\n{tail}\n"
    raise EngineUnavailableError(msg, hint="Run floe doctor to check Java, jars and memory.")


def _properties_text(conf: Mapping[str, str]) -> str:
    """Format Java properties, escaping backslashes, line breaks and colons."""
    escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in conf.items()}
    return "".join(f"{key.replace(':', chr(92) + ':')}={value}\n" for key, value in escaped.items())


def _read_state(state_dir: Path) -> ServerInfo | None:
    try:
        content = json.loads(_state_path(state_dir).read_text(encoding="utf-8"))
        watcher = tuple(content.get("watcher") or ()) or None
        return ServerInfo(**content | {"packages": tuple(content["packages"]), "watcher": watcher})
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def _state_path(state_dir: Path) -> Path:
    return state_dir / _STATE_FILE


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1):
        return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])
