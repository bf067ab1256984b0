"""Rows of a staged write as lazy frames of the engine: the written rows, and the rows that they replace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from floe_core.dataplane import ReadRequest
from floe_core.errors import CapabilityError
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import WriteMode
from floe_iceberg.names import name_of
from floe_iceberg.read.predicates import parse_row_filter
from floe_iceberg.read.versions import ref_history
from floe_iceberg.table.keys.row_keys import recorded_keys
from floe_iceberg.table.schema import column_parts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.manager import IcebergTableManager
    from floe_iceberg.staging.staged import StagedWrite

WRITTEN_PROPERTY = "floe.audit.written-ms"


def written_at(snapshot: Snapshot) -> int:
    """Return the time of the original write in milliseconds, even if it was repeated since."""
    summary = summary_of(snapshot)
    return int(summary.get(WRITTEN_PROPERTY, snapshot.timestamp_ms))


def base_of(table: Table, branch: str) -> Snapshot:
    """Return the snapshot of main from which a staged branch was created.

    Raises:
        CapabilityError: The snapshot has expired.
    """
    published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    for snapshot in ref_history(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return snapshot
    name = name_of(table)
    msg = f"The snapshot from which branch '{branch}' of table '{name}' was created has expired."
    raise CapabilityError(msg, hint="Discard the branch and repeat the write.", table=name)


def staged_rows(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> Any:  # noqa: ANN401 - the engine's frame
    """Return the rows of a staged write.

    Raises:
        CapabilityError: The rows cannot be distinguished from existing rows.
    """
    plane, name = manager.context.plane(), staged.table
    base = base_of(table, staged.branch)
    if staged.mode is WriteMode.APPEND:
        return plane.frame(ReadRequest(name, start_snapshot_id=base.snapshot_id, snapshot_id=staged.snapshot_id))
    if staged.mode is WriteMode.OVERWRITE:
        written = parse_row_filter(staged.row_filter, table.schema(), table=name)
        return plane.frame(ReadRequest(name, row_filter=written, snapshot_id=staged.snapshot_id))
    if staged.mode is WriteMode.UPSERT:
        # The rows that are on the branch but not on its base were changed or added.
        before, after = (ReadRequest(name, snapshot_id=version) for version in (base.snapshot_id, staged.snapshot_id))
        return plane.added_rows(before, after, _columns(table, staged))
    msg = f"A staged write of mode {staged.mode.value} cannot be repeated on table '{name}'."
    raise CapabilityError(msg, hint="Discard the branch and repeat the write.", table=name)


def replaced_rows_changed(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> bool:
    """Whether the rows and columns that a staged write replaces have changed on main."""
    base, now = base_of(table, staged.branch).snapshot_id, table.metadata.current_snapshot_id
    read = ReadRequest(staged.table)
    keys: Sequence[str] = ()
    keyed = None
    if staged.mode is WriteMode.UPSERT:
        keys = staged.keys or recorded_keys(table)
        keyed = staged_rows(manager, table, staged)
    elif staged.row_filter is not None:
        read = replace(read, row_filter=parse_row_filter(staged.row_filter, table.schema(), table=staged.table))
    return manager.context.plane().rows_changed(
        replace(read, snapshot_id=base),
        replace(read, snapshot_id=now),
        _columns(table, staged),
        keys=[tuple(column_parts(key, table.schema())) for key in keys],
        keyed=keyed,
    )


def _columns(table: Table, staged: StagedWrite) -> Sequence[str]:
    return staged.columns or [field.name for field in table.schema().fields]
