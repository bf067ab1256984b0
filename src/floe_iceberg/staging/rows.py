"""The rows of a staged write, as lazy frames of the engine: what it brought, and what it replaces."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from floe_core.dataplane import ReadRequest
from floe_core.errors import CapabilityError
from floe_iceberg.commit.protocol import ancestry
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import WriteMode
from floe_iceberg.read.predicates import parse_row_filter
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
    """Return when a write was first made, in milliseconds, however often it was done again since."""
    summary = summary_of(snapshot)
    return int(summary.get(WRITTEN_PROPERTY, snapshot.timestamp_ms))


def base_of(table: Table, branch: str) -> Snapshot:
    """Return the snapshot of main that a staged branch grew out of.

    Raises:
        CapabilityError: It has expired.
    """
    published = {snapshot.snapshot_id for snapshot in ancestry(table.metadata)}
    for snapshot in ancestry(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return snapshot
    name = ".".join(table.name())
    msg = f"The history that branch '{branch}' of table '{name}' grew out of has expired."
    raise CapabilityError(msg, hint="Discard it and write it again.", table=name)


def brought_rows(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> Any:  # noqa: ANN401 - the engine's frame
    """Return the rows that a staged write brought.

    Raises:
        CapabilityError: They cannot be told from the others.
    """
    plane, name = manager.context.plane(), staged.table
    base = base_of(table, staged.branch)
    if staged.mode is WriteMode.APPEND:
        return plane.frame(ReadRequest(name, start_snapshot_id=base.snapshot_id, snapshot_id=staged.snapshot_id))
    if staged.mode is WriteMode.OVERWRITE:
        written = parse_row_filter(staged.row_filter, table.schema(), table=name)
        return plane.frame(ReadRequest(name, row_filter=written, snapshot_id=staged.snapshot_id))
    if staged.mode is WriteMode.UPSERT:
        # Whatever the branch has and its base has not are the rows that were changed or added.
        before, after = (ReadRequest(name, snapshot_id=version) for version in (base.snapshot_id, staged.snapshot_id))
        return plane.added_rows(before, after, _columns(table, staged))
    msg = f"A staged write of mode {staged.mode.value} cannot be done again on table '{name}'."
    raise CapabilityError(msg, hint="Discard it and write it again.", table=name)


def replaced_rows_changed(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> bool:
    """Whether main holds other values than it did, in the rows and columns that a staged write replaces."""
    base, now = base_of(table, staged.branch).snapshot_id, table.metadata.current_snapshot_id
    read = ReadRequest(staged.table)
    keys: Sequence[str] = ()
    keyed = None
    if staged.mode is WriteMode.UPSERT:
        keys = staged.keys or recorded_keys(table)
        keyed = brought_rows(manager, table, staged)
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
