"""``floe dev``."""

import os
import subprocess
import sys
from typing import Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.commands.spark import shared_spark
from floe_cli.output import Report
from floe_cli.workspace import Workspace

app = single_command()


@command(app)
def dev(
    workspace: Workspace,
    port: Annotated[int, typer.Option(help="Port of the Dagster UI, on this machine only.")] = 3000,
) -> Report:
    """Open the Dagster UI on this project, until you press Ctrl-C."""
    from floe_dagster.home import dagster_home
    from floe_dagster.pipeline import Pipeline

    artifacts = workspace.artifacts
    # A mistake in the assets is best told before a server starts.
    Pipeline.of(artifacts)
    environment = os.environ | {
        "DAGSTER_HOME": str(dagster_home(artifacts)),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "FLOE_PROJECT": str(artifacts.project_root),
        "FLOE_ENV": artifacts.environment or "",
    }
    with shared_spark(workspace):
        sys.stderr.write(f"Dagster UI: http://127.0.0.1:{port}  (Ctrl-C ends it)\n")
        command_line = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port)]
        command_line += ["-m", "floe_dagster.code_location", "--log-level", "warning"]
        process = subprocess.Popen(command_line, env=environment, cwd=artifacts.project_root)  # noqa: S603 - our own
        try:
            code = process.wait()
        except KeyboardInterrupt:
            process.terminate()
            process.wait()
            code = 0
    return Report(data={"exit_code": code}, text=["The Dagster UI has ended."], exit_code=1 if code > 0 else 0)
