"""Staged writes: writes on a separate branch that are published or discarded later.

The snapshot of a staged write records its mode, filter and keys. That is enough to repeat the write on top of a main
branch that has moved, and to determine later whether it was published.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.dataplane import OPERATION_ID_PROPERTY, SOURCE_ROWS_PROPERTY
from floe_core.errors import CapabilityError, ConcurrencyConflictError, RefNotFoundError
from floe_core.failed_writes import failing_as_writes
from floe_iceberg.commit.branches import STAGING_PREFIX
from floe_iceberg.commit.protocol import Backoff
from floe_iceberg.commit.read_marks import require_unread
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.models import NullKeys, SnapshotInfo, Value, WriteMode
from floe_iceberg.names import name_of
from floe_iceberg.read.versions import ref_history, ref_not_found
from floe_iceberg.staging.main_changes import require_current
from floe_iceberg.staging.rows import WRITTEN_PROPERTY, staged_rows, written_at
from floe_iceberg.table.keys.key_property import keys_text, parse_keys
from floe_iceberg.table.refs import branch_off, publish_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table

    from floe_iceberg.context import TableTarget
    from floe_iceberg.manager import IcebergTableManager

_BRANCH = "floe.audit.branch"
_MODE = "floe.audit.mode"
_FILTER = "floe.audit.filter"
_KEYS = "floe.audit.keys"
_COLUMNS = "floe.audit.columns"
_NULL_KEYS = "floe.audit.null-keys"
_PARTITIONS = "floe.audit.partitions"
_ASSET = "dagster.asset-key"
_PARTITION = "dagster.partition-key"
_MAX_MARK_LENGTH = 8192
# audit.asset.partition.run; without a partition there are two.
_DOTS_WITH_PARTITION = 3
_MARK_PROPERTIES = (_BRANCH, _MODE, _FILTER, _KEYS, _COLUMNS, _NULL_KEYS, _PARTITIONS, OPERATION_ID_PROPERTY)


# Metrics and engine of a write, which a repeated write recomputes.
_COMPUTED = frozenset(
    {
        *(
            f"{what}-{metric}"
            for what in ("added", "deleted", "removed", "total")
            for metric in (
                *("data-files", "records", "files-size", "delete-files", "dvs"),
                *("position-deletes", "position-delete-files", "equality-deletes", "equality-delete-files"),
            )
        ),
        *("changed-partition-count", "partition-summaries-included", "replace-partitions", "entries-processed"),
        *("manifests-created", "manifests-kept", "manifests-replaced", "source-snapshot-id", "published-wap-id"),
        *("engine-name", "engine-version", "iceberg-version", "app-id", "app-name", "spark.app.id"),
        SOURCE_ROWS_PROPERTY,
    }
)


class StagedWrite(Value):
    """A staged write on a branch."""

    table: str
    branch: str
    snapshot_id: int
    timestamp_ms: int
    mode: WriteMode
    row_filter: str | None
    keys: tuple[str, ...]
    columns: tuple[str, ...] = ()
    null_keys: NullKeys | None = None
    partitions: tuple[str, ...] = ()
    operation_id: str
    summary: dict[str, str]

    @property
    def first_branch(self) -> str:
        """The branch of the original write, before it was repeated on a newer main."""
        return self.summary.get(_BRANCH, self.branch)

    @property
    def partitioned(self) -> bool:
        """Whether it only writes some partitions of its asset."""
        return bool(self.partitions) or self.first_branch.count(".") >= _DOTS_WITH_PARTITION

    def is_rerun_by(self, summary: Mapping[str, str]) -> bool:
        """Whether a summary is from another run of the same asset for some of the same partitions."""
        other = summary.get(_BRANCH, "")
        if other == self.first_branch or summary.get(OPERATION_ID_PROPERTY) == self.operation_id:
            return False
        if other and _work_name(other) == _work_name(self.first_branch):
            return True
        if _ASSET not in summary or summary[_ASSET] != self.summary.get(_ASSET):
            return False
        partitions = partitions_of(summary)
        return bool(set(partitions) & set(self.partitions)) or not (partitions or self.partitioned)


@dataclass(frozen=True)
class StagedMark:
    """Description of a staged write that is stored in its snapshot.

    Attributes:
        branch: The branch of the original write.
        mode: How the write treats existing rows.
        row_filter: Rows that an overwrite replaces, as text; None for all.
        keys: Key columns of an upsert.
        columns: Columns that an upsert changes; other columns keep their current values on main.
        null_keys: How an upsert treats null in a key.
        partitions: Keys of the asset's partitions that it writes.
    """

    branch: str
    mode: WriteMode
    row_filter: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    null_keys: NullKeys | None = None
    partitions: tuple[str, ...] = ()

    def properties(self) -> dict[str, str]:
        """Return the description as snapshot properties."""
        marks = {_BRANCH: self.branch, _MODE: self.mode.value}
        if self.row_filter is not None:
            marks[_FILTER] = self.row_filter
        if self.keys:
            marks[_KEYS] = keys_text(self.keys)
        if self.columns:
            marks[_COLUMNS] = json.dumps(self.columns)
        if self.null_keys is not None:
            marks[_NULL_KEYS] = self.null_keys.value
        if self.partitions and len(text := json.dumps(self.partitions)) <= _MAX_MARK_LENGTH:
            marks[_PARTITIONS] = text
        return marks


def open_staged(
    manager: IcebergTableManager, target: TableTarget, branch: str, *, loaded: Table | None = None
) -> Table:
    """Create a staged branch at the head of main, replacing leftovers of earlier attempts with its name.

    Args:
        manager: The table manager.
        target: The table.
        branch: The staged branch.
        loaded: The table, if the caller has just loaded it.

    Returns:
        The updated table.

    Raises:
        CapabilityError: The catalog does not support branches.
    """
    require_branches(manager, target)
    table = loaded or manager.load_table(target)
    if leftovers := branches_of(table, branch):
        for name in leftovers:
            manager.remove_branch(table, name)
        table = manager.load_table(table)
    return branch_off(manager.context, table, branch)


def require_branches(manager: IcebergTableManager, target: TableTarget) -> None:
    """Require a catalog that supports branches.

    Raises:
        CapabilityError: The catalog does not support branches.
    """
    if not manager.context.branches:
        name = str(identifier_of(target))
        msg = f"Checks of table '{name}' before publication need branches, which its catalog does not support."
        raise CapabilityError(msg, hint="Remove its checks, or use a catalog with branches.", table=name)


def branches_of(table: Table, branch: str) -> list[str]:
    """List a staged branch and the branches of its repeated writes, oldest first."""
    own = [name for name in table.metadata.refs if name == branch or _number(name, branch)]
    return sorted(own, key=lambda name: _number(name, branch))


def current_branch(manager: IcebergTableManager, table: Table, branch: str) -> str | None:
    """Return the branch of a staged write: the original one, or the last on which it was repeated; None if missing.

    A process that dies while it repeats a write leaves two branches: either a new one without the rows, or an obsolete
    old one. All but the valid branch are removed.
    """
    own = branches_of(table, branch)
    written = [name for name in own if _staged(table, name) is not None]
    last = (written or own)[-1] if own else None
    for other in own:
        if other != last:
            with suppress(RefNotFoundError):
                manager.remove_branch(table, other)
    return last


def _number(name: str, branch: str) -> int:
    suffix = name.removeprefix(f"{branch}.redo")
    return int(suffix) if suffix != name and suffix.isdigit() else 0


def list_staged(manager: IcebergTableManager, target: TableTarget) -> list[StagedWrite]:
    """List the staged writes of a table, oldest first."""
    return staged_writes(manager.load_table(target))


def staged_writes(table: Table) -> list[StagedWrite]:
    """List the staged writes of a loaded table, oldest first."""
    staged = [_staged(table, name) for name in table.metadata.refs if name.startswith(STAGING_PREFIX)]
    return sorted((write for write in staged if write), key=lambda write: write.timestamp_ms)


def find_published(table: Table, branch: str) -> SnapshotInfo | None:
    """Return the snapshot on main of a formerly staged write; None if it was not published."""
    for snapshot in ref_history(table.metadata):
        if snapshot.summary and snapshot.summary.additional_properties.get(_BRANCH) == branch:
            return SnapshotInfo.of(snapshot)
    return None


@failing_as_writes()
def publish_staged(  # noqa: PLR0913 - options by keyword
    manager: IcebergTableManager,
    target: TableTarget,
    branch: str,
    *,
    audit: Callable[[str], None] | None = None,
    outdated: bool = False,
    loaded: Table | None = None,
) -> SnapshotInfo:
    """Publish a staged write; if main has moved since, repeat the write on top of main first.

    Args:
        manager: The table manager.
        target: The table.
        branch: The staged branch.
        audit: Called with the new branch after each repetition; an exception stops the publication. Without it, the
            repeated write is not checked.
        outdated: Whether to publish the write even if its rows have changed on main since, for a run that publishes
            what it has just written.
        loaded: The table, if the caller has just loaded it; used by the first attempt.

    Returns:
        The current snapshot of main.

    Raises:
        RefNotFoundError: The branch does not exist.
        WriteError: Rows that it replaces have changed since, or a later run of the same work is on main, and the error
            names the snapshots; or another process wrote to the branch. The write stays staged.
        ConcurrencyConflictError: Other writers committed first on every attempt; the write stays staged.
        MissingDependencyError: Main has moved, and repeating the write needs Spark.
    """
    backoff = Backoff(manager.config.commit_timeout_seconds)
    while True:
        table, loaded = loaded or manager.load_table(target), None
        staged = _staged(table, branch)
        if staged is None:
            return _drop_empty_branch(manager, table, branch)
        if not outdated:
            require_current(manager, table, staged)
        try:
            return publish_branch(manager.context, target, branch, remove=True, head=staged.snapshot_id, loaded=table)
        except ConcurrencyConflictError:
            if not backoff.wait():
                raise
        branch = _repeat(manager, table, staged)
        if audit is not None:
            audit(branch)


def discard_superseded(manager: IcebergTableManager, target: TableTarget, published: StagedWrite) -> list[str]:
    """Discard the older staged writes that a published one supersedes, and return their branches.

    These are writes of the same asset to the same partitions. Without partitions, an append or upsert may have rows
    that the published write lacks; such writes need a manual decision.
    """
    if not published.partitioned and published.mode is not WriteMode.OVERWRITE:
        return []
    older = [
        staged
        for staged in list_staged(manager, target)
        if staged.timestamp_ms < published.timestamp_ms and _superseded_by(staged, published)
    ]
    for staged in older:
        with suppress(RefNotFoundError):
            manager.remove_branch(target, staged.branch)
    return [staged.branch for staged in older]


def _superseded_by(staged: StagedWrite, published: StagedWrite) -> bool:
    if staged.first_branch == published.first_branch:
        return False
    if _work_name(staged.first_branch) == _work_name(published.first_branch):
        return True
    same_asset = _ASSET in staged.summary and staged.summary[_ASSET] == published.summary.get(_ASSET)
    return same_asset and bool(staged.partitions) and set(staged.partitions) <= set(published.partitions)


def partitions_of(summary: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of the asset's partitions that a snapshot wrote, according to its summary."""
    if _PARTITIONS in summary:
        return tuple(json.loads(summary[_PARTITIONS]))
    return (summary[_PARTITION],) if _PARTITION in summary else ()


