"""``floe run``."""

import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, single_command
from floe_cli.output import Report, count, printable, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dagster import DagsterInstance

    from floe_dagster.dead_runs import ClearedRun
    from floe_dagster.pipeline import PartitionChoice, Pipeline
    from floe_dagster.progress import AssetProgress
    from floe_dagster.runs import RunOutcome

app = single_command()

FAILED = 1
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
        int, typer.Option(min=1, help="Steps at a time, each in a process of its own; 1: all in this one.")
    ] = 1,
) -> Report:
    """Materialise assets on Spark, check them, and publish what passes."""
    from floe_cli.run_view import RunView
    from floe_dagster.home import open_instance
    from floe_dagster.pipeline import Pipeline
    from floe_dagster.runs import run_assets

    choice = chosen_partitions(partition, partition_range)
    workspace.announce()
    require_tenant(workspace, tenant)
    with ExitStack() as open_things:
        with working("Loading the assets"):
            pipeline = Pipeline.of(workspace.artifacts, tenant=tenant)
            keys = pipeline.select(select)
            instance = open_things.enter_context(open_instance(workspace.artifacts))
            partitions = pipeline.partitions(keys, choice, instance)
        cleared = clear_after_dead_runs(workspace, pipeline, instance)
        if processes > 1:
            from floe_cli.commands.spark import shared_spark

            open_things.enter_context(shared_spark(workspace))
        # A range that some asset cannot write at once is one run a partition.
        whole = len(partitions) <= 1 or pipeline.in_one_run(keys)
        outcomes: list[RunOutcome] = []
        for chunk in [partitions] if whole else [[key] for key in partitions]:
            with RunView().shown() as view:
                outcomes.append(run_assets(pipeline, instance, keys, chunk, processes=processes, listener=view.update))
            if not outcomes[-1].success:
                break
    report = _report(outcomes, partitions, choice, tenant)
    return replace(report, data=report.data | {"cleared": [asdict(dead) for dead in cleared]})


def clear_after_dead_runs(
    workspace: Workspace, pipeline: "Pipeline", instance: "DagsterInstance"
) -> "list[ClearedRun]":
    """Clear what killed runs of this host left, and say so; without any, the catalog is not asked."""
    from floe_dagster.dead_runs import clear_dead_runs, dead_runs, tables_of_run

    if not (found := dead_runs(instance)):
        return []
    with working("Clearing after a killed run"), workspace.tables() as tables:
        cleared = clear_dead_runs(instance, found, tables, tables_of_run(pipeline))
    for dead in cleared:
        sys.stderr.write(printable(str(dead)) + "\n")
    sys.stderr.flush()
    return cleared


def chosen_partitions(partition: str | None, partition_range: str | None) -> "PartitionChoice":
    """Read the two ways to name partitions.

    Raises:
        ConfigurationError: Both are given, or the range is none.
    """
    from floe_dagster.pipeline import PartitionChoice

    if partition is not None and partition_range is not None:
        msg = "Partitions are named by --partition or by --partition-range, not by both."
        raise ConfigurationError(msg)
    if partition_range is None:
        return PartitionChoice(partition, partition)
    first, dots, last = partition_range.partition("...")
    if not dots or not first or not last:
        msg = f"'{partition_range}' is no range of partitions."
        raise ConfigurationError(msg, hint="Write the first and the last: 2026-01-01...2026-01-31")
    return PartitionChoice(first, last)


def require_tenant(workspace: Workspace, tenant: str | None) -> None:
    """Refuse a tenant that cannot be, or that was never bootstrapped, before anything is begun.

    Raises:
        InvalidIdentifierError: The id cannot name a tenant.
        NamespaceNotFoundError: There is no such tenant.
    """
    if tenant is None:
        return
    from floe_tenancy import TenantTables, validate_tenant_id

    validate_tenant_id(tenant)
    with working("Looking for the tenant"), workspace.connection() as connection:
        TenantTables(connection).require(tenant)


