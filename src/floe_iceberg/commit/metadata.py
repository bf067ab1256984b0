"""Commits that change only a table's metadata: refs, properties and snapshots.

A change is planned on the current table and asserts the refs it was planned on. When another writer commits first, the
change is planned again. A plan returns None if its change is already present, which also resolves a lost reply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from floe_core.errors import CommitStateUnknownError, ConcurrencyConflictError
from floe_iceberg.commit.engine import commit_metadata
from floe_iceberg.commit.protocol import Backoff, delete_old_metadata
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import load_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.dataplane import ColumnRequest
    from floe_iceberg.context import ManagerContext, TableTarget


@dataclass(frozen=True)
class Change:
    """Updates to commit together, with their requirements.

    Attributes:
        updates: Updates to commit.
        requirements: Requirements that must still be met.
        columns: The schema change contained in the updates, for a commit through an engine.
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
    """Commit a change and return the updated table.

    Args:
        context: The manager's context.
        target: The table.
        plan: Called with the current table and whether an earlier attempt may have landed; returns the change to
            commit, or None if nothing is left to do.
        what: Description of the change for error messages.
        loaded: The table, if the caller has just loaded it; used by the first attempt.

    Raises:
        ConcurrencyConflictError: Other writers committed first on every attempt within the commit budget.
        CommitStateUnknownError: The catalog's reply was lost, and the table cannot be loaded either.
    """
    backoff = Backoff(context.config.commit_timeout_seconds)
    uncertain = False
    while True:
        table, loaded = loaded or load_table(context, target), None
        change = plan(table, uncertain)
        if change is None:
            return table
        try:
            changed = commit_metadata(context, table, change.requirements, change.updates, change.columns)
        except CommitFailedException as err:
            if not backoff.wait():
                msg = f"Conflicts with other writers to table '{name_of(table)}'; {what} was not committed."
                hint = "Try again when fewer writers are active."
                raise ConcurrencyConflictError(msg, hint=hint, table=name_of(table)) from err
        except CommitStateUnknownException as err:
            uncertain = True
            if not backoff.wait():
                msg = f"The catalog did not confirm whether {what} on table '{name_of(table)}' was committed."
                raise CommitStateUnknownError(msg, operation_id=what, table=name_of(table)) from err
        else:
            delete_old_metadata(context, changed, table.metadata)
            return changed