def _work_name(branch: str) -> str:
    """Return the name of a staged branch without the run id."""
    return branch.rpartition(".")[0]


def discard_staged(manager: IcebergTableManager, target: TableTarget, branch: str) -> None:
    """Discard a staged write; its files are deleted when its snapshots expire.

    Raises:
        RefNotFoundError: The branch does not exist or is not a staged branch.
    """
    if not branch.startswith(STAGING_PREFIX):
        raise _no_staged(manager, target, branch)
    manager.remove_branch(target, branch)


def _no_staged(manager: IcebergTableManager, target: TableTarget, branch: str) -> RefNotFoundError:
    staged_branches = ", ".join(write.branch for write in list_staged(manager, target)) or "none"
    name = str(identifier_of(target))
    msg = f"Table '{name}' has no staged write on a branch '{branch}'."
    return RefNotFoundError(msg, hint=f"Staged writes: {staged_branches}.", table=name)


def _staged(table: Table, branch: str) -> StagedWrite | None:
    """Describe the staged write on a branch; None if main has all of its snapshots."""
    published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    for snapshot in ref_history(table.metadata, branch):
        if snapshot.snapshot_id in published:
            return None
        summary = summary_of(snapshot)
        if _BRANCH in summary:
            return StagedWrite(
                table=name_of(table),
                branch=branch,
                snapshot_id=table.metadata.refs[branch].snapshot_id,
                timestamp_ms=written_at(snapshot),
                mode=WriteMode(summary[_MODE]),
                row_filter=summary.get(_FILTER),
                keys=parse_keys(summary.get(_KEYS, "")),
                columns=tuple(json.loads(summary.get(_COLUMNS, "[]"))),
                null_keys=NullKeys(summary[_NULL_KEYS]) if _NULL_KEYS in summary else None,
                partitions=partitions_of(summary),
                operation_id=summary[OPERATION_ID_PROPERTY],
                summary=dict(summary),
            )
    return None


