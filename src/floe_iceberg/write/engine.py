"""Exactly-once writes on the data plane.

An engine runs a write once, and its reply does not reliably say whether the write landed. floe therefore searches the
branch's history for the operation id before and after each attempt. Row-level operations write to a temporary branch;
floe then moves the target branch to the head of that branch, provided the target has not moved in the meantime.
"""

from __future__ import annotations

import contextlib
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.utils.concurrent import ExecutorFactory

from floe_core.dataplane import NullKeys, WriteKind, WriteRequest
from floe_core.errors import (
    CapabilityError,
    ClockSkewError,
    CommitStateUnknownError,
    ConcurrencyConflictError,
    InvalidDataError,
)
from floe_core.observing.metrics import timed_commit
from floe_iceberg.catalog.clocks import seconds_ahead, seconds_until_java_writes
from floe_iceberg.catalog.metadata_updates import RemoveSnapshots
from floe_iceberg.commit.branches import STAGING_PREFIX, operation_branch
from floe_iceberg.commit.engine import commit_metadata
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.commit.protocol import Backoff, Outcome, WriteScope, find_operation, require_branch
from floe_iceberg.commit.read_marks import continues_read, require_unread
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.names import name_of
from floe_iceberg.read.capabilities import require_known_partitions
from floe_iceberg.read.versions import ref_history
from floe_iceberg.table.refs import branch_at, ensure_snapshot
from floe_iceberg.table.schema import column_requests, require_compatible, stage_changes
from floe_iceberg.write.abandoned import clear_operations
from floe_iceberg.write.nullability import (
    BufferedStream,
    buffered_stream,
    make_optional,
    nullable_by_data,
    required_columns,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.read.predicates import RowPredicate

_ROW_LEVEL = {WriteKind.UPSERT, WriteKind.DELETE, WriteKind.OVERWRITE_FILTER}
_SAFE_ROW_LEVEL = {
    f"write.{operation}.{setting}": value
    for operation in ("delete", "update", "merge")
    for setting, value in (("mode", "copy-on-write"), ("isolation-level", "snapshot"))
}
_CHANGES = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")


@dataclass(frozen=True)
class EngineWrite:
    """A write to run on an engine."""

    kind: WriteKind
    data: object | None = None
    schema: pa.Schema | None = None
    keys: tuple[str, ...] = ()
    null_keys: NullKeys = NullKeys.REFUSE
    row_filter: RowPredicate | None = None
    kept: tuple[str, ...] = ()
    # Columns of a stream that are known to contain nulls.
    nulls: frozenset[str] = frozenset()


def write_on_engine(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    write: EngineWrite,
    scope: WriteScope,
    properties: Mapping[str, str],
    *,
    evolve: bool = True,
    loaded: Table | None = None,
) -> Outcome:
    """Run a write on the data plane exactly once.

    Args:
        context: The manager's context.
        target: The table.
        write: The write to run.
        scope: The operation id and branch that identify the write.
        properties: Properties to add to the snapshot summary.
        evolve: Whether to evolve the table's schema to fit the data.
        loaded: The table, if the caller has just loaded it.

    Raises:
        ConcurrencyConflictError: Other writers committed first on every attempt within the time budget.
        ClockSkewError: A writer's clock is so far ahead that the engine rejects the table for longer than the budget.
        CommitStateUnknownError: It is unknown whether the write landed.
    """
    table = loaded or context.load(target)
    require_branch(table, scope.branch)
    if found := find_operation(table.metadata, scope.operation_id, scope.branch):
        return Outcome(table, found, repeated=True)
    with ExitStack() as stack:
        if isinstance(write.data, pa.RecordBatchReader):
            # A write that loses a race is repeated, but a stream can be read only once.
            kept = stack.enter_context(buffered_stream(write.data, _candidates(table, write) if evolve else ()))
            write = replace(write, data=kept, nulls=kept.nulls)
        if write.schema is not None:
            table = _evolve(context, table, write, write.schema, evolve=evolve)
        try:
            return _run_write(context, table, write, scope, properties)
        except InvalidDataError as err:
            if not (evolve and err.nulls) or not _relax_null_columns(context, target, write):
                raise
        return _run_write(context, context.load(target), write, scope, properties)


def _run_write(
    context: ManagerContext, table: Table, write: EngineWrite, scope: WriteScope, properties: Mapping[str, str]
) -> Outcome:
    loop = _EngineLoop(context, table, write, scope, properties)
    if scope.branch is not None and scope.branch.startswith(STAGING_PREFIX):
        return loop.on_private_branch(table)
    if context.branches and (write.kind in _ROW_LEVEL or continues_read(properties)):
        return loop.on_branch()
    if write.kind in _ROW_LEVEL:
        _require_isolation(context, table)
    return loop.direct()


def _require_isolation(context: ManagerContext, target: TableTarget) -> None:
    """Make row-level operations safe on main, where no branch hides a partly lost write from readers."""

    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        missing = {key: value for key, value in _SAFE_ROW_LEVEL.items() if table.properties.get(key) != value}
        return Change((SetPropertiesUpdate(updates=missing),)) if missing else None

    commit_change(context, target, plan, what="the isolation level of row-level operations")


def is_readable(table: Table, snapshot: Snapshot) -> bool:
    """Whether every file that a snapshot added exists; a snapshot that only the engine can read counts as readable."""
    try:
        manifests = [m for m in snapshot.manifests(table.io) if m.added_snapshot_id == snapshot.snapshot_id]
        require_known_partitions(table, (manifest.partition_spec_id for manifest in manifests))
        added = [
            entry.data_file.file_path
            for manifest in manifests
            for entry in manifest.fetch_manifest_entry(table.io)
            if entry.status == ManifestEntryStatus.ADDED
        ]
        return all(ExecutorFactory.get_or_create().map(lambda path: table.io.new_input(path).exists(), added))
    except CapabilityError:
        return True
    except OSError:
        return False


def _evolve(context: ManagerContext, loaded: Table, write: EngineWrite, schema: pa.Schema, *, evolve: bool) -> Table:
    # The engine does not evolve schemas; every column must exist before it writes.
    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        # For an engine's frame, only columns of the null type are known to contain nothing but null.
        rows = write.data if isinstance(write.data, pa.Table) else schema.empty_table()
        relaxed = nullable_by_data(table, rows, kept=write.kept, known=write.nulls) if evolve else ()
        changes = require_compatible(table, schema, evolve=evolve, name=name_of(table), relaxed=relaxed)
        staged = stage_changes(table, changes)
        columns = column_requests(table, changes)
        return Change(staged.updates, staged.requirements, columns) if staged.updates else None

    return commit_change(context, loaded, plan, what="the schema change", loaded=loaded)


def _candidates(table: Table, write: EngineWrite) -> list[str]:
    """Return the required columns of a write that may become optional."""
    return [name for name in required_columns(table, write.kept) if write.schema and name in write.schema.names]


def _relax_null_columns(context: ManagerContext, target: TableTarget, write: EngineWrite) -> bool:
    """Make required columns optional where a frame has nulls, and return whether there were any.

    This runs only after the engine rejected the write, because it has to compute the frame.
    """
    plane, table = context.plane(), context.load(target)
    candidates = _candidates(table, write)
    if not candidates or not plane.accepts(write.data):
        return False
    relaxed = make_optional(plane.columns_with_nulls(write.data, candidates))

    def plan(table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        left = [change for change in relaxed if table.schema().find_field(change.column).required]
        staged = stage_changes(table, left)
        return Change(staged.updates, staged.requirements, column_requests(table, left)) if left else None

    if relaxed:
        commit_change(context, target, plan, what="the schema change")
    return bool(relaxed)


def changes_anything(snapshot: Snapshot) -> bool:
    """Whether a snapshot adds or removes any file."""
    summary = summary_of(snapshot)
    return any(key in summary for key in _CHANGES)


class _EngineLoop:
    """The attempts of one write on an engine."""

    def __init__(
        self,
        context: ManagerContext,
        target: TableTarget,
        write: EngineWrite,
        scope: WriteScope,
        properties: Mapping[str, str],
    ) -> None:
        self._context = context
        self._target = target
        self._write = write
        self._scope = scope
        self._properties = properties
        self._plane: DataPlane = context.plane()
        self._backoff = Backoff(context.config.commit_timeout_seconds)

    def direct(self) -> Outcome:
        """Write directly to the target branch, and retry when the engine's own retries lost to another writer."""
        branch = self._scope.branch
        while True:
            table = self._load()
            before = self._head(table, branch)
            self._require_unread(table, before)
            self._await_clock(table)
            try:
                table = self._run(branch, before)
            except ConcurrencyConflictError:
                if not self._backoff.wait():
                    raise
                continue
            found = find_operation(table.metadata, self._scope.operation_id, branch)
            if found is None or is_readable(table, found):
                return Outcome(table, found or self._new_head(table, branch, before))
            # The engine mistook its own landed commit for a conflict and deleted that commit's files.
            self._context.logger.warning("snapshot files missing", snapshot_id=found.snapshot_id)
            self._set_ref(table, branch or MAIN_BRANCH, found.parent_snapshot_id, expected=found.snapshot_id)

    def _new_head(self, table: Table, branch: str | None, before: int | None) -> Snapshot | None:
        """Return the branch's head if it moved: an engine's metadata-only delete does not record the operation id."""
        head = self._head(table, branch)
        return table.snapshot_by_id(head) if head is not None and head != before else None

    def on_private_branch(self, table: Table) -> Outcome:
        """Write to a branch without other writers: check the engine's snapshot; there are no conflicts to handle."""
        branch, base = self._scope.branch, self._head(table, self._scope.branch)
        self._require_unread(table, base)
        while True:
            self._await_clock(table)
            try:
                table = self._run(branch, base)
            except ConcurrencyConflictError:
                if not self._backoff.wait():
                    raise
                table = self._load()
                continue
            created = self._new_head(table, branch, base)
            if created is None:
                return Outcome(table, None)
            # A killed driver's write may have landed in between, and publishing would include both.
            complete = created.parent_snapshot_id == base and is_readable(table, created)
            if complete and changes_anything(created):
                return Outcome(table, created)
            table = self._set_ref(table, branch or MAIN_BRANCH, base, expected=created.snapshot_id)
            if complete:
                # A delete that matched nothing.
                return Outcome(table, None)
            if not self._backoff.wait():
                name = str(identifier_of(self._target))
                msg = f"Spark's writes to table '{name}' were incomplete (attempts: {self._backoff.tries})."
                raise ConcurrencyConflictError(msg, hint="Try again.", table=name)

    def on_branch(self) -> Outcome:
        """Write to the operation's temporary branch and publish it."""
        table = ensure_snapshot(self._context, self._load())
        clear_operations(self._context, table)
        while True:
            outcome = self._attempt_on_branch()
            if outcome is not None:
                return outcome
            if not self._backoff.wait():
                name, tries = str(identifier_of(self._target)), self._backoff.tries
                msg = f"The commit to table '{name}' conflicted with other writers (attempts: {tries})."
                msg = f"{msg} Nothing was written."
                raise ConcurrencyConflictError(msg, hint="Try again, or raise commit_timeout_seconds.", table=name)

    def _attempt_on_branch(self) -> Outcome | None:
        table = self._load()
        if found := find_operation(table.metadata, self._scope.operation_id, self._scope.branch):
            return Outcome(table, found, repeated=True)
        self._await_clock(table)
        base = self._head(table, self._scope.branch)
        self._require_unread(table, base)
        branch = operation_branch(self._scope.operation_id, self._backoff.tries)
        try:
            self._set_ref(table, branch, base, expected=self._head(table, branch))
            table = self._run(branch, base)
            head = self._head(table, branch)
            if head == base:
                return Outcome(table, None)
            created = table.snapshot_by_id(head) if head is not None else None
            if created is None or not is_readable(table, created):
                return None
            # An engine also commits a delete that matched no rows.
            return self._publish(table, created, base) if changes_anything(created) else Outcome(table, None)
        except (ConcurrencyConflictError, CommitFailedException):
            return None
        except CommitStateUnknownException:
            # It is unknown whether the branch was created. The next attempt uses another name.
            return None
        finally:
            self._remove(branch)

    def _publish(self, table: Table, created: Snapshot, base: int | None) -> Outcome | None:
        """Move the target branch to the new snapshot; return None if the branch has moved in the meantime."""
        try:
            self._set_ref(table, self._scope.branch or MAIN_BRANCH, created.snapshot_id, expected=base)
        except CommitFailedException:
            self._context.logger.info("publish conflict", table=str(identifier_of(self._target)))
            return None
        except CommitStateUnknownException as err:
            raise self._unknown() from err
        return Outcome(self._load(), created)

    def _require_unread(self, table: Table, head: int | None) -> None:
        require_unread(table.metadata, head, self._properties, table=str(identifier_of(self._target)))

    def _await_clock(self, table: Table) -> None:
        """Wait until the engine will accept the table's timestamps; otherwise its work would be discarded."""
        seconds, name = seconds_until_java_writes(table.metadata), str(identifier_of(self._target))
        if seconds > self._context.config.commit_timeout_seconds:
            ahead = f"{seconds_ahead(table.metadata):.0f} s ahead"
            msg = f"The last writer to table '{name}' has a clock that is {ahead}; nothing was written."
            hint = f"Synchronize the clocks of all writers (NTP). The engine accepts the table in {seconds:.0f} s."
            raise ClockSkewError(msg, hint=hint, table=name)
        if seconds:
            self._context.logger.warning("waiting for a clock that is ahead", table=name, seconds=round(seconds, 1))
            time.sleep(seconds)

    def _run(self, branch: str | None, before: int | None) -> Table:
        """Run the write on the engine and reload the table; after an error, check whether the write landed."""
        data = self._write.data
        request = WriteRequest(
            table=str(identifier_of(self._target)),
            kind=self._write.kind,
            data=data.reader() if isinstance(data, BufferedStream) else data,
            row_filter=self._write.row_filter,
            keys=self._write.keys,
            null_keys=self._write.null_keys,
            branch=None if branch in {None, MAIN_BRANCH} else branch,
            snapshot_properties=self._properties,
        )
        with (
            self._context.traced(
                "iceberg.engine_write", table=request.table, kind=request.kind.value, branch=request.branch
            ) as operation,
            timed_commit(request.table, conflict=ConcurrencyConflictError, engine=self._plane.name) as timer,
        ):
            try:
                self._plane.write(request)
            except Exception:
                # The driver or its reply was lost: the write may still be running and may still land.
                self._plane.await_quiet(self._scope.operation_id)
                landed = find_operation(self._load().metadata, self._scope.operation_id, branch)
                if landed is None:
                    raise
                self._context.logger.info("write landed despite an error", snapshot_id=landed.snapshot_id)
            timer.stop()
            table = self._load()
            found = find_operation(table.metadata, self._scope.operation_id, branch)
            if created := found or self._new_head(table, branch, before):
                summary = summary_of(created)
                operation.set(
                    snapshot_id=created.snapshot_id,
                    num_rows=int(summary.get("added-records", 0)),
                    bytes=int(summary.get("added-files-size", 0)),
                )
            else:
                timer.outcome = None
        return table

    def _load(self) -> Table:
        return self._context.load(self._target)

    @staticmethod
    def _head(table: Table, branch: str | None) -> int | None:
        ref = table.metadata.refs.get(branch or MAIN_BRANCH)
        return ref.snapshot_id if ref else None

    def _set_ref(self, table: Table, name: str, snapshot_id: int | None, *, expected: int | None) -> Table:
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
        )
        return commit_metadata(self._context, table, requirements, (branch_at(table, name, snapshot_id),))

    def _remove(self, branch: str) -> None:
        """Remove the operation's branch and the snapshots that only this branch references."""
        # Failure is harmless: a leftover branch only retains its snapshots until it is removed.
        with contextlib.suppress(Exception):
            table = self._load()
            metadata = table.metadata
            if branch not in metadata.refs:
                return
            shared = {s.snapshot_id for name in metadata.refs if name != branch for s in ref_history(metadata, name)}
            own = [s.snapshot_id for s in ref_history(metadata, branch) if s.snapshot_id not in shared]
            updates: tuple[TableUpdate, ...] = (RemoveSnapshotRefUpdate(ref_name=branch),)
            if own:
                updates += (RemoveSnapshots(snapshot_ids=own),)
            # Otherwise a ref that has since moved to one of these snapshots would be removed with it.
            requirements: tuple[TableRequirement, ...] = (
                AssertTableUUID(uuid=metadata.table_uuid),
                *(AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in metadata.refs.items()),
            )
            commit_metadata(self._context, table, requirements, updates)

    def _unknown(self) -> CommitStateUnknownError:
        name, operation_id = str(identifier_of(self._target)), self._scope.operation_id
        msg = f"The catalog did not confirm whether the write to '{name}' landed; no files were deleted."
        hint = f"Retry with operation_id='{operation_id}': it writes only if the first attempt did not land."
        return CommitStateUnknownError(msg, operation_id=operation_id, hint=hint, table=name)
