"""Commits that change a table's metadata only: refs, properties, kept snapshots.

Such a change is planned on the table as it is, asserted on the refs it saw, and planned anew when another writer was
faster. A plan that finds its change already there returns None, which also settles a commit whose answer was lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from floe_core.errors import CommitStateUnknownError, ConcurrencyConflictError
from floe_iceberg.commit.engine import commit_metadata
from floe_iceberg.commit.protocol import Backoff, delete_old_metadata
from floe_iceberg.read.integrity import load_table
from floe_iceberg.read.versions import name_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.dataplane import ColumnRequest
    from floe_iceberg.context import ManagerContext, TableTarget


@dataclass(frozen=True)
class Change:
    """Updates to commit together, and what must hold for them.

    Attributes:
        updates: What changes.
        requirements: What must still hold.
        columns: The change of schema among the updates, for an engine that has to make it.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...] = field(default=())
    columns: tuple[ColumnRequest, ...] = field(default=())


def commit_change(
    context: ManagerContext,
    target: TableTarget,
    plan: Callable[[Table, bool], Change | None],
    *,
    what: str,
    loaded: Table | None = None,
) -> Table:
    """Commit a change and return the table with it.

    Args:
        context: The manager's context.
        target: The table.
        plan: Given the table as it is now and whether an earlier try may have landed, says what to commit; None when
            nothing is left to do.
        what: The change in words, for errors.
        loaded: The table as the caller has just seen it, for the first try.

    Raises:
        ConcurrencyConflictError: Other writers won every race within the commit budget.
        CommitStateUnknownError: The catalog's answer was lost, and the table cannot be looked at either.
    """
    backoff = Backoff(context.config.commit_timeout_seconds)
    doubtful = False
    while True:
        table, loaded = loaded or load_table(context, target), None
        change = plan(table, doubtful)
        if change is None:
            return table
        try:
            changed = commit_metadata(context, table, change.requirements, change.updates, change.columns)
        except CommitFailedException as err:
            if not backoff.wait():
                msg = f"Other writers to table '{name_of(table)}' were faster every time; {what} was not done."
                hint = "Try again when fewer writers are at work."
                raise ConcurrencyConflictError(msg, hint=hint, table=name_of(table)) from err
        except CommitStateUnknownException as err:
            doubtful = True
            if not backoff.wait():
                msg = f"The catalog does not say whether {what} on table '{name_of(table)}' was done."
                raise CommitStateUnknownError(msg, operation_id=what, table=name_of(table)) from err
        else:
            delete_old_metadata(context, changed, table.metadata)
            return changed
