"""Clean up after interrupted runs: remove what is certainly abandoned and report the rest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from floe_cli.doctor.machine import Check, ok, skipped, warning
from floe_cli.output import ago, count
from floe_core.errors import CatalogAuthorizationError, FloeStorageError, NamespaceNotFoundError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.staging.leftover_branches import LeftoverBranch

# No write takes this long, so the process that created an older branch is gone.
OLD_BRANCH = timedelta(days=1)
_SHOWN = 10


def check_runs(artifacts: CompiledArtifacts, tenant: str | None = None) -> Check:
    """Clean up after killed runs of this host, and report old branches whose process this host cannot check.

    Args:
        artifacts: The project.
        tenant: Tenant whose tables are checked; None for all tables.
    """
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.staging.leftover_branches import list_leftovers
    from floe_iceberg.write.abandoned import clear_operations
    from floe_tenancy import tenant_namespace

    with IcebergTableManager.from_artifacts(artifacts) as manager:
        if not manager.context.branches:
            return skipped("runs", "this catalog does not support branches")
        place = tenant_namespace(artifacts, tenant) if tenant else None
        try:
            tables = _tables(manager, place)
        except CatalogAuthorizationError:
            return skipped("runs", "these credentials are not allowed to list all tables; for a tenant, pass --tenant")
        done = _clear_runs(artifacts, manager, list(tables))
        for name, table in tables.items():
            if branches := clear_operations(manager.context, table):
                done.append(f"Removed {count(len(branches), 'branch', 'branches')} of {name} left by a killed process.")
        # Reload the tables, because branches were removed above.
        old = [left for table in _tables(manager, place).values() for left in list_leftovers(table) if _is_old(left)]
    if old:
        lines = [f"{left.branch} of {left.table}, created {ago(left.since)}" for left in old[:_SHOWN]]
        more = [f"… and {len(old) - _SHOWN} more"] if len(old) > _SHOWN else []
        commands = [f"floe discard {left.table} {left.branch}" for left in old[:_SHOWN]]
        return warning(
            "runs",
            "\n".join([*done, "Old branches that were not created by a process on this host:", *lines, *more]),
            "If nothing writes to them anymore, run: " + "; ".join(commands),
        )
    return ok("runs", "\n".join(done) or "no leftovers of killed runs")


def _tables(manager: IcebergTableManager, top: str | None) -> dict[str, Table]:
    found = {}
    for place in [*([top] if top else []), *manager.namespaces.tree(top)]:
        try:
            names = manager.list_tables(place)
        except NamespaceNotFoundError:
            # Deleted since it was listed.
            continue
        for name in names:
            try:
                found[f"{place}.{name}"] = manager.load_table(f"{place}.{name}")
            except FloeStorageError:
                # floe tables list reports tables that cannot be read.
                continue
    return found


def _clear_runs(artifacts: CompiledArtifacts, manager: IcebergTableManager, tables: list[str]) -> list[str]:
    if artifacts.orchestration.type != "dagster" or artifacts.orchestration.module is None:
        return []
    from floe_dagster.runs.dead_runs import clear_dead_runs, dead_runs
    from floe_dagster.runs.home import open_instance

    with open_instance(artifacts) as instance:
        cleared = clear_dead_runs(instance, dead_runs(instance), manager, lambda _run: tables)
    return [str(run) for run in cleared]


def _is_old(left: LeftoverBranch) -> bool:
    # A live process on this host is still writing, however long it takes.
    return left.here is not True and datetime.now(UTC) - left.since > OLD_BRANCH
