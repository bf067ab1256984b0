"""Branches that somebody opened and never closed, because its process was killed or its host is gone.

A branch keeps its snapshots, and their files, from expiry. Those of operations carry their process in their names, so
that what a dead process of this host left can be removed; of other hosts nobody here can tell, and a person decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError, RefNotFoundError
from floe_iceberg.commit.branches import is_operation_branch, opened
from floe_iceberg.read.versions import name_of, ref_history
from floe_iceberg.table.refs import remove_branch

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import ManagerContext


def own_snapshots(table: Table, branch: str, published: set[int] | None = None) -> list[Snapshot]:
    """Return the snapshots that a branch has and main has not, newest first."""
    if published is None:
        published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    own = []
    for snapshot in ref_history(table.metadata, branch):
        if snapshot.snapshot_id in published:
            break
        own.append(snapshot)
    return own


def clear_operations(context: ManagerContext, table: Table) -> list[str]:
    """Remove the operations' branches that dead processes of this host left on a table; return their names.

    What stands in the way is logged: whoever comes here is about to do something else.
    """
    cleared = []
    for name in [name for name in table.metadata.refs if is_operation_branch(name) and opened(name).abandoned]:
        try:
            remove_branch(context, table, name)
        except RefNotFoundError:
            # Somebody else was faster.
            continue
        except FloeStorageError as err:
            context.logger.warning("iceberg.clear_branch", table=name_of(table), ref=name, reason=str(err))
            continue
        context.logger.warning("iceberg.clear_branch", table=name_of(table), ref=name, reason="its process is gone")
        cleared.append(name)
    return cleared
