"""Commit protocol: adds a snapshot to a branch exactly once.

Every change is a list of updates and requirements for one ``commit_table`` call. A snapshot is always added with the
requirement that its branch has not moved since the attempt began, so at most one attempt of an operation can land. The
rules follow from this:

- After a conflict: reload the table, search the branch for the operation id, and only then retry, after a fully
  jittered wait, until the operation's time budget is used up.
- After an ambiguous reply: search for the operation id. If it is found, the commit succeeded. If not, the caller gets
  a CommitStateUnknownError, and no files are deleted.
- The manifests of a failed attempt are deleted once the branch has moved past the attempt's parent, because from then
  on the attempt can never land. Data files are deleted only if this holds for every attempt.
"""

from __future__ import annotations

import contextlib
import random
import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import update_table_metadata

from floe_core.dataplane import OPERATION_ID_PROPERTY
from floe_core.errors import CommitStateUnknownError, ConcurrencyConflictError, RefNotFoundError
from floe_iceberg.catalog.clocks import with_monotonic_timestamps
from floe_iceberg.commit.file_ownership import own_files
from floe_iceberg.commit.own_files import is_collected
from floe_iceberg.models import SnapshotInfo
from floe_iceberg.names import name_of
from floe_iceberg.read.capabilities import require_writable
from floe_iceberg.read.versions import ref_history

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from floe_iceberg.context import ManagerContext, TableTarget

_FIRST_WAIT = 0.01
_LONGEST_WAIT = 2.0
_DELETE_OLD = "write.metadata.delete-after-commit.enabled"


def new_operation_id() -> str:
    """Return an id for an operation without an id from the caller."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Staged:
    """Updates that are prepared but not committed.

    Attributes:
        updates: Updates to commit.
        requirements: Requirements that must still be met.
        metadata: The table's metadata with the updates applied.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    metadata: TableMetadata


class _Recorder(NoopCatalog):
    """Catalog that records a commit instead of applying it."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.staged: Staged | None = None

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        metadata = update_table_metadata(table.metadata, with_monotonic_timestamps(updates))
        self.staged = Staged(updates, requirements, metadata)
        return CommitTableResponse(metadata=metadata, metadata_location=table.metadata_location)


def stage(table: Table, edit: Callable[[Transaction], object]) -> Staged:
    """Run an edit on a transaction of the table and return its updates without committing them."""
    recorder = _Recorder()
    draft = Table(table.name(), table.metadata, table.metadata_location, table.io, recorder)
    with draft.transaction() as transaction:
        edit(transaction)
    return recorder.staged or Staged((), (), table.metadata)


@dataclass(frozen=True)
class CommitAttempt:
    """One attempt at a commit.

    Attributes:
        updates: Updates to commit.
        requirements: Requirements that must still be met.
        snapshot: The snapshot it adds.
        parent_id: Head of the branch when the attempt began.
        files: Metadata files that only this attempt references.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    snapshot: Snapshot
    parent_id: int | None
    files: tuple[str, ...] = ()


