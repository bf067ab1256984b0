"""What ``floe doctor`` finds of runs that did not come to their end: it clears what is certain and names the rest."""

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
    from floe_iceberg.staging.left_branches import LeftBranch

# No write takes this long; whoever opened a branch before then is not coming back.
OLD_BRANCH = timedelta(days=1)
_SHOWN = 10


def check_runs(artifacts: CompiledArtifacts, tenant: str | None = None) -> Check:
    """Clear what killed runs of this host left, and name the old branches that nobody here can judge.

    Args:
        artifacts: The project.
        tenant: Whose tables are looked at; None for all.
    """
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.staging.left_branches import list_left
    from floe_iceberg.write.abandoned import clear_operations
    from floe_tenancy import tenant_namespace

    with IcebergTableManager.from_artifacts(artifacts) as manager:
        if not manager.context.branches:
            return skipped("runs", "this catalog does not support branches")
        place = tenant_namespace(artifacts, tenant) if tenant else None
        try:
            tables = _tables(manager, place)
        except CatalogAuthorizationError:
            return skipped("runs", "these credentials may not list all tables; a tenant names itself with --tenant")
        done = _clear_runs(artifacts, manager, list(tables))
        for name, table in tables.items():
            if branches := clear_operations(manager.context, table):
                done.append(f"Removed {count(len(branches), 'branch', 'branches')} of {name} left by a killed process.")
        # Loaded again: the branches above are gone.
        old = [left for table in _tables(manager, place).values() for left in list_left(table) if _is_old(left)]
    if old:
        lines = [f"{left.branch} of {left.table}, opened {ago(left.since)}" for left in old[:_SHOWN]]
        more = [f"… and {len(old) - _SHOWN} more"] if len(old) > _SHOWN else []
        commands = [f"floe discard {left.table} {left.branch}" for left in old[:_SHOWN]]
        return warning(
            "runs",
            "\n".join([*done, "Branches that no process of this host can be asked about:", *lines, *more]),
            "If nothing writes to them any more: " + "; ".join(commands),
        )
    return ok("runs", "\n".join(done) or "nothing left by killed runs")


def _tables(manager: IcebergTableManager, top: str | None) -> dict[str, Table]:
    found = {}
    for place in [*([top] if top else []), *manager.namespaces.tree(top)]:
        try:
            names = manager.list_tables(place)
        except NamespaceNotFoundError:
            # It was deleted meanwhile.
            continue
        for name in names:
            try:
                found[f"{place}.{name}"] = manager.load_table(f"{place}.{name}")
            except FloeStorageError:
                # A table that cannot be read is shown by: floe tables list
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


def _is_old(left: LeftBranch) -> bool:
    # A process of this host that lives is at work, however long it takes.
    return left.here is not True and datetime.now(UTC) - left.since > OLD_BRANCH
