"""Cleanup of operation branches whose process was killed.

A branch protects its snapshots and their files from expiry. The names of operation branches contain the process id, so
branches of dead processes on this host can be removed. Whether a process on another host is alive is unknown here;
removing those branches is a manual decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError, RefNotFoundError
from floe_iceberg.commit.branches import branch_creator, is_operation_branch
from floe_iceberg.names import name_of
from floe_iceberg.read.versions import ref_history
from floe_iceberg.table.refs import remove_branch

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import ManagerContext


def own_snapshots(table: Table, branch: str, published: set[int] | None = None) -> list[Snapshot]:
    """Return the snapshots that are on a branch but not on main, newest first."""
    if published is None:
        published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    own = []
    for snapshot in ref_history(table.metadata, branch):
        if snapshot.snapshot_id in published:
            break
        own.append(snapshot)
    return own


def clear_operations(context: ManagerContext, table: Table) -> list[str]:
    """Remove a table's operation branches left by dead processes of this host, and return their names.

    Errors are logged, not raised, because this cleanup runs at the start of another operation.
    """
    cleared = []
    for name in [name for name in table.metadata.refs if is_operation_branch(name) and branch_creator(name).abandoned]:
        try:
            remove_branch(context, table, name)
        except RefNotFoundError:
            # Another process has already removed it.
            continue
        except FloeStorageError as err:
            context.logger.warning("iceberg.clear_branch", table=name_of(table), ref=name, reason=str(err))
            continue
        context.logger.warning(
            "iceberg.clear_branch", table=name_of(table), ref=name, reason="process no longer running"
        )
        cleared.append(name)
    return cleared
