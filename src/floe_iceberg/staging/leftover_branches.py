"""Leftover branches, neither published nor staged: list them with their owners, and remove them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from floe_core.errors import WriteError
from floe_iceberg.commit.branches import STAGING_PREFIX, branch_creator, is_operation_branch
from floe_iceberg.models import Value
from floe_iceberg.names import name_of
from floe_iceberg.read.versions import ref_history
from floe_iceberg.staging.staged import discard_staged
from floe_iceberg.write.abandoned import own_snapshots

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from floe_iceberg.context import TableTarget
    from floe_iceberg.manager import IcebergTableManager


class LeftoverBranch(Value):
    """A leftover branch, neither published nor staged.

    Attributes:
        table: The table.
        branch: The branch.
        since: When it was created, or the timestamp of its head if its name does not record that.
        here: Whether a process on this host created it; None if unknown.
        abandoned: Whether that process is known to have ended.
    """

    table: str
    branch: str
    since: datetime
    here: bool | None
    abandoned: bool


def list_leftovers(table: Table) -> list[LeftoverBranch]:
    """List operation branches and empty staging branches, including those of running writes."""
    published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    found = []
    for name in table.metadata.refs:
        if is_operation_branch(name):
            creator = branch_creator(name)
            seconds = creator.seconds if creator.seconds is not None else _head_seconds(table, name)
            here = creator.process.here if creator.process else None
            found.append(_describe(table, name, seconds, here=here, abandoned=creator.abandoned))
        elif name.startswith(STAGING_PREFIX) and not own_snapshots(table, name, published):
            found.append(_describe(table, name, _head_seconds(table, name), here=None, abandoned=False))
    return found


def remove_empty_branch(manager: IcebergTableManager, target: TableTarget, branch: str) -> None:
    """Remove a staging branch to which nothing was written."""
    table = manager.load_table(target)
    if branch in table.metadata.refs and not own_snapshots(table, branch):
        manager.remove_branch(target, branch)


def discard_leftover(manager: IcebergTableManager, target: TableTarget, branch: str) -> None:
    """Remove a leftover or staged branch; its files are deleted when its snapshots expire.

    Raises:
        RefNotFoundError: The branch does not exist or belongs to the user.
        WriteError: A running process on this host uses the branch.
    """
    if not is_operation_branch(branch):
        discard_staged(manager, target, branch)
        return
    process = branch_creator(branch).process
    if process is not None and process.here and not process.dead:
        table = name_of(manager.load_table(target))
        msg = f"The branch '{branch}' of table '{table}' is in use by process {process.pid}."
        raise WriteError(msg, hint="It is removed when the write ends.", table=table)
    manager.remove_branch(target, branch)


def _describe(table: Table, name: str, seconds: float, *, here: bool | None, abandoned: bool) -> LeftoverBranch:
    since = datetime.fromtimestamp(seconds, UTC)
    return LeftoverBranch(table=name_of(table), branch=name, since=since, here=here, abandoned=abandoned)


def _head_seconds(table: Table, branch: str) -> float:
    head = table.snapshot_by_id(table.metadata.refs[branch].snapshot_id)
    return (head.timestamp_ms if head else table.metadata.last_updated_ms) / 1000
