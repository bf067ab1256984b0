"""``floe publish``: let rows through that their checks held back."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from floe_cli.command import command, single_command
from floe_cli.output import Report, ago, grid, working
from floe_cli.workspace import Workspace
from floe_core.errors import ConfigurationError, RefNotFoundError

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager
    from floe_iceberg.held import HeldWrite

app = single_command()

WaitingTable = Annotated[
    str | None, typer.Argument(metavar="[TABLE]", help="Table, as namespace.name; none lists all that waits.")
]
WaitingBranch = Annotated[
    str | None, typer.Argument(metavar="[BRANCH]", help="Branch the rows wait on; not needed when there is one.")
]


@command(app)
def publish(workspace: Workspace, table: WaitingTable = None, branch: WaitingBranch = None) -> Report:
    """Publish rows that were held back by their checks, after you had a look at them."""
    from floe_iceberg.held import publish_held

    with working("Publishing"), workspace.tables() as manager:
        if table is None:
            return waiting_report(workspace, manager)
        held = waiting_write(manager, table, branch)
        snapshot = publish_held(manager, table, held.branch)
    return Report(
        data={"table": table, "branch": held.branch, "snapshot_id": snapshot.snapshot_id},
        text=[f"Published {held.branch}: {table} is at snapshot {snapshot.snapshot_id}."],
    )


def waiting_report(workspace: Workspace, manager: "IcebergTableManager") -> Report:
    """List the writes that wait on any table of the catalog."""
    held = [write for table in _tables_of(workspace, manager) for write in _held(manager, table)]
    rows = [
        (write.table, write.branch, _waiting(write), write.mode, write.summary.get("added-records")) for write in held
    ]
    headers = ["TABLE", "BRANCH", "WRITTEN", "MODE", "ROWS"]
    return Report(
        data=[
            write.model_dump(mode="json", exclude={"summary"}) | {"rows": int(write.summary.get("added-records", 0))}
            for write in held
        ],
        text=[grid(headers, rows, right=["ROWS"]) if rows else "Nothing waits to be published."],
    )


def waiting_write(manager: "IcebergTableManager", table: str, branch: str | None) -> "HeldWrite":
    """Return the write that is meant.

    Raises:
        RefNotFoundError: Nothing waits there.
        ConfigurationError: Several do, and none was named.
    """
    held = _held(manager, table)
    names = ", ".join(write.branch for write in held) or "nothing"
    found = [write for write in held if branch in {None, write.branch}]
    if not found:
        what = f"on a branch '{branch}' of" if branch else "on"
        msg = f"Nothing waits {what} table '{table}' to be published."
        raise RefNotFoundError(msg, hint=f"Waiting there: {names}.", table=table)
    if len(found) > 1:
        msg = f"{len(found)} writes wait on table '{table}'."
        raise ConfigurationError(msg, hint=f"Name one: {names}.", table=table)
    return found[0]


def _waiting(write: "HeldWrite") -> str:
    return ago(datetime.fromtimestamp(write.timestamp_ms / 1000, UTC))


def _held(manager: "IcebergTableManager", table: str) -> "list[HeldWrite]":
    from floe_iceberg.held import list_held

    return list_held(manager, table)


def _tables_of(workspace: Workspace, manager: "IcebergTableManager") -> list[str]:
    namespaces = {name.rpartition(".")[0] for name in workspace.artifacts.tables}
    namespaces |= set(manager.namespaces.tree())
    found = []
    for namespace in sorted(namespaces):
        if manager.namespaces.exists(namespace):
            found += [f"{namespace}.{name}" for name in manager.list_tables(namespace)]
    return found
