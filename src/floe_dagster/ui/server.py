"""Starts and stops Dagster's webserver, daemon and code server for a project."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from typing import TYPE_CHECKING, Self

from floe_core.errors import ConfigurationError
from floe_core.observing.observability import TRACE_PARENT_VARIABLE
from floe_core.runtime.files import write_atomically
from floe_dagster.code_location import ENVIRONMENT_VARIABLE, PER_TENANT_VARIABLE, PROJECT_VARIABLE
from floe_dagster.runs.home import dagster_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from floe_core.schemas import CompiledArtifacts

HOST = "127.0.0.1"
_POLL_SECONDS = 0.25
_RESPONSE_SECONDS = 5.0
# Dagster gives its webserver and its daemon a minute each.
_END_SECONDS = 150.0
_LEFTOVER_SECONDS = 20.0
# Dagster has superseded the command; the warning does not concern floe's users.
_QUIET = "ignore:Function `dev_command` is superseded"


class DagsterUi:
    """Webserver, daemon and code server of a project, as a context manager that stops all of them on exit."""

    def __init__(self, artifacts: CompiledArtifacts, port: int) -> None:
        """Create the UI for a project on a port."""
        self._artifacts = artifacts
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the UI."""
        return f"http://{HOST}:{self._port}"

    def __enter__(self) -> Self:
        """Start the UI without waiting until it responds."""
        home = dagster_home(self._artifacts)
        command = [sys.executable, "-m", "dagster", "dev", "--host", HOST, "--port", str(self._port)]
        command += ["--workspace", str(self._workspace(home)), "--log-level", "warning"]
        # In a separate session, it gets Ctrl-C only from this process, and its process group has all its children.
        self._process = subprocess.Popen(  # noqa: S603 - our own
            command, env=self._environment(home), cwd=self._artifacts.project_root, start_new_session=True
        )
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Stop the UI and all its processes."""
        process = self._started()
        try:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
        finally:
            # Also runs when the user presses Ctrl-C a second time during shutdown.
            self._end_group(process.pid)

    def await_ready(self) -> int | None:
        """Wait until the UI responds; return the exit code if it exits instead."""
        process = self._started()
        while (code := process.poll()) is None:
            with (
                contextlib.suppress(OSError),
                urllib.request.urlopen(  # noqa: S310 - our own address
                    f"{self.url}/server_info", timeout=_RESPONSE_SECONDS
                ),
            ):
                return None
            time.sleep(_POLL_SECONDS)
        return code

    def await_end(self) -> int:
        """Wait until the UI exits, and return its exit code."""
        return self._started().wait()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            msg = "DagsterUi is not running. Use it as a context manager."
            raise RuntimeError(msg)
        return self._process

    def _environment(self, home: Path) -> dict[str, str]:
        quiet = ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), _QUIET)))
        # Runs launched in the UI must not be traced as children of the caller's span.
        inherited = {key: value for key, value in os.environ.items() if key != TRACE_PARENT_VARIABLE}
        return inherited | {
            "DAGSTER_HOME": str(home),
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "PYTHONWARNINGS": quiet,
            PROJECT_VARIABLE: str(self._artifacts.project_root),
            ENVIRONMENT_VARIABLE: self._artifacts.environment or "",
            PER_TENANT_VARIABLE: "1" if self._artifacts.orchestration.per_tenant else "",
        }

    def _workspace(self, home: Path) -> Path:
        """Write a workspace file that names the code location after the project."""
        module = {
            "module_name": "floe_dagster.code_location",
            "location_name": self._artifacts.name,
            "working_directory": str(self._artifacts.project_root),
        }
        path = home / "workspace.yaml"
        # JSON is YAML.
        write_atomically(path, json.dumps({"load_from": [{"python_module": module}]}, indent=2), mode=0o644)
        return path

    def _end_group(self, group: int) -> None:
        """Terminate the processes left in a process group, such as active runs or servers that ignored SIGINT."""
        for ending, patience in ((signal.SIGTERM, _LEFTOVER_SECONDS), (signal.SIGKILL, _LEFTOVER_SECONDS)):
            deadline = time.monotonic() + patience
            try:
                os.killpg(group, ending)
                while time.monotonic() < deadline:
                    self._started().poll()
                    os.killpg(group, 0)
                    time.sleep(_POLL_SECONDS)
            except ProcessLookupError:
                return


def chosen_port(port: int) -> int:
    """Return the port to use: the given one, or a free one for 0.

    Raises:
        ConfigurationError: The port is in use or not permitted.
    """
    with socket.socket() as probe:
        # The webserver sets the same option: a port whose last connections are closing counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as err:
            msg = f"Port {port} is not available: {err.strerror}."
            raise ConfigurationError(
                msg, hint="Choose another port, such as floe dev --port 3001, or any free port with --port 0."
            ) from err
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C for the duration of a block."""
    # SIGINT as well: shells start background jobs with SIGINT ignored, which child processes would inherit.
    names = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {name: signal.signal(name, signal.default_int_handler) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
