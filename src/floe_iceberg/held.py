"""Writes that wait on a branch of their own for somebody to publish or discard them.

A write on such a branch carries in its snapshot what it was: mode, filter and keys. That is enough to do it again on
top of a main that has moved meanwhile, and to find out later whether it was published.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from floe_core.dataplane import OPERATION_ID_PROPERTY, ReadRequest
from floe_core.errors import CapabilityError, ConcurrencyConflictError, RefNotFoundError, WriteError
from floe_iceberg.commits import Backoff, ancestry
from floe_iceberg.context import identifier_of
from floe_iceberg.models import NullKeys, SnapshotInfo, Value, WriteMode
from floe_iceberg.predicates import parse_row_filter
from floe_iceberg.row_keys import keys_shown, keys_text, parse_keys, recorded_keys, same_keys
from floe_iceberg.versions import ref_not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import TableTarget
    from floe_iceberg.manager import IcebergTableManager

HELD_PREFIX = "audit."

_BRANCH = "floe.audit.branch"
_MODE = "floe.audit.mode"
_FILTER = "floe.audit.filter"
_KEYS = "floe.audit.keys"
_COLUMNS = "floe.audit.columns"
_NULL_KEYS = "floe.audit.null-keys"
_OWN = (_BRANCH, _MODE, _FILTER, _KEYS, _COLUMNS, _NULL_KEYS, OPERATION_ID_PROPERTY)


class HeldWrite(Value):
    """A write that waits on a branch."""

    table: str
    branch: str
    snapshot_id: int
    timestamp_ms: int
    mode: WriteMode
    row_filter: str | None
    keys: tuple[str, ...]
    columns: tuple[str, ...] = ()
    null_keys: NullKeys | None = None
    operation_id: str
    summary: dict[str, str]


@dataclass(frozen=True)
class HeldMark:
    """What a write on a waiting branch says about itself in its snapshot.

    Attributes:
        branch: The branch it was first written to.
        mode: What it does to the rows already there.
        row_filter: Rows that an overwrite replaces, as text; None for all.
        keys: Columns that identify a row, for an upsert.
        columns: Columns that an upsert changes; the others keep the values that main has by then.
        null_keys: What an upsert does with null in a key.
    """

    branch: str
    mode: WriteMode
    row_filter: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    null_keys: NullKeys | None = None

    def properties(self) -> dict[str, str]:
        """The mark as snapshot properties."""
        marks = {_BRANCH: self.branch, _MODE: self.mode.value}
        if self.row_filter is not None:
            marks[_FILTER] = self.row_filter
        if self.keys:
            marks[_KEYS] = keys_text(self.keys)
        if self.columns:
            marks[_COLUMNS] = json.dumps(self.columns)
        if self.null_keys is not None:
            marks[_NULL_KEYS] = self.null_keys.value
        return marks


def open_held(manager: IcebergTableManager, target: TableTarget, branch: str) -> None:
    """Start a waiting branch at main as it is, in place of whatever an earlier try left under its name.

    Raises:
        CapabilityError: The catalog keeps no branches.
    """
    require_branches(manager, target)
    for left in branches_of(manager.load_table(target), branch):
        manager.remove_branch(target, left)
    manager.create_branch(target, branch)


def require_branches(manager: IcebergTableManager, target: TableTarget) -> None:
    """Refuse a catalog without branches.

    Raises:
        CapabilityError: The catalog keeps no branches.
    """
    if not manager.context.branches:
        name = str(identifier_of(target))
        msg = f"Table '{name}' is to be checked before it is published, and its catalog keeps no branches."
        raise CapabilityError(msg, hint="Remove its checks, or use a catalog with branches.", table=name)


def branches_of(table: Table, branch: str) -> list[str]:
    """List a waiting branch and its redone successors, oldest first."""
    own = [name for name in table.metadata.refs if name == branch or _number(name, branch)]
    return sorted(own, key=lambda name: _number(name, branch))


def _number(name: str, branch: str) -> int:
    suffix = name.removeprefix(f"{branch}.redo")
    return int(suffix) if suffix != name and suffix.isdigit() else 0


def list_held(manager: IcebergTableManager, target: TableTarget) -> list[HeldWrite]:
    """List the writes of a table that wait to be published, oldest first."""
    table = manager.load_table(target)
    held = [_held(table, name) for name in table.metadata.refs if name.startswith(HELD_PREFIX)]
    return sorted((write for write in held if write), key=lambda write: write.timestamp_ms)


def find_published(table: Table, branch: str) -> SnapshotInfo | None:
    """Return main's snapshot of a write that once waited on a branch; None when it was not published."""
    for snapshot in ancestry(table.metadata):
        if snapshot.summary and snapshot.summary.additional_properties.get(_BRANCH) == branch:
            return SnapshotInfo.of(snapshot)
    return None