class PreparedWrite(Protocol):
    """A write that can build its commit on any version of the table."""

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit on top of the current table; return None if nothing would change."""
        ...

    def discard(self, io: FileIO) -> None:
        """Delete every file that the write created; called only when nothing can reference them."""
        ...


@dataclass
class Outcome:
    """Result of a write.

    Attributes:
        table: The table after the write.
        snapshot: The snapshot that the write created or found; None if nothing changed.
        repeated: Whether an earlier write with the same id had already landed.
    """

    table: Table
    snapshot: Snapshot | None
    repeated: bool = False


@dataclass
class Backoff:
    """Capped, fully jittered waits within a time budget."""

    budget_seconds: float
    started: float = field(default_factory=time.monotonic)
    tries: int = 0

    def wait(self) -> bool:
        """Sleep before the next attempt; return False if the budget is used up."""
        left = self.budget_seconds - (time.monotonic() - self.started)
        if left <= 0:
            return False
        ceiling = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.tries, 16))
        self.tries += 1
        time.sleep(min(left, random.uniform(0, ceiling)))  # noqa: S311 - jitter needs no cryptography
        return True


def find_operation(metadata: TableMetadata, operation_id: str, branch: str | None = None) -> Snapshot | None:
    """Return the newest snapshot that an operation created on a branch."""
    for snapshot in ref_history(metadata, branch):
        if snapshot.summary and snapshot.summary.additional_properties.get(OPERATION_ID_PROPERTY) == operation_id:
            return snapshot
    return None


def require_branch(table: Table, branch: str | None) -> None:
    """Require that a write's target branch exists and is not a tag.

    Raises:
        RefNotFoundError: The branch does not exist.
    """
    if branch is None or branch == MAIN_BRANCH:
        return
    ref = table.metadata.refs.get(branch)
    if ref is None or ref.snapshot_ref_type is not SnapshotRefType.BRANCH:
        branches = [
            name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type is SnapshotRefType.BRANCH
        ]
        name = name_of(table)
        msg = f"Table '{name}' has no branch '{branch}'."
        hint = f"Existing branches: {', '.join(sorted(branches)) or 'none'}. Create it with create_branch()."
        raise RefNotFoundError(msg, hint=hint, table=name)


@dataclass(frozen=True)
class WriteScope:
    """Operation id and branch that identify a write.

    Attributes:
        operation_id: The id stored in the snapshot summary.
        branch: Target branch, None for main.
        may_be_repeated: Whether the id may be in the history before the first attempt.
    """

    operation_id: str
    branch: str | None = None
    may_be_repeated: bool = field(kw_only=True)


def commit(
    context: ManagerContext,
    target: TableTarget,
    prepared: PreparedWrite,
    scope: WriteScope,
    *,
    loaded: Table | None = None,
) -> Outcome:
    """Commit a write exactly once; ``loaded`` is the table, if the caller has just loaded it.

    Raises:
        ConcurrencyConflictError: Other writers committed first on every attempt; nothing was written.
        CommitStateUnknownError: It is unknown whether the commit landed; no files were deleted.
    """
    return _CommitLoop(context, target, prepared, scope, loaded or context.load(target)).run()


class _CommitLoop:
    """The attempts of one write."""

    def __init__(
        self,
        context: ManagerContext,
        target: TableTarget,
        prepared: PreparedWrite,
        scope: WriteScope,
        table: Table,
    ) -> None:
        self._context = context
        self._target = target
        self._prepared = prepared
        self._scope = scope
        self._table = table
        self._failed: list[CommitAttempt] = []
        self._may_have_landed = False
        self._rejected_files: tuple[str, ...] = ()
        self._uuid = table.metadata.table_uuid

    def run(self) -> Outcome:
        backoff = Backoff(self._context.config.commit_timeout_seconds)
        try:
            while True:
                if (outcome := self._attempt_once()) is not None:
                    return outcome
                waited = backoff.wait()
                self._table = self._context.load(self._target)
                self._require_same_table()
                if not waited:
                    self._give_up()
        except CommitStateUnknownError:
            raise
        except BaseException:
            self._clean_up()
            raise

    def _attempt_once(self) -> Outcome | None:
        """Make one attempt; return None if another writer committed first."""
        table, branch = self._table, self._scope.branch
        require_branch(table, branch)
        if self._scope.may_be_repeated or self._failed:
            found = find_operation(table.metadata, self._scope.operation_id, branch)
            if found is not None:
                return self._already_done(found)
        require_writable(table)
        attempt = self._prepared.attempt(table)
        if attempt is None:
            return Outcome(table, None)
        before = table.metadata
        if not self._commit(attempt):
            self._context.logger.debug("commit conflict", table=name_of(table), attempt=len(self._failed))
            return None
        landed = table.metadata.snapshot_by_id(attempt.snapshot.snapshot_id) or attempt.snapshot
        discard_files(table.io, self._leftover_files(attempt, landed))
        delete_old_metadata(self._context, table, before)
        return Outcome(table, landed)

    def _leftover_files(self, last: CommitAttempt, landed: Snapshot) -> set[str]:
        """Return the files of attempts that did not land; attempts share a snapshot id but not a manifest list."""
        attempts = [*self._failed, last]
        kept = {
            path
            for attempt in attempts
            if attempt.snapshot.manifest_list == landed.manifest_list
            for path in attempt.files
        }
        return {path for attempt in attempts for path in attempt.files} - kept if kept else set()

    def _commit(self, attempt: CommitAttempt) -> bool:
        """Commit an attempt and update the table; return False if another writer committed first."""
        self._may_have_landed = True
        try:
            response = self._context.catalog.commit_table(self._table, attempt.requirements, attempt.updates)
        except CommitFailedException:
            self._failed.append(attempt)
            self._may_have_landed = False
            return False
        except CommitStateUnknownException as err:
            response = _find_landed(self._context, self._table, self._scope, err)
        except Exception:
            # The catalog has already checked: this attempt did not land.
            self._may_have_landed = False
            self._rejected_files = attempt.files
            raise
        self._table.metadata, self._table.metadata_location = response.metadata, response.metadata_location
        return True

    def _already_done(self, found: Snapshot) -> Outcome:
        # An attempt that seemed to fail may have landed; it has the snapshot id that all attempts share.
        ours = any(attempt.snapshot.snapshot_id == found.snapshot_id for attempt in self._failed)
        if not ours:
            # Another call with the same id did the write, so nothing references the files of this call.
            self._clean_up()
        return Outcome(self._table, found, repeated=not ours)

    def _require_same_table(self) -> None:
        """Reject a new table of the same name: its field ids may mean other columns than those in the files."""
        if self._table.metadata.table_uuid != self._uuid:
            name = name_of(self._table)
            msg = f"Table '{name}' was dropped and recreated during the write; nothing was written."
            raise ConcurrencyConflictError(msg, hint="To write to the new table, restart the write.", table=name)

    def _give_up(self) -> None:
        name, tries = name_of(self._table), len(self._failed)
        msg = f"The commit to table '{name}' conflicted with other writers (attempts: {tries}). Nothing was written."
        raise ConcurrencyConflictError(msg, hint="Try again, or raise commit_timeout_seconds.", table=name)

    def _clean_up(self) -> None:
        if self._may_have_landed:
            # An interrupt after a commit that landed must not delete the table's files.
            return
        metadata = self._table.metadata
        replaced = metadata.table_uuid != self._uuid
        unreachable = replaced or all(
            _can_never_land(attempt, metadata, self._scope.branch) for attempt in self._failed
        )
        if unreachable:
            discard_files(
                self._table.io, {*self._rejected_files, *(path for attempt in self._failed for path in attempt.files)}
            )
            self._prepared.discard(self._table.io)


def _find_landed(context: ManagerContext, table: Table, scope: WriteScope, err: Exception) -> CommitTableResponse:
    operation_id, branch = scope.operation_id, scope.branch
    name = name_of(table)
    try:
        current = context.catalog.load_table(table.name())
        if found := find_operation(current.metadata, operation_id, branch):
            found.manifests(current.io)
            return CommitTableResponse(metadata=current.metadata, metadata_location=current.metadata_location)
    except Exception:  # noqa: BLE001 - if the table cannot be read, the outcome is unknown
        context.logger.warning("outcome unknown", table=name, operation_id=operation_id)
    msg = f"The catalog did not confirm whether the write to '{name}' landed; no files were deleted."
    hint = f"Retry with operation_id='{operation_id}': it writes only if the first attempt did not land."
    raise CommitStateUnknownError(msg, operation_id=operation_id, hint=hint, table=name) from err


def _can_never_land(attempt: CommitAttempt, metadata: TableMetadata, branch: str | None) -> bool:
    """Whether an attempt can never land: its branch has moved, and the table does not have its snapshot."""
    ref = metadata.refs.get(branch or MAIN_BRANCH)
    head = ref.snapshot_id if ref else None
    return head != attempt.parent_id and metadata.snapshot_by_id(attempt.snapshot.snapshot_id) is None


def discard_files(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that no table references, and ignore failures."""
    for path in paths:
        # A failed deletion leaves an orphan file for the next cleanup; it must not fail the write.
        with contextlib.suppress(Exception):
            io.delete(path)


def delete_old_metadata(context: ManagerContext, table: Table, before: TableMetadata) -> None:
    """Delete the metadata files that a commit dropped from the log, if the table's properties enable it."""
    after = table.metadata
    if after.properties.get(_DELETE_OLD, "false").lower() == "true" and is_collected(after.properties):
        kept = {entry.metadata_file for entry in after.metadata_log}
        dropped = [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept]
        # The log of a registered table may contain files of another table. Files of unclear ownership are left to the
        # orphan cleanup, because a commit must not load all other tables.
        if dropped:
            discard_files(table.io, own_files(context, table, search=False).split(dropped)[0])


def describe(outcome: Outcome) -> SnapshotInfo:
    """Describe the snapshot that a write created, or the current one if nothing changed."""
    snapshot = outcome.snapshot or outcome.table.current_snapshot()
    return SnapshotInfo.of(snapshot) if snapshot else SnapshotInfo.nothing()
