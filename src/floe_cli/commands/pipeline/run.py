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
    str,
    typer.Option(
        "--select",
        "-s",
        metavar="TABLES",
        help="Assets, such as gold.daily, gold.*, bronze.orders+ (and downstream) or +gold.daily (and upstream).",
    ),
]
PartitionOption = Annotated[
    str | None, typer.Option("--partition", metavar="KEY", help="Partition to write.", show_default=False)
]
RangeOption = Annotated[
    str | None,
    typer.Option("--partition-range", metavar="A...B", help="First and last partition to write.", show_default=False),
]
MissingOption = Annotated[
    bool, typer.Option("--missing", help="Write partitions that no run has written yet, and what depends on them.")
]
FailedOption = Annotated[
    bool, typer.Option("--failed", help="Write partitions that failed or were held back in their last run.")
]
AllOption = Annotated[bool, typer.Option("--all-partitions", help="Write all partitions.")]
TenantOption = Annotated[
    str | None,
    typer.Option(
        "--tenant", metavar="ID", help="Use the tables of this tenant, in its own namespace.", show_default=False
    ),
]


@command(app)
def run(
    workspace: Workspace,
    select: SelectOption = "*",
    partition: PartitionOption = None,
    partition_range: RangeOption = None,
    tenant: TenantOption = None,
    processes: Annotated[int, typer.Option(min=1, help="Number of partitions or steps to run in parallel.")] = 1,
    *,
    missing: MissingOption = False,
    failed: FailedOption = False,
    all_partitions: AllOption = False,
    full_refresh: Annotated[
        bool,
        typer.Option("--full-refresh", help="Replace all rows of all partitions, even if assets append or upsert."),
    ] = False,
) -> Report:
    """Materialize assets on Spark, check them, and publish those that pass.

    Examples:
        floe run                                                 # all assets
        floe run --select silver.orders+ --partition 2026-01-31  # one day and its downstream
        floe run --partition-range 2026-01-01...2026-01-31
        floe run --missing                                       # partitions not written yet
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
    from floe_cli.reports.run_report import FinishedRun, nothing_due, report
    from floe_cli.reports.run_view import RunView
    from floe_dagster.runs.batch_runs import run_batches
    from floe_dagster.runs.batches import batches_of
    from floe_dagster.runs.home import open_instance
    from floe_dagster.runs.pipeline import Pipeline

    require_tenant(workspace, tenant)
    with ExitStack() as stack:
        with working("Loading the assets"):
            pipeline = Pipeline.of(workspace.artifacts, tenant=tenant)
            keys = pipeline.select(select)
            instance = stack.enter_context(open_instance(workspace.artifacts))
        cleared = clear_after_dead_runs(workspace, pipeline, instance)
        batches = batches_of(pipeline, keys, choice, instance)
        if not batches:
            return nothing_due(choice, tenant, cleared)
        if tenant is None:
            reach_catalog(workspace)
        if processes > 1:
            from floe_cli.commands.spark import shared_spark

            stack.enter_context(shared_spark(workspace))
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
    finished = FinishedRun(tuple(tried), tuple(batches), choice, tenant, time.monotonic() - started)
    return report(pipeline, finished, cleared)


def clear_after_dead_runs(
    workspace: Workspace, pipeline: "Pipeline", instance: "DagsterInstance"
) -> "list[ClearedRun]":
    """Clean up after killed runs of this host and report it; without killed runs, do not access the catalog."""
    from floe_dagster.runs.dead_runs import clear_dead_runs, dead_runs, tables_of_run

    if not (found := dead_runs(instance)):
        return []
    with working("Cleaning up after a killed run"), workspace.tables() as tables:
        cleared = clear_dead_runs(instance, found, tables, tables_of_run(pipeline))
    for dead in cleared:
        sys.stderr.write(printable(str(dead)) + "\n")
    sys.stderr.flush()
    return cleared


def chosen_due(*, missing: bool, failed: bool, every: bool) -> "Due | None":
    """Return the partitions selected by state.

    Raises:
        ConfigurationError: More than one option is given.
    """
    from floe_dagster.runs.pipeline import Due

    chosen = [due for due, given in ((Due.MISSING, missing), (Due.FAILED, failed), (Due.ALL, every)) if given]
    if len(chosen) > 1:
        msg = "--missing, --failed and --all-partitions cannot be combined."
        raise ConfigurationError(msg, hint="Pass only one of them.")
    return chosen[0] if chosen else None


def chosen_partitions(
    partition: str | None, partition_range: str | None, due: "Due | None" = None
) -> "PartitionChoice":
    """Return the partitions selected by key or range.

    Raises:
        ConfigurationError: Both are given, the range is invalid, or --all-partitions is given as well.
    """
    from floe_dagster.runs.pipeline import Due, PartitionChoice

    if partition is not None and partition_range is not None:
        msg = "--partition and --partition-range cannot be combined."
        raise ConfigurationError(msg, hint="Pass only one of them.")
    if due is Due.ALL and (partition or partition_range):
        msg = "--all-partitions cannot be combined with --partition or --partition-range."
        raise ConfigurationError(msg, hint="Remove one of them.")
    if partition_range is None:
        return PartitionChoice(partition, partition, due)
    first, dots, last = partition_range.partition("...")
    if not dots or not first or not last:
        msg = f"'{partition_range}' is not a valid partition range."
        raise ConfigurationError(msg, hint="Use FIRST...LAST, such as 2026-01-01...2026-01-31")
    return PartitionChoice(first, last, due)


def require_tenant(workspace: Workspace, tenant: str | None) -> None:
    """Check that a tenant exists before doing any work.

    Raises:
        InvalidIdentifierError: The id is not a valid tenant id.
        NamespaceNotFoundError: There is no such tenant.
    """
    if tenant is not None:
        reach_catalog(workspace, tenant)


def reach_catalog(workspace: Workspace, tenant: str | None = None) -> None:
    """Connect to the catalog and find the tenant before doing any work, to report problems only once.

    Raises:
        InvalidIdentifierError: The id is not a valid tenant id.
        NamespaceNotFoundError: There is no such tenant.
        CatalogAuthenticationError: The catalog rejects the credentials.
        WarehouseNotFoundError: The warehouse does not exist.
        CatalogConnectionError: The catalog cannot be reached.
    """
    from floe_tenancy import TenantTables, validate_tenant_id

    if tenant is not None:
        validate_tenant_id(tenant)
    with working("Connecting to the catalog"), workspace.connection() as connection:
        if tenant is not None:
            TenantTables(connection).require(tenant)
