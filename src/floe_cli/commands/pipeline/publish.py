"""``floe publish``: publish rows that were held back by their checks."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.commands.tables.options import DryRunOption, YesOption
from floe_cli.output import Report, ago, count, grid, working
from floe_cli.workspace import Workspace
from floe_core.errors import CapabilityError, ConfigurationError, FloeStorageError, RefNotFoundError, WriteError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from floe_iceberg import IcebergTableManager
    from floe_iceberg.models import SnapshotInfo
    from floe_iceberg.staging.main_changes import MainChange
    from floe_iceberg.staging.staged import StagedWrite

app = single_command()

StagedTable = Annotated[
    str | None,
    typer.Argument(metavar="TABLE", help="Table, such as silver.orders; omit it to list all staged writes."),
]
StagedBranch = Annotated[
    str | None,
    typer.Argument(metavar="BRANCH", help="Branch with the staged rows; required if the table has several."),
]
StagedTenant = Annotated[
    str | None,
    typer.Option("--tenant", metavar="ID", help="List the staged writes of this tenant.", show_default=False),
]


@command(app)
def publish(
    workspace: Workspace,
    table: StagedTable = None,
    branch: StagedBranch = None,
    tenant: StagedTenant = None,
    *,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> Report:
    """Publish rows that were held back by their checks.

    If main has moved since the rows were written, the write is redone on top of main and its checks run again.
    Publishing is refused if rows that the write replaces have changed, or if a later run of the same work was
    published.

    Examples:
        floe publish  # list all staged writes
        floe publish --tenant acme  # list the staged writes of a tenant
        floe publish silver.orders --dry-run
        floe publish silver.orders audit.silver_orders.2026-01-31.1a2b3c4d --yes
    """
    from floe_iceberg.staging.main_changes import require_current
    from floe_iceberg.staging.staged import discard_superseded

    with workspace.tables() as manager:
        if table is None:
            return staged_report(workspace, manager, tenant)
        staged = staged_write(manager, table, branch)
        with working("Comparing with main"):
            moved = require_current(manager, manager.load_table(table), staged)
        data = {"table": table, "branch": staged.branch, "moved": [one.model_dump(mode="json") for one in moved]}
        if dry_run:
            return Report(data=data | {"dry_run": True}, text=_preview(staged, moved))
        workspace.confirm(f"Publish the rows on {staged.branch} to {table}?", yes=yes)
        with working("Publishing"):
            snapshot = _publish(workspace, manager, staged, moved)
            retired = discard_superseded(manager, table, staged)
    return Report(
        data=data | {"snapshot_id": snapshot.snapshot_id, "retired": retired},
        text=[
            f"Published {staged.branch}: {table} is now at snapshot {snapshot.snapshot_id}.",
            *([f"Main had moved by {_snapshots(moved)}: the write was redone on top of it."] if moved else []),
            *(f"Discarded {older}, an older staged write replaced by this one." for older in retired),
        ],
    )


def _preview(staged: "StagedWrite", moved: "Sequence[MainChange]") -> list[str]:
    lines = [f"Would publish the rows on {staged.branch} to {staged.table}; nothing was changed."]
    if moved:
        lines += [
            f"Main has moved by {_snapshots(moved)}, without changing rows that the write replaces:",
            *(f"  {movement}" for movement in moved),
            "The write would be redone on top of main, and its checks run again.",
        ]
    return lines


def _snapshots(moved: "Sequence[MainChange]") -> str:
    return count(len(moved), "snapshot")


def _publish(
    workspace: Workspace, manager: "IcebergTableManager", staged: "StagedWrite", moved: "Sequence[MainChange]"
) -> "SnapshotInfo":
    from floe_iceberg.staging.staged import publish_staged

    if not moved:
        return publish_staged(manager, staged.table, staged.branch, audit=lambda redone: _stop(staged, redone, ()))

    from floe_dagster.gate.rechecks import rechecking

    with rechecking(workspace.artifacts, manager, staged) as failing:
        known = failing(staged.branch)

        def audit(redone: str) -> None:
            if new := [name for name in failing(redone) if name not in known]:
                _stop(staged, redone, new)

        return publish_staged(manager, staged.table, staged.branch, audit=audit)


def _stop(staged: "StagedWrite", redone: str, failing: "Sequence[str]") -> None:
    """Stop before publishing a redone write with new failures, so that the user can inspect it."""
    why = f"These checks now fail: {', '.join(failing)}." if failing else "Main moved again."
    msg = f"The write on {staged.branch} was redone on top of main, as {redone}. {why} Nothing was published."
    hint = f"Inspect it with: floe tables scan {staged.table} --ref {redone}. Then publish or discard it."
    raise WriteError(msg, hint=hint, table=staged.table)


def staged_report(workspace: Workspace, manager: "IcebergTableManager", tenant: str | None) -> Report:
    """List the staged writes of all tables in the catalog, or of a tenant."""
    from floe_iceberg.table.recovery import affects_only_table

    staged, failures = [], {}
    for table in _tables_of(workspace, manager, tenant):
        try:
            staged += _staged(manager, table)
        except FloeStorageError as err:
            # A table that cannot be read does not hide the staged writes of the others.
            if not (isinstance(err, CapabilityError) or affects_only_table(manager.context, table, err)):
                raise
            failures[table] = err
    rows = [
        (write.table, write.branch, _age(write), write.mode, write.summary.get("added-records")) for write in staged
    ]
    headers = ["TABLE", "BRANCH", "WRITTEN", "MODE", "ROWS"]
    return Report(
        data=[
            *(
                write.model_dump(mode="json", exclude={"summary"})
                | {"rows": int(write.summary.get("added-records", 0))}
                for write in staged
            ),
            *({"table": table, "problem": str(err)} for table, err in failures.items()),
        ],
        text=[
            grid(headers, rows, right=["ROWS"]) if rows else "No staged writes.",
            *(f"Cannot read {table}: {err}" for table, err in failures.items()),
        ],
        exit_code=max((err.exit_code for err in failures.values()), default=0),
    )


def staged_write(manager: "IcebergTableManager", table: str, branch: str | None) -> "StagedWrite":
    """Return the selected staged write.

    Raises:
        RefNotFoundError: There is no such staged write.
        ConfigurationError: There are several, and no branch was given.
    """
    staged = _staged(manager, table)
    names = ", ".join(write.branch for write in staged) or "none"
    found = [write for write in staged if branch in {None, write.branch}]
    if not found:
        where = f" on branch '{branch}'" if branch else ""
        msg = f"Table '{table}' has no staged write{where}."
        raise RefNotFoundError(msg, hint=f"Branches with staged writes: {names}.", table=table)
    if len(found) > 1:
        msg = f"Table '{table}' has {len(found)} staged writes."
        raise ConfigurationError(msg, hint=f"Pass one of these branches: {names}.", table=table)
    return found[0]


def _age(write: "StagedWrite") -> str:
    return ago(datetime.fromtimestamp(write.timestamp_ms / 1000, UTC))


def _staged(manager: "IcebergTableManager", table: str) -> "list[StagedWrite]":
    from floe_iceberg.staging.staged import list_staged

    return list_staged(manager, table)


def _tables_of(workspace: Workspace, manager: "IcebergTableManager", tenant: str | None) -> list[str]:
    if tenant is None:
        namespaces = {name.rpartition(".")[0] for name in workspace.artifacts.tables}
        namespaces |= set(manager.namespaces.tree())
    else:
        from floe_tenancy import tenant_namespace

        own = tenant_namespace(workspace.artifacts, tenant)
        namespaces = {own, *manager.namespaces.tree(own)}
    found = []
    for namespace in sorted(namespaces):
        if manager.namespaces.exists(namespace):
            found += [f"{namespace}.{name}" for name in manager.list_tables(namespace)]
    return found