def _drop_empty_branch(manager: IcebergTableManager, table: Table, branch: str) -> SnapshotInfo:
    """Remove a branch without a staged write."""
    if branch not in table.metadata.refs:
        raise ref_not_found(table, branch, kind="branch")
    published = {snapshot.snapshot_id for snapshot in ref_history(table.metadata)}
    if table.metadata.refs[branch].snapshot_id not in published:
        return manager.publish_branch(table, branch, remove=True)
    manager.remove_branch(table, branch)
    current = table.metadata.current_snapshot()
    return SnapshotInfo.of(current) if current else SnapshotInfo.nothing()


def _repeat(manager: IcebergTableManager, table: Table, staged: StagedWrite) -> str:
    """Repeat a staged write on a new branch at the current head of main, and remove the old branch."""
    first = staged.summary[_BRANCH]
    branch = f"{first}.redo{_number(staged.branch, first) + 1}"
    metadata = manager.load_table(table).metadata
    require_unread(metadata, metadata.current_snapshot_id, staged.summary, table=staged.table)
    if branch in metadata.refs:
        manager.remove_branch(table, branch)
    manager.create_branch(table, branch)
    mark = StagedMark(
        first,
        staged.mode,
        staged.row_filter,
        staged.keys,
        staged.columns,
        staged.null_keys,
        partitions=staged.partitions,
    )
    manager.write_data(
        table,
        staged_rows(manager, table, staged),
        staged.mode,
        keys=staged.keys or None,
        null_keys=staged.null_keys,
        overwrite_filter=staged.row_filter,
        operation_id=staged.operation_id,
        branch=branch,
        snapshot_properties={
            **_caller_properties(staged.summary),
            **mark.properties(),
            WRITTEN_PROPERTY: str(staged.timestamp_ms),
        },
    )
    manager.remove_branch(table, staged.branch)
    return branch


def _caller_properties(summary: dict[str, str]) -> dict[str, str]:
    """Return the snapshot properties that the caller of the write had set."""
    own = {key: value for key, value in summary.items() if key not in _MARK_PROPERTIES and key not in _COMPUTED}
    return {key: value for key, value in own.items() if not key.startswith("partitions.")}
