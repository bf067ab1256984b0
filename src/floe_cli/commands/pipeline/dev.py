"""``floe dev``."""

import sys
from typing import Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.run import TenantOption, clear_after_dead_runs, reach_catalog
from floe_cli.commands.spark import shared_spark
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace

app = single_command()


@command(app)
def dev(
    workspace: Workspace,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Local port of the Dagster UI; 0: any free port.")] = 3000,
    tenant: TenantOption = None,
) -> Report:
    """Run the Dagster UI for this project until you press Ctrl-C.

    Examples:
        floe dev
        floe dev --port 0  # any free port
        floe dev --tenant acme  # with that tenant's own credentials
    """
    from floe_dagster.runs.home import open_instance
    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.tenants import TENANTS
    from floe_dagster.ui.server import DagsterUi, chosen_port, interrupted_by_signals

    port = chosen_port(port)
    workspace.observe()
    workspace.announce()
    # Report errors before starting a server.
    reach_catalog(workspace, tenant)
    with working("Loading the assets"):
        pipeline = Pipeline.of(workspace.artifacts, tenant=tenant)
    with open_instance(workspace.artifacts) as instance:
        clear_after_dead_runs(workspace, pipeline, instance)
        if tenant is not None:
            # The sensor that maintains the list of tenants needs credentials for all tenants.
            instance.add_dynamic_partitions(str(TENANTS.name), [tenant])
    with interrupted_by_signals(), shared_spark(workspace), DagsterUi(pipeline.artifacts, port) as ui:
        try:
            with working("Starting the Dagster UI"):
                code = ui.await_ready()
            if code is None:
                sys.stderr.write(f"Dagster UI: {ui.url}  (press Ctrl-C to stop)\n")
                sys.stderr.flush()
                code = ui.await_end()
        except KeyboardInterrupt:
            code = 0
    return Report(data={"exit_code": code}, text=["The Dagster UI has stopped."], exit_code=1 if code else 0)
