"""``floe plan``."""

from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.run import (
    AllOption,
    FailedOption,
    MissingOption,
    PartitionOption,
    RangeOption,
    SelectOption,
    TenantOption,
    chosen_due,
    chosen_partitions,
    require_tenant,
)
from floe_cli.output import Report, count, grid, working
from floe_cli.workspace import Workspace
from floe_core.errors import FloeStorageError

if TYPE_CHECKING:
    from floe_core.declaration.drift import DriftReport
    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.runs.plans import PlannedAsset
    from floe_iceberg import IcebergTableManager

app = single_command()


@command(app)
def plan(
    workspace: Workspace,
    select: SelectOption = "*",
    partition: PartitionOption = None,
    partition_range: RangeOption = None,
    tenant: TenantOption = None,
    *,
    missing: MissingOption = False,
    failed: FailedOption = False,
    all_partitions: AllOption = False,
) -> Report:
    """Show what a run would read and write, and where tables differ from floe.yaml.

    Nothing is run or changed. To resolve the differences, use floe apply.

    Examples:
        floe plan
        floe plan --select silver.orders+ --partition 2026-01-31
        floe plan --missing
    """
    from floe_dagster.runs.batches import batches_of
    from floe_dagster.runs.home import open_instance
    from floe_dagster.runs.pipeline import Pipeline
    from floe_dagster.runs.plans import plan_assets

    due = chosen_due(missing=missing, failed=failed, every=all_partitions)
    choice = chosen_partitions(partition, partition_range, due)
    require_tenant(workspace, tenant)
    with working("Planning"), workspace.tables() as tables:
        pipeline = Pipeline.of(workspace.artifacts, tenant=tenant)
        keys = pipeline.select(select)
        with open_instance(workspace.artifacts) as instance:
            batches = batches_of(pipeline, keys, choice, instance)
        planned = plan_assets(pipeline, tables, batches)
        others = _other_tables(workspace, pipeline, tables) if select == "*" and tenant is None else []
    artifacts = workspace.artifacts
    where = f"in catalog '{artifacts.catalog.name}' ({artifacts.catalog.type}), by Spark on {artifacts.compute.master}"
    rows = [
        (
            asset.table,
            _current_rows(asset),
            _write(asset),
            _publication(asset),
            ", ".join(asset.reads) or "external data",
        )
        for asset in planned
    ]
    partitions = list(dict.fromkeys(key for batch in batches for key in batch.partitions))
    scope = (f" for {choice}" if partitions else "") + (f" of tenant {tenant}" if tenant else "")
    return Report(
        data={
            "tenant": tenant,
            "partitions": partitions,
            "assets": [asdict(asset) | {"effect": asset.effect} for asset in planned],
            "other_tables": others,
        },
        text=[
            grid(["TABLE", "NOW", "WRITE", "PUBLISH", "READS"], rows, right=["NOW"]),
            "",
            f"{count(len(planned), 'table')} would be written{scope} in this order, {where}.",
            *[f"{asset.table}: {item.difference}" for asset in planned for item in asset.differences],
            *[f"{report.table}: {item.difference}" for report in others for item in report.items],
        ],
    )


def _current_rows(asset: "PlannedAsset") -> str:
    from floe_iceberg.read.row_counts import RowCount

    return f"{RowCount(asset.rows, exact=asset.rows_exact)} rows" if asset.exists else "new"


def _write(asset: "PlannedAsset") -> str:
    by = f" by {', '.join(asset.keys)}" if asset.keys else ""
    return f"{asset.effect}{by}"


def _other_tables(workspace: Workspace, pipeline: "Pipeline", tables: "IcebergTableManager") -> "list[DriftReport]":
    """Compare the declared tables that no asset writes."""
    written = {pipeline.table(key) for key in pipeline.keys}
    reports = []
    for name, declared in workspace.artifacts.tables.items():
        if name not in written:
            # A run does not write these tables, so an unreadable one does not stop the plan.
            with suppress(FloeStorageError):
                reports.append(tables.detect_drift(name, declared))
    return [report for report in reports if report.drifted]


def _publication(asset: "PlannedAsset") -> str:
    if not asset.checks:
        return "directly"
    return f"after {count(len(asset.checks), 'check')} on a branch"