def _report(
    outcomes: "Sequence[RunOutcome]", partitions: "Sequence[str]", choice: "PartitionChoice", tenant: str | None
) -> Report:
    from floe_cli.run_view import asset_table
    from floe_dagster.causes import exit_code_of

    last = outcomes[-1]
    errors = [asset.error for asset in last.assets] + ([last.failure.error] if last.failure else [])
    seconds = sum(outcome.seconds for outcome in outcomes)
    what = (f" for {choice}" if partitions else "") + (f" of tenant {tenant}" if tenant else "")
    troubles = _troubles(outcomes, partitions)
    wrote = sum(asset.state.wrote for asset in last.assets)
    silent = sum(asset.state.good and not asset.state.wrote for asset in last.assets)
    nothing = f", {silent:,} returned nothing" if silent else ""
    summary = f"{count(wrote, 'table')} written{nothing}{what} in {seconds:.1f} s."
    if not last.success:
        summary = f"The run{what} did not succeed: {wrote} of {count(len(last.assets), 'table')} written{nothing}."
    return Report(
        data={
            "success": last.success,
            "runs": [run_id for outcome in outcomes for run_id in outcome.run_ids],
            "tenant": tenant,
            "partitions": list(partitions),
            "seconds": round(seconds, 3),
            "assets": [_data(asset) for asset in last.assets],
            "failed_checks": [asdict(trouble) for trouble in troubles],
            "reason": last.failure.reason if last.failure else None,
            "error": last.failure.error if last.failure else None,
        },
        text=[
            asset_table(last.assets),
            "",
            summary,
            *(["", last.failure.reason] if last.failure else []),
            *_warnings(troubles),
            *_reasons(last.assets),
        ],
        exit_code=0 if last.success else max(map(exit_code_of, errors), default=FAILED),
    )


def _data(asset: "AssetProgress") -> dict[str, Any]:
    seconds = round(asset.ended - asset.started, 3) if asset.ended and asset.started else None
    content = asdict(asset)
    return {key: value for key, value in content.items() if key not in {"started", "ended"}} | {"seconds": seconds}


@dataclass(frozen=True)
class _Trouble:
    """A check that did not pass; the partition is named where each has a run of its own."""

    table: str
    partition: str | None
    check: str
    state: str
    held_back: bool
    sentence: str


def _troubles(outcomes: "Sequence[RunOutcome]", partitions: "Sequence[str]") -> list[_Trouble]:
    """Collect what did not pass, of all partitions: the last one's assets say nothing about the others."""
    keys = list(partitions) if len(outcomes) > 1 else [None]
    return [
        _Trouble(asset.table, key, check.name, check.state.value, not asset.state.good, check.sentence)
        for key, outcome in zip(keys, outcomes, strict=False)
        for asset in outcome.assets
        for check in asset.checks
        if not check.passed
    ]


def _warnings(troubles: "Sequence[_Trouble]") -> list[str]:
    """Name the checks that did not pass and held nothing back; the reasons tell of the others."""
    lines = [
        f"{one.table}{f' for {one.partition}' if one.partition else ''}: {one.sentence}"
        for one in troubles
        if not one.held_back
    ]
    return ["", *lines] if lines else []


def _reasons(assets: "Sequence[AssetProgress]") -> list[str]:
    lines = []
    for asset in assets:
        lines += [f"{asset.table}: discarded {branch}, an older held write." for branch in asset.retired]
        if asset.reason is None:
            continue
        lines += ["", f"{asset.table} {asset.state}: {asset.reason}"]
        if asset.state.value == "held back":
            lines += [
                f"  look at the rows:  floe tables scan {asset.table} --ref {asset.branch}",
                f"  let them through:  floe publish {asset.table} {asset.branch}",
                f"  throw them away:   floe discard {asset.table} {asset.branch}",
            ]
    return lines
