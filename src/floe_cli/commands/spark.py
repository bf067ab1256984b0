"""``floe spark``: a local Spark server that keeps running between commands."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from floe_cli.command import command, command_group
from floe_cli.doctor.connection import spark_packages
from floe_cli.output import Report, ago, fields, working
from floe_cli.workspace import Workspace
from floe_core.declaration.expansion import expand_section

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts
    from floe_spark import ServerInfo, SparkSettings

app = command_group("Keep a local Spark server running, so that commands do not start their own.")


@command(app)
def start(workspace: Workspace) -> Report:
    """Start the project's Spark server, unless it is already running.

    Examples:
        floe spark start
    """
    from floe_spark import start_server

    with working("Starting Spark"), workspace.connection() as connection:
        settings = spark_settings(connection.artifacts, spark_packages(connection))
        server = start_server(settings)
    return Report(data=_data(server), text=[f"Spark is running as process {server.pid} at {server.address}."])


@command(app)
def stop(workspace: Workspace) -> Report:
    """Stop the project's Spark server.

    Examples:
        floe spark stop
    """
    from floe_spark import stop_server

    with working("Stopping Spark"):
        stopped = stop_server(spark_settings(workspace.artifacts).state_dir)
    return Report(data={"stopped": stopped}, text=["Stopped Spark." if stopped else "No Spark server was running."])


@command(app)
def status(workspace: Workspace) -> Report:
    """Show whether the project's Spark server is running.

    Examples:
        floe spark status
    """
    from floe_spark import server_status

    server = server_status(spark_settings(workspace.artifacts).state_dir)
    if server is None:
        return Report(data=_data(None), text=["No Spark server is running. Start one with: floe spark start"])
    pairs = [
        ("Process", server.pid),
        ("Address", server.address),
        ("Started", ago(datetime.fromtimestamp(server.started_at, UTC))),
        ("Stops", _end(server)),
        ("Log", server.log),
    ]
    return Report(data=_data(server), text=[fields(pairs)])


def spark_settings(artifacts: "CompiledArtifacts", packages: tuple[str, ...] = ()) -> "SparkSettings":
    """Return the Spark settings of a project."""
    from floe_spark import SparkSettings

    compute = expand_section(artifacts.compute, path="compute")
    return SparkSettings.from_config(compute, project_root=artifacts.project_root, packages=packages)


@contextmanager
def shared_spark(workspace: Workspace) -> Iterator[None]:
    """Share one Spark server between all processes of a command; stop it afterwards if this block started it."""
    from floe_spark import server_status, start_server, stop_server
    from floe_spark.server.idle import in_use

    with workspace.connection() as connection:
        settings = spark_settings(connection.artifacts, spark_packages(connection))
    started_here = settings.local and server_status(settings.state_dir) is None
    try:
        if started_here:
            with working("Starting Spark"):
                start_server(settings)
        with in_use(settings.state_dir) if settings.local else nullcontext():
            yield
    finally:
        if started_here:
            stop_server(settings.state_dir)


def _end(server: "ServerInfo") -> str:
    minutes = server.idle_timeout_minutes
    return f"after {minutes:g} minutes without commands" if minutes else "with: floe spark stop"


def _data(server: "ServerInfo | None") -> dict[str, Any]:
    """Describe a server without its token."""
    return {
        "running": server is not None,
        "pid": server and server.pid,
        "address": server and server.address,
        "started_at": server and datetime.fromtimestamp(server.started_at, UTC),
        "idle_timeout_minutes": server and server.idle_timeout_minutes,
        "log": server and server.log,
    }