def publish_held(
    manager: IcebergTableManager,
    target: TableTarget,
    branch: str,
    *,
    audit: Callable[[str], None] | None = None,
) -> SnapshotInfo:
    """Publish a waiting write; when main has moved meanwhile, do it again on top of main first.

    Args:
        manager: The table manager.
        target: The table.
        branch: The waiting branch.
        audit: Called with the new branch after each redo; what it raises stops the publication. Without it, nobody
            checks the write again, and it is refused when a later run of the same work was published.

    Returns:
        The snapshot main stands at.

    Raises:
        RefNotFoundError: No such branch.
        WriteError: A later run of the same work is on main; the write still waits.
        ConcurrencyConflictError: Other writers were faster every time; the write still waits.
        MissingDependencyError: Main has moved, and doing the write again needs Spark.
    """
    backoff = Backoff(manager.config.commit_timeout_seconds)
    while True:
        table = manager.load_table(target)
        held = _held(table, branch)
        if held is None:
            return _drop_unwritten(manager, table, branch)
        if audit is None:
            _refuse_outdated(table, held)
            _refuse_other_keys(table, held)
        try:
            return manager.publish_branch(target, branch, remove=True)
        except ConcurrencyConflictError:
            if not backoff.wait():
                raise
        branch = _redo(manager, table, held)
        if audit is not None:
            audit(branch)


def _refuse_outdated(table: Table, held: HeldWrite) -> None:
    """Refuse a write whose rerun is on main: it would bring back what the rerun repaired."""
    first = held.summary[_BRANCH]
    for snapshot in ancestry(table.metadata):
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        rerun = summary.get(_BRANCH, "")
        if rerun != first and _work(rerun) == _work(first) and snapshot.timestamp_ms > held.timestamp_ms:
            msg = (
                f"The write on branch '{held.branch}' of table '{held.table}' is outdated: a later run of the same "
                f"work, '{rerun}', was published as snapshot {snapshot.snapshot_id}."
            )
            hint = f"Discard it with: floe discard {held.table} {held.branch}. To have its rows, run the asset again."
            raise WriteError(msg, hint=hint, table=held.table)


def _refuse_other_keys(table: Table, held: HeldWrite) -> None:
    """Refuse an upsert by keys that are not those of the table any more: its rows were matched by the wrong ones."""
    recorded = recorded_keys(table)
    if held.mode is WriteMode.UPSERT and held.keys and recorded and not same_keys(held.keys, recorded):
        msg = (
            f"The write on branch '{held.branch}' of table '{held.table}' matched rows by {keys_shown(held.keys)}; "
            f"the keys of the table are {keys_shown(recorded)} now."
        )
        hint = f"Run the asset again, and discard the branch with: floe discard {held.table} {held.branch}"
        raise WriteError(msg, hint=hint, table=held.table)


def _work(branch: str) -> str:
    """Return what a waiting branch is named after, without the run."""
    return branch.rpartition(".")[0]


def discard_held(manager: IcebergTableManager, target: TableTarget, branch: str) -> None:
    """Give up a waiting write; its files go when its snapshots expire.

    Raises:
        RefNotFoundError: No such branch, or one that is not waiting to be published.
    """
    if not branch.startswith(HELD_PREFIX):
        raise _no_held(manager, target, branch)
    manager.remove_branch(target, branch)


def _no_held(manager: IcebergTableManager, target: TableTarget, branch: str) -> RefNotFoundError:
    waiting = ", ".join(write.branch for write in list_held(manager, target)) or "none"
    name = str(identifier_of(target))
    msg = f"Table '{name}' has no waiting write on a branch '{branch}'."
    return RefNotFoundError(msg, hint=f"Waiting: {waiting}.", table=name)


