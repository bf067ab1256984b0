"""Rows of a staged write as lazy frames of the engine: the written rows, and the rows that they replace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from floe_core.dataplane import ReadRequest
from floe_core.errors import CapabilityError
from floe_iceberg.commit.protocol import ancestry
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.models import WriteMode
from floe_iceberg.read.filters.spark_sql import quoted_name
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

_KEY = "floe key of a row"


def written_at(snapshot: Snapshot) -> int:
    """Return the time of the original write in milliseconds, even if it was repeated since."""
    summary = summary_of(snapshot)
    return int(summary.get(WRITTEN_PROPERTY, snapshot.timestamp_ms))


def base_of(table: Table, branch: str) -> Snapshot:
    """Return the snapshot of main from which a staged branch was created.

    Raises:
        CapabilityError: The snapshot has expired.
    """
    published = {snapshot.snapshot_id for snapshot in ancestry(table.metadata)}
    for snapshot in ancestry(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return snapshot
    name = ".".join(table.name())
    msg = f"The snapshot from which branch '{branch}' of table '{name}' was created has expired."
    raise CapabilityError(msg, hint="Discard the branch and repeat the write.", table=name)


def brought_rows(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> Any:  # noqa: ANN401 - the engine's frame
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
        return plane.frame(ReadRequest(name, row_filter=written.sql, snapshot_id=staged.snapshot_id))
    if staged.mode is WriteMode.UPSERT:
        # The rows that are on the branch but not on its base were changed or added.
        columns = _columns(table, staged)
        before = _rows_at(manager, table, base.snapshot_id, columns)
        return _rows_at(manager, table, staged.snapshot_id, columns).exceptAll(before)
    msg = f"A staged write of mode {staged.mode.value} cannot be repeated on table '{name}'."
    raise CapabilityError(msg, hint="Discard the branch and repeat the write.", table=name)


def replaced_rows_changed(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> bool:
    """Whether the rows and columns that a staged write replaces have changed on main."""
    columns = _columns(table, staged)
    snapshots = [base_of(table, staged.branch).snapshot_id, table.metadata.current_snapshot_id]
    before, after = (_rows_at(manager, table, snapshot, columns) for snapshot in snapshots if snapshot is not None)
    if staged.mode is WriteMode.UPSERT:
        struct = _key_struct(table, staged.keys or recorded_keys(table))
        keys = brought_rows(manager, table, staged).selectExpr(f"{struct} as `{_KEY}`").distinct()
        before, after = (_of_keys(frame, struct, keys) for frame in (before, after))
    elif staged.row_filter is not None:
        sql = parse_row_filter(staged.row_filter, table.schema(), table=staged.table).sql
        before, after = before.where(sql), after.where(sql)
    return not (before.exceptAll(after).isEmpty() and after.exceptAll(before).isEmpty())


def _columns(table: Table, staged: StagedWrite) -> Sequence[str]:
    return staged.columns or [field.name for field in table.schema().fields]


def _rows_at(manager: IcebergTableManager, table: Table, snapshot_id: int, columns: Sequence[str]) -> Any:  # noqa: ANN401
    """Read columns at a snapshot; columns that did not exist then are null."""
    frame = manager.context.plane().frame(ReadRequest(".".join(table.name()), snapshot_id=snapshot_id))
    there = set(frame.columns)
    return frame.selectExpr(
        *(quoted_name(name) if name in there else f"null as {quoted_name(name)}" for name in columns)
    )


def _key_struct(table: Table, keys: Sequence[str]) -> str:
    # In a struct, null equals null, so one comparison works for both treatments of null in keys.
    paths = (".".join(quoted_name(part) for part in column_parts(key, table.schema())) for key in keys)
    return f"struct({', '.join(f'{path} as k{number}' for number, path in enumerate(paths))})"


def _of_keys(frame: Any, struct: str, keys: Any) -> Any:  # noqa: ANN401 - the engine's frames
    return frame.selectExpr("*", f"{struct} as `{_KEY}`").join(keys, on=_KEY, how="left_semi").drop(_KEY)
