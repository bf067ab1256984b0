"""``floe run``."""

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.output import Report, printable, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from floe_dagster.runs.dead_runs import ClearedRun
    from floe_dagster.runs.pipeline import Due, PartitionChoice, Pipeline

app = single_command()

SelectOption = Annotated[
    str, typer.Option("--select", "-s", metavar="TABLES", help="Which: gold.daily, bronze.orders+, +gold.daily, gold.*")
]
PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="KEY", help="Partition to write.", show_default=False)
]
RangeOption = Annotated[
    str | None,
    typer.Option("--partition-range", metavar="A...B", help="First and last partition to write.", show_default=False),
]
MissingOption = Annotated[
    bool, typer.Option("--missing", help="Write what no run has written yet, and what depends on it.")
]
FailedOption = Annotated[
    bool, typer.Option("--failed", help="Write what failed or was held back when it was last tried.")
]
AllOption = Annotated[bool, typer.Option("--all-partitions", help="Write every partition there is.")]
TenantOption = Annotated[
    str | None,
    typer.Option("--tenant", metavar="ID", help="Run for this tenant, in its own namespace.", show_default=False),
]


@command(app)
def run(
    workspace: Workspace,
    select: SelectOption = "*",
    partition: PartitionOption = None,
    partition_range: RangeOption = None,
    tenant: TenantOption = None,
    processes: Annotated[
        int, typer.Option(min=1, help="Partitions at a time where they do not meet, else steps; 1: one by one.")
    ] = 1,
    *,
    missing: MissingOption = False,
    failed: FailedOption = False,
    all_partitions: AllOption = False,
    full_refresh: Annotated[
        bool,
        typer.Option("--full-refresh", help="Replace all rows, of all partitions, also where assets append or upsert."),
    ] = False,
) -> Report:
    """Materialise assets on Spark, check them, and publish what passes.

    Examples:
        floe run                                                 # all assets
        floe run --select silver.orders+ --partition 2026-01-31  # one day, and what depends on it
        floe run --partition-range 2026-01-01...2026-01-31
        floe run --missing                                       # what no run has written yet
        floe run --select gold.daily --full-refresh
        floe run --tenant acme --processes 2
    """
    from floe_dagster.runs.pipeline import Due, PartitionChoice

    due = chosen_due(missing=missing, failed=failed, every=all_partitions)
    choice = chosen_partitions(partition, partition_range, due)
    if full_refresh and choice == PartitionChoice():
        choice = PartitionChoice(due=Due.ALL)
    workspace.announce()
    with workspace.traced("floe.run") as operation:
        done = _run(workspace, select, choice, tenant=tenant, processes=processes, full_refresh=full_refresh)
        if done.exit_code:
            operation.fail("The run failed")
    return done


def _run(
    workspace: Workspace,
    select: str,
    choice: "PartitionChoice",
    *,
    tenant: str | None,
    processes: int,
    full_refresh: bool,
) -> Report:
    from floe_cli.reports.run_report import Ran, nothing_due, report
    from floe_cli.reports.run_view import RunView
    from floe_dagster.runs.batch_runs import run_batches
    from floe_dagster.runs.batches import batches_of
    from floe_dagster.runs.home import open_instance
    from floe_dagster.runs.pipeline import Pipeline

    require_tenant(workspace, tenant)
    with ExitStack() as open_things:
        with working("Loading the assets"):
            pipeline = Pipeline.of(workspace.artifacts, tenant=tenant)
            keys = pipeline.select(select)
            instance = open_things.enter_context(open_instance(workspace.artifacts))
        cleared = clear_after_dead_runs(workspace, pipeline, instance)
        batches = batches_of(pipeline, keys, choice, instance)
        if not batches:
            return nothing_due(choice, tenant, cleared)
        if tenant is None:
            reach_catalog(workspace)
        if processes > 1:
            from floe_cli.commands.spark import shared_spark

            open_things.enter_context(shared_spark(workspace))
        started = time.monotonic()
        with RunView(batches).shown() as view:
            tried = run_batches(
                pipeline,
                instance,
                batches,
                processes=processes,
                full_refresh=full_refresh,
                listener=view.update,
            )
    ran = Ran(tuple(tried), tuple(batches), choice, tenant, time.monotonic() - started)
    return report(pipeline, ran, cleared)


def clear_after_dead_runs(
    workspace: Workspace, pipeline: "Pipeline", instance: "DagsterInstance"
) -> "list[ClearedRun]":
    """Clear what killed runs of this host left, and say so; without any, the catalog is not asked."""
    from floe_dagster.runs.dead_runs import clear_dead_runs, dead_runs, tables_of_run

    if not (found := dead_runs(instance)):
        return []
    with working("Clearing after a killed run"), workspace.tables() as tables:
        cleared = clear_dead_runs(instance, found, tables, tables_of_run(pipeline))
    for dead in cleared:
        sys.stderr.write(printable(str(dead)) + "\n")
    sys.stderr.flush()
    return cleared


def chosen_due(*, missing: bool, failed: bool, every: bool) -> "Due | None":
    """Read the ways to ask for partitions without naming them.

    Raises:
        ConfigurationError: More than one is given.
    """
    from floe_dagster.runs.pipeline import Due

    asked = [due for due, given in ((Due.MISSING, missing), (Due.FAILED, failed), (Due.ALL, every)) if given]
    if len(asked) > 1:
        msg = "Of --missing, --failed and --all-partitions only one can be asked for."
        raise ConfigurationError(msg)
    return asked[0] if asked else None


def chosen_partitions(
    partition: str | None, partition_range: str | None, due: "Due | None" = None
) -> "PartitionChoice":
    """Read the two ways to name partitions.

    Raises:
        ConfigurationError: Both are given, the range is none, or all partitions are asked for as well.
    """
    from floe_dagster.runs.pipeline import Due, PartitionChoice

    if partition is not None and partition_range is not None:
        msg = "Partitions are named by --partition or by --partition-range, not by both."
        raise ConfigurationError(msg)
    if due is Due.ALL and (partition or partition_range):
        msg = "Partitions are named, and --all-partitions asks for all of them."
        raise ConfigurationError(msg, hint="Leave one of the two out.")
    if partition_range is None:
        return PartitionChoice(partition, partition, due)
    first, dots, last = partition_range.partition("...")
    if not dots or not first or not last:
        msg = f"'{partition_range}' is no range of partitions."
        raise ConfigurationError(msg, hint="Write the first and the last: 2026-01-01...2026-01-31")
    return PartitionChoice(first, last, due)


def require_tenant(workspace: Workspace, tenant: str | None) -> None:
    """Refuse a tenant that cannot be, or that was never bootstrapped, before anything is begun.

    Raises:
        InvalidIdentifierError: The id cannot name a tenant.
        NamespaceNotFoundError: There is no such tenant.
    """
    if tenant is not None:
        reach_catalog(workspace, tenant)


def reach_catalog(workspace: Workspace, tenant: str | None = None) -> None:
    """Connect before anything is begun, and look for the tenant: what is wrong there is wrong for every table.

    Raises:
        InvalidIdentifierError: The id cannot name a tenant.
        NamespaceNotFoundError: There is no such tenant.
        CatalogAuthenticationError: The catalog does not accept the credentials.
        WarehouseNotFoundError: The catalog does not know the warehouse.
        CatalogConnectionError: The catalog cannot be reached.
    """
    from floe_tenancy import TenantTables, validate_tenant_id

    if tenant is not None:
        validate_tenant_id(tenant)
    with working("Connecting to the catalog"), workspace.connection() as connection:
        if tenant is not None:
            TenantTables(connection).require(tenant)