def _held(table: Table, branch: str) -> HeldWrite | None:
    """Describe what a branch has and main has not; None when there is nothing."""
    published = {snapshot.snapshot_id for snapshot in ancestry(table.metadata)}
    for snapshot in ancestry(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return None
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        if _BRANCH in summary:
            return HeldWrite(
                table=".".join(table.name()),
                branch=branch,
                snapshot_id=table.metadata.refs[branch].snapshot_id,
                timestamp_ms=snapshot.timestamp_ms,
                mode=WriteMode(summary[_MODE]),
                row_filter=summary.get(_FILTER),
                keys=parse_keys(summary.get(_KEYS, "")),
                columns=tuple(json.loads(summary.get(_COLUMNS, "[]"))),
                null_keys=NullKeys(summary[_NULL_KEYS]) if _NULL_KEYS in summary else None,
                operation_id=summary[OPERATION_ID_PROPERTY],
                summary=dict(summary),
            )
    return None


def _drop_unwritten(manager: IcebergTableManager, table: Table, branch: str) -> SnapshotInfo:
    """Remove a branch that has nothing main has not."""
    if branch not in table.metadata.refs:
        raise ref_not_found(table, branch, kind="branch")
    ahead = {snapshot.snapshot_id for snapshot in ancestry(table.metadata)}
    if table.metadata.refs[branch].snapshot_id not in ahead:
        return manager.publish_branch(table, branch, remove=True)
    manager.remove_branch(table, branch)
    current = table.metadata.current_snapshot()
    return SnapshotInfo.of(current) if current else SnapshotInfo.nothing()


def _redo(manager: IcebergTableManager, table: Table, held: HeldWrite) -> str:
    """Do a waiting write again on a branch that starts at main as it is now, and drop the old one."""
    first = held.summary[_BRANCH]
    branch = f"{first}.redo{_number(held.branch, first) + 1}"
    if branch in manager.load_table(table).metadata.refs:
        manager.remove_branch(table, branch)
    manager.create_branch(table, branch)
    mark = HeldMark(first, held.mode, held.row_filter, held.keys, held.columns, held.null_keys)
    manager.write_data(
        table,
        _rows(manager, table, held),
        held.mode,
        keys=held.keys or None,
        null_keys=held.null_keys,
        overwrite_filter=held.row_filter,
        operation_id=held.operation_id,
        branch=branch,
        snapshot_properties={**_foreign(held.summary), **mark.properties()},
    )
    manager.remove_branch(table, held.branch)
    return branch


def _foreign(summary: dict[str, str]) -> dict[str, str]:
    """Return the properties that whoever made the write had put into its snapshot."""
    return {key: value for key, value in summary.items() if key.startswith("dagster.") and key not in _OWN}


def _rows(manager: IcebergTableManager, table: Table, held: HeldWrite) -> Any:  # noqa: ANN401 - the engine's frame
    """Return the rows that a waiting write brought, as a lazy frame of the engine."""
    plane, name = manager.context.plane(), held.table
    base = _base(table, held.branch)
    if held.mode is WriteMode.APPEND:
        return plane.frame(ReadRequest(name, start_snapshot_id=base.snapshot_id, snapshot_id=held.snapshot_id))
    if held.mode is WriteMode.OVERWRITE:
        written = parse_row_filter(held.row_filter, table.schema(), table=name)
        return plane.frame(ReadRequest(name, row_filter=written.sql, snapshot_id=held.snapshot_id))
    if held.mode is WriteMode.UPSERT:
        # Whatever the branch has and its base has not are the rows that were changed or added.
        columns = held.columns or None
        before = plane.frame(ReadRequest(name, columns=columns, snapshot_id=base.snapshot_id))
        return plane.frame(ReadRequest(name, columns=columns, snapshot_id=held.snapshot_id)).exceptAll(before)
    msg = f"A waiting write of mode {held.mode.value} cannot be done again on table '{name}'."
    raise CapabilityError(msg, hint="Discard it and write it again.", table=name)


def _base(table: Table, branch: str) -> Snapshot:
    published = {snapshot.snapshot_id for snapshot in ancestry(table.metadata)}
    for snapshot in ancestry(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return snapshot
    name = ".".join(table.name())
    msg = f"The history that branch '{branch}' of table '{name}' grew out of has expired."
    raise CapabilityError(msg, hint="Discard it and write it again.", table=name)
