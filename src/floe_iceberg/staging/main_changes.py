"""Changes on main since a staged write, and whether they make the write outdated.

A staged write may be published if the rows that it replaces have not changed since it was written, and no later run of
the same work is on main. Otherwise it would revert repairs or changes made in the meantime.
"""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation

from floe_core.errors import CapabilityError, WriteError
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import Value, WriteMode
from floe_iceberg.read.versions import ref_history
from floe_iceberg.staging.rows import base_of, replaced_rows_changed, written_at
from floe_iceberg.table.keys.row_keys import format_keys, recorded_keys, same_keys
from floe_iceberg.write.copy_on_write import Branch, read_set
from floe_iceberg.write.engine import changes_anything

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.staging.staged import StagedWrite

_MAX_LISTED = 5
_RUN_DIGITS = 8


class MainChange(Value):
    """One snapshot on main that is newer than the base of a staged write.

    Attributes:
        snapshot_id: The snapshot.
        timestamp_ms: When it was created.
        operation: Iceberg operation.
        asset: The asset that wrote it, if one did.
        partition: The asset's partition, if any.
        run_id: The Dagster run.
        branch: The staged branch that it was published from.
        rerun: Whether it is a later run of the same work.
        touches: Whether it may have changed rows that the staged write replaces.
    """

    snapshot_id: int
    timestamp_ms: int
    operation: str
    asset: str | None = None
    partition: str | None = None
    run_id: str | None = None
    branch: str | None = None
    rerun: bool = False
    touches: bool = False

    def __str__(self) -> str:
        """Format it for error messages."""
        time = datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)
        by = f" by run {self.run_id[:_RUN_DIGITS]}" if self.run_id else ""
        of = f" of {self.asset}" if self.asset else ""
        partition = f", partition {self.partition}" if self.partition else ""
        branch = f", from branch '{self.branch}'" if self.branch else ""
        return f"snapshot {self.snapshot_id} ({self.operation}{by}{of}{partition}{branch}, {time:%Y-%m-%d %H:%M} UTC)"


def main_changes_since(table: Table, staged: StagedWrite) -> tuple[MainChange, ...]:
    """List the snapshots added to main since a staged write, oldest first.

    Raises:
        CapabilityError: The history in between has expired.
    """
    base = base_of(table, staged.branch)
    since = takewhile(lambda snapshot: snapshot.snapshot_id != base.snapshot_id, ref_history(table.metadata))
    return tuple(_describe(table, snapshot, staged) for snapshot in reversed(list(since)))


def require_current(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> tuple[MainChange, ...]:
    """Require that a staged write would not replace newer rows; return the snapshots added to main since.

    Raises:
        WriteError: The write is outdated, or the table's keys have changed since.
        CapabilityError: The history in between has expired.
    """
    _require_keys(table, staged)
    changes = main_changes_since(table, staged)
    outdated = [change for change in changes if change.rerun]
    if not outdated:
        outdated = [change for change in changes if change.touches]
        if outdated and _rows_can_be_compared(staged) and not replaced_rows_changed(manager, table, staged):
            outdated = []
    if outdated:
        raise _outdated(staged, outdated)
    return changes


def _describe(table: Table, snapshot: Snapshot, staged: StagedWrite) -> MainChange:
    summary = summary_of(snapshot)
    changes = changes_anything(snapshot) and _operation(snapshot) != Operation.REPLACE.value
    same_work = staged.is_rerun_by(summary)
    # An earlier run that was published late does not make the staged one outdated.
    rerun = changes and same_work and written_at(snapshot) > staged.timestamp_ms
    return MainChange(
        snapshot_id=snapshot.snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        operation=_operation(snapshot),
        asset=summary.get("dagster.asset-key"),
        partition=summary.get("dagster.partition-key"),
        run_id=summary.get("dagster.run-id"),
        branch=summary.get("floe.audit.branch"),
        rerun=rerun,
        touches=rerun or (changes and not same_work and _touches(table, snapshot, staged)),
    )


def _operation(snapshot: Snapshot) -> str:
    return snapshot.summary.operation.value if snapshot.summary else "unknown"


def _touches(table: Table, snapshot: Snapshot, staged: StagedWrite) -> bool:
    """Whether a snapshot may have changed rows that a staged write replaces, by the files it added and removed."""
    if staged.mode is WriteMode.APPEND:
        return False
    if staged.mode is not WriteMode.OVERWRITE or staged.row_filter is None:
        return True
    parent = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    try:
        before, after = (read_set(Branch(table, state).tasks(staged.row_filter)) for state in (parent, snapshot))
    except CapabilityError:
        # Only the engine can read the rows of these files.
        return True
    return before != after


def _rows_can_be_compared(staged: StagedWrite) -> bool:
    """Whether comparing rows can prove that only other rows in the files have changed."""
    return staged.mode is WriteMode.UPSERT or (staged.mode is WriteMode.OVERWRITE and staged.row_filter is not None)


def _require_keys(table: Table, staged: StagedWrite) -> None:
    """Require that a staged upsert used the table's current keys, because other keys match the wrong rows."""
    recorded = recorded_keys(table)
    if staged.mode is WriteMode.UPSERT and staged.keys and recorded and not same_keys(staged.keys, recorded):
        msg = (
            f"The write on branch '{staged.branch}' of table '{staged.table}' matched rows by "
            f"{format_keys(staged.keys)}, but the keys of the table are now {format_keys(recorded)}."
        )
        raise WriteError(msg, hint=_discard_hint(staged), table=staged.table)


def _outdated(staged: StagedWrite, by: Sequence[MainChange]) -> WriteError:
    why = "a later run of the same work was published" if by[0].rerun else "the rows it replaces have changed on main"
    more = f" and {len(by) - _MAX_LISTED} more" if len(by) > _MAX_LISTED else ""
    shown = "; ".join(str(change) for change in by[:_MAX_LISTED])
    msg = f"The write on branch '{staged.branch}' of table '{staged.table}' is outdated: {why}: {shown}{more}."
    return WriteError(msg, hint=_discard_hint(staged), table=staged.table)


def _discard_hint(staged: StagedWrite) -> str:
    return f"Discard it with: floe discard {staged.table} {staged.branch}. To write its rows, run the asset again."
