"""Maintenance as Dagster jobs: one job per declared table, to launch manually or on a schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import Field, In, JobDefinition, Nothing, Out, graph, op

from floe_core.declaration.declared import declared_retention
from floe_core.errors import TableNotFoundError
from floe_dagster.tenants import TENANTS
from floe_tenancy import tenant_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import OpDefinition, OpExecutionContext

    from floe_core.governance import RetentionDays
    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg.manager import IcebergTableManager

    _Work = Callable[[IcebergTableManager, str, dict[str, Any]], dict[str, Any]]

_TABLES = "tables"
_EXPIRY = {
    "older_than_days": Field(
        float, is_required=False, description="Expire snapshots older than this; defaults to the table's retention."
    ),
    "allow_below_retention": Field(
        bool, default_value=False, description="Allow an age shorter than the declared retention."
    ),
}


def maintenance_jobs(artifacts: CompiledArtifacts) -> list[JobDefinition]:
    """Create a job for each declared table: compact files, expire snapshots and find orphan files.

    The table's effective retention decides which snapshots expire. ``older_than_days`` overrides it and may be shorter
    only with ``allow_below_retention: true``. Orphan files are only reported unless the job is started with
    ``delete_orphans: true``. In a project with one pipeline per tenant, the job has a partition for each tenant.
    """
    return [_job(artifacts, table) for table in artifacts.tables]


def _job(artifacts: CompiledArtifacts, table: str) -> JobDefinition:
    name = table.replace(".", "_").replace("-", "_")
    days = declared_retention(artifacts, table)
    orphan_days = artifacts.tables[table].retention.orphan_days
    per_tenant = artifacts.orchestration.per_tenant

    def full_name(context: OpExecutionContext) -> str:
        return f"{tenant_namespace(artifacts, context.partition_key)}.{table}" if per_tenant else table

    compact = _step(f"compact_{name}", full_name, lambda tables, found, _config: _compact(tables, found))
    expire = _step(
        f"expire_{name}",
        full_name,
        lambda tables, found, config: _expire(tables, found, days, config),
        waits=True,
        config=_EXPIRY,
    )
    sweep = _step(
        f"sweep_{name}",
        full_name,
        lambda tables, found, config: _sweep(tables, found, orphan_days, delete=config["delete_orphans"]),
        waits=True,
        config={"delete_orphans": Field(bool, default_value=False, description="Delete the orphan files found.")},
    )

    @graph(name=f"maintain_{name}", description=f"Compact {table}, expire its snapshots and find orphan files.")
    def maintain() -> None:
        sweep(expire(compact()))

    return maintain.to_job(partitions_def=TENANTS if per_tenant else None)


def _step(
    name: str,
    full_name: Callable[[OpExecutionContext], str],
    work: _Work,
    *,
    waits: bool = False,
    config: dict[str, Any] | None = None,
) -> OpDefinition:
    def compute(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Dagster rejects string annotations
        _run(context, full_name(context), work)

    return op(
        name=name,
        ins={"start": In(Nothing)} if waits else None,
        out=Out(Nothing),
        config_schema=config or {},
        required_resource_keys={_TABLES},
    )(compute)


def _run(context: OpExecutionContext, table: str, work: _Work) -> None:
    try:
        figures = work(getattr(context.resources, _TABLES), table, context.op_config or {})
    except TableNotFoundError:
        context.log.info("Table %s does not exist yet: nothing to do.", table)
        return
    context.log.info("%s: %s", table, ", ".join(f"{key} {value}" for key, value in figures.items()))


def _compact(tables: IcebergTableManager, table: str) -> dict[str, Any]:
    result = tables.compact_table(table)
    return {"files_before": result.files_before, "files_after": result.files_after}


def _expire(
    tables: IcebergTableManager, table: str, days: RetentionDays | None, config: dict[str, Any]
) -> dict[str, Any]:
    expired = tables.expire_snapshots(
        table,
        older_than_days=config.get("older_than_days"),
        retention=days,
        allow_below_retention=config["allow_below_retention"],
    )
    figures = {"snapshots_expired": int(expired), "files_deleted": expired.deleted_data_files}
    return figures | _kept(expired.foreign_files)


def _sweep(tables: IcebergTableManager, table: str, days: int, *, delete: bool) -> dict[str, Any]:
    swept = tables.sweep_orphans(table, older_than_hours=days * 24, dry_run=not delete)
    figures = {"orphan_files": len(swept.files), "bytes": swept.total_bytes, "deleted": delete}
    return figures | _kept(swept.foreign_files)


def _kept(files: tuple[str, ...]) -> dict[str, Any]:
    """Report how many files were kept because they belong to another table, and the path of the first."""
    return {"kept_foreign_files": len(files), "first": files[0]} if files else {}
