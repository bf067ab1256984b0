"""Maintenance as Dagster jobs: one for each declared table, to be started or scheduled at will."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster import Field, In, JobDefinition, Nothing, Out, graph, op

from floe_core.errors import TableNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dagster import OpDefinition, OpExecutionContext

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg.manager import IcebergTableManager

_TABLES = "tables"


def maintenance_jobs(artifacts: CompiledArtifacts) -> list[JobDefinition]:
    """Make a job for each declared table: compact its files, expire its snapshots, look for orphan files.

    How long snapshots are kept is the table's effective retention. Orphan files are only reported, unless the job is
    started with ``delete_orphans: true``.
    """
    return [_job(artifacts, table) for table in artifacts.tables]


def _job(artifacts: CompiledArtifacts, table: str) -> JobDefinition:
    name = table.replace(".", "_").replace("-", "_")
    days = artifacts.retention[table].snapshot_days if table in artifacts.retention else None
    orphan_days = artifacts.tables[table].retention.orphan_days
    compact = _step(f"compact_{name}", table, lambda tables, _config: _compact(tables, table))
    expire = _step(f"expire_{name}", table, lambda tables, _config: _expire(tables, table, days), waits=True)
    sweep = _step(
        f"sweep_{name}",
        table,
        lambda tables, config: _sweep(tables, table, orphan_days, delete=config["delete_orphans"]),
        waits=True,
        config={"delete_orphans": Field(bool, default_value=False, description="Delete what is found.")},
    )

    @graph(name=f"maintain_{name}", description=f"Compact {table}, expire its snapshots and look for orphan files.")
    def maintain() -> None:
        sweep(expire(compact()))

    return maintain.to_job()


def _step(
    name: str,
    table: str,
    work: Callable[[IcebergTableManager, dict[str, Any]], dict[str, Any]],
    *,
    waits: bool = False,
    config: dict[str, Any] | None = None,
) -> OpDefinition:
    def compute(context):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - Dagster refuses annotations that are text
        _run(context, table, work)

    return op(
        name=name,
        ins={"start": In(Nothing)} if waits else None,
        out=Out(Nothing),
        config_schema=config or {},
        required_resource_keys={_TABLES},
    )(compute)


def _run(
    context: OpExecutionContext, table: str, work: Callable[[IcebergTableManager, dict[str, Any]], dict[str, Any]]
) -> None:
    try:
        figures = work(getattr(context.resources, _TABLES), context.op_config or {})
    except TableNotFoundError:
        context.log.info("%s does not exist yet: nothing to do.", table)
        return
    context.log.info("%s: %s", table, ", ".join(f"{key} {value}" for key, value in figures.items()))


def _compact(tables: IcebergTableManager, table: str) -> dict[str, Any]:
    result = tables.compact_table(table)
    return {"files_before": result.files_before, "files_after": result.files_after}


def _expire(tables: IcebergTableManager, table: str, days: int | None) -> dict[str, Any]:
    expired = tables.expire_snapshots(table, older_than_days=days)
    return {"snapshots_expired": int(expired), "files_deleted": expired.deleted_data_files}


def _sweep(tables: IcebergTableManager, table: str, days: int, *, delete: bool) -> dict[str, Any]:
    swept = tables.sweep_orphans(table, older_than_hours=days * 24, dry_run=not delete)
    return {"orphan_files": len(swept.files), "bytes": swept.total_bytes, "deleted": delete}
