"""``floe test``."""

import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.commands.pipeline.run import SelectOption, TenantOption, reach_catalog
from floe_cli.output import Report, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floe_dagster.gate.published import CheckedTable

app = single_command()

RefOption = Annotated[
    str | None,
    typer.Option("--ref", metavar="BRANCH", help="Branch or tag to check; default: main.", show_default=False),
]
PartitionOption = Annotated[
    str | None,
    typer.Option(
        "--partition", metavar="KEY", help="Check only this partition; default: all rows.", show_default=False
    ),
]


@command(app, "test")
def check_tables(
    workspace: Workspace,
    select: SelectOption = "*",
    ref: RefOption = None,
    partition: PartitionOption = None,
    tenant: TenantOption = None,
    *,
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Append the results to the check results table.")
    ] = True,
) -> Report:
    """Run declared and custom checks on published tables.

    The checked tables are not changed. The exit code is 1 if a check with severity error fails or raises an exception,
    and 2 on a system error. Warnings do not affect it.

    Examples:
        floe test
        floe test --select silver.orders --partition 2026-01-31
        floe test --select 'gold.*' --ref v1 --no-keep  # as of the tag v1
    """
    from floe_cli.reports.check_report import Tested, report

    workspace.announce()
    reach_catalog(workspace, tenant)
    with working("Checking"):
        tables = _checked(workspace, select, ref, partition, tenant)
    test_id = uuid.uuid4().hex
    kept, not_kept = _kept(workspace, tables, test_id, tenant) if keep else (None, None)
    return report(Tested(test_id, tables, ref, partition, tenant, kept, not_kept))


def _checked(
    workspace: Workspace, select: str, ref: str | None, partition: str | None, tenant: str | None
) -> "list[CheckedTable]":
    from contextlib import ExitStack

    from floe_dagster.gate.published import check_declared, check_published, require_ref
    from floe_dagster.runs.home import open_instance
    from floe_dagster.runs.pipeline import Pipeline

    artifacts = workspace.artifacts
    models = artifacts.project_root / artifacts.orchestration.models
    if artifacts.orchestration.module is None and not models.is_dir() and tenant is None:
        if partition is not None:
            msg = "The project has no assets and therefore no partitions."
            raise ConfigurationError(msg, hint="Remove --partition.")
        with workspace.tables() as manager:
            tables = list(check_declared(artifacts, manager, select, ref=ref))
    else:
        pipeline = Pipeline.of(artifacts, tenant=tenant)
        if artifacts.orchestration.per_tenant and tenant is None:
            msg = "The tables of this project belong to tenants, but no tenant is given."
            raise ConfigurationError(msg, hint="Pass --tenant ID. List the tenants with: floe tenants list")
        with ExitStack() as opened:
            # Only the Dagster instance knows dynamic partitions.
            instance = opened.enter_context(open_instance(artifacts)) if partition is not None else None
            tables = check_published(pipeline, select, ref=ref, partition=partition, instance=instance)
    require_ref(tables, ref)
    return tables


def _kept(
    workspace: Workspace, tables: "Sequence[CheckedTable]", test_id: str, tenant: str | None
) -> tuple[str | None, str | None]:
    """Store the results; return their table, or why they were not stored."""
    from floe_dagster.io.tables_source import TablesSource
    from floe_dagster.tenants import for_tenants

    artifacts = for_tenants(workspace.artifacts) if tenant is not None else workspace.artifacts
    source = TablesSource.of_artifacts(artifacts)
    records = [record for table in tables for record in table.records()]
    results = source.check_results
    if results is None or not records:
        return None, None
    try:
        results.keep(records, kind="test", run_id=test_id, operation_id=f"test:{test_id}", tenant=tenant)
        return results.table(tenant), None
    except Exception as err:  # noqa: BLE001 - the results are still printed
        return None, str(err)
    finally:
        source.close()
