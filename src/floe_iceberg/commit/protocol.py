"""The one way a change becomes part of a table.

Every change is a list of updates and requirements for one ``commit_table`` call. A snapshot is always added under the
requirement that its branch still stands where the work began, so of all attempts of one operation at most one can
land. From that follow the rules here:

- A conflict means: load the table again, look for the operation's id on the branch, and only then try again, after
  a fully jittered wait, until the operation's time is up.
- An answer that leaves doubt means: look for the operation's id. Found, it is a success. Not found, the caller is told
  that nobody knows, and no file is deleted.
- The manifests of a lost attempt are deleted once the branch was seen to have moved past where the attempt began:
  from then on that attempt can never land. Data files are deleted only when every attempt is lost in that sense.
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
from floe_iceberg.catalog.clocks import clocked
from floe_iceberg.commit.own_files import is_collected
from floe_iceberg.commit.own_places import own_files
from floe_iceberg.models import SnapshotInfo
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
    """Return an id for an operation nobody named."""
    return str(uuid.uuid4())


@dataclass(frozen=True)
class Staged:
    """Updates that are worked out and not committed.

    Attributes:
        updates: What the commit changes.
        requirements: What must still hold for it.
        metadata: The table's metadata with the updates applied.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    metadata: TableMetadata


class _Recorder(NoopCatalog):
    """Takes a commit down instead of carrying it out."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.staged: Staged | None = None

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        metadata = update_table_metadata(table.metadata, clocked(updates))
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
    """One try at a commit.

    Attributes:
        updates: What the commit changes.
        requirements: What must still hold for it.
        snapshot: The snapshot it adds.
        parent_id: Where the branch stood.
        files: Metadata files that only this attempt refers to.
    """

    updates: tuple[TableUpdate, ...]
    requirements: tuple[TableRequirement, ...]
    snapshot: Snapshot
    parent_id: int | None
    files: tuple[str, ...] = ()


class PreparedWrite(Protocol):
    """A write that can build its commit on any state of the table."""

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit on top of the table as it is; None when nothing would change."""
        ...

    def discard(self, io: FileIO) -> None:
        """Delete every file the write has made; called only when nothing can refer to them."""
        ...


@dataclass
class Outcome:
    """How a write ended.

    Attributes:
        table: The table after it.
        snapshot: The snapshot it made, or found; None when nothing changed.
        repeated: Whether an earlier write of the same id had done the work.
    """

    table: Table
    snapshot: Snapshot | None
    repeated: bool = False


@dataclass
class Backoff:
    """Capped, fully jittered waits within a budget of time."""

    budget_seconds: float
    started: float = field(default_factory=time.monotonic)
    tries: int = 0

    def wait(self) -> bool:
        """Sleep before the next try; False when the time is up."""
        left = self.budget_seconds - (time.monotonic() - self.started)
        if left <= 0:
            return False
        ceiling = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** min(self.tries, 16))
        self.tries += 1
        time.sleep(min(left, random.uniform(0, ceiling)))  # noqa: S311 - jitter needs no cryptography
        return True


def find_operation(metadata: TableMetadata, operation_id: str, branch: str | None = None) -> Snapshot | None:
    """Return the last snapshot an operation made on a branch."""
    for snapshot in ref_history(metadata, branch):
        if snapshot.summary and snapshot.summary.additional_properties.get(OPERATION_ID_PROPERTY) == operation_id:
            return snapshot
    return None


def require_branch(table: Table, branch: str | None) -> None:
    """Make sure a write's target branch is there and is no tag.

    Raises:
        RefNotFoundError: No such branch.
    """
    if branch is None or branch == MAIN_BRANCH:
        return
    ref = table.metadata.refs.get(branch)
    if ref is None or ref.snapshot_ref_type is not SnapshotRefType.BRANCH:
        branches = [
            name for name, ref in table.metadata.refs.items() if ref.snapshot_ref_type is SnapshotRefType.BRANCH
        ]
        name = ".".join(table.name())
        msg = f"Table '{name}' has no branch '{branch}'."
        hint = f"Branches there: {', '.join(sorted(branches)) or 'none'}. Create it with create_branch()."
        raise RefNotFoundError(msg, hint=hint, table=name)


@dataclass(frozen=True)
class WriteScope:
    """What makes a write findable.

    Attributes:
        operation_id: The id its snapshot carries.
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
    """Carry out a write, exactly once; ``loaded`` is the table as the caller has just loaded it.

    Raises:
        ConcurrencyConflictError: Others won every race within the budget; nothing was written.
        CommitStateUnknownError: Nobody can tell whether the commit landed; no file was deleted.
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
        self._lost: list[CommitAttempt] = []
        self._may_have_landed = False
        self._refused: tuple[str, ...] = ()
        self._uuid = table.metadata.table_uuid

    def run(self) -> Outcome:
        backoff = Backoff(self._context.config.commit_timeout_seconds)
        try:
            while True:
                if (outcome := self._once()) is not None:
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

    def _once(self) -> Outcome | None:
        """Try once; None when another writer was first."""
        table, branch = self._table, self._scope.branch
        require_branch(table, branch)
        if self._scope.may_be_repeated or self._lost:
            found = find_operation(table.metadata, self._scope.operation_id, branch)
            if found is not None:
                return self._already_done(found)
        require_writable(table)
        attempt = self._prepared.attempt(table)
        if attempt is None:
            return Outcome(table, None)
        before = table.metadata
        if not self._commit(attempt):
            self._context.logger.debug("commit conflict", table=".".join(table.name()), attempt=len(self._lost))
            return None
        landed = table.metadata.snapshot_by_id(attempt.snapshot.snapshot_id) or attempt.snapshot
        discard_files(table.io, self._left_over(attempt, landed))
        delete_old_metadata(self._context, table, before)
        return Outcome(table, landed)

    def _left_over(self, last: CommitAttempt, landed: Snapshot) -> set[str]:
        """Return the files of attempts that did not land; attempts share a snapshot id, not a manifest list."""
        attempts = [*self._lost, last]
        kept = {
            path
            for attempt in attempts
            if attempt.snapshot.manifest_list == landed.manifest_list
            for path in attempt.files
        }
        return {path for attempt in attempts for path in attempt.files} - kept if kept else set()

    def _commit(self, attempt: CommitAttempt) -> bool:
        """Commit an attempt and bring the table up to date; False when another writer was first."""
        self._may_have_landed = True
        try:
            response = self._context.catalog.commit_table(self._table, attempt.requirements, attempt.updates)
        except CommitFailedException:
            self._lost.append(attempt)
            self._may_have_landed = False
            return False
        except CommitStateUnknownException as err:
            response = _find_landed(self._context, self._table, self._scope, err)
        except Exception:
            # The catalog has looked already: this did not land.
            self._may_have_landed = False
            self._refused = attempt.files
            raise
        self._table.metadata, self._table.metadata_location = response.metadata, response.metadata_location
        return True

    def _already_done(self, found: Snapshot) -> Outcome:
        # An attempt that was taken for lost may have landed: that is this call's work. Attempts share a snapshot's id.
        ours = any(attempt.snapshot.snapshot_id == found.snapshot_id for attempt in self._lost)
        if not ours:
            # Another call of the same id did the work, so nothing refers to the files this one has written.
            self._clean_up()
        return Outcome(self._table, found, repeated=not ours)

    def _require_same_table(self) -> None:
        """Refuse a new table of the same name: its columns may have the numbers of other ones in the files."""
        if self._table.metadata.table_uuid != self._uuid:
            name = ".".join(self._table.name())
            msg = f"Table '{name}' was dropped and created anew while it was written to; nothing was written."
            raise ConcurrencyConflictError(msg, hint="Start the write again if the new table is meant.", table=name)

    def _give_up(self) -> None:
        name, tries = ".".join(self._table.name()), len(self._lost)
        msg = f"Other writers to table '{name}' were faster {tries} times; nothing was written."
        raise ConcurrencyConflictError(msg, hint="Try again, or raise commit_timeout_seconds.", table=name)

    def _clean_up(self) -> None:
        if self._may_have_landed:
            # Or has landed: an interrupt after the commit must not take the table's files.
            return
        metadata = self._table.metadata
        replaced = metadata.table_uuid != self._uuid
        dead = replaced or all(_dead(attempt, metadata, self._scope.branch) for attempt in self._lost)
        if dead:
            discard_files(self._table.io, {*self._refused, *(path for attempt in self._lost for path in attempt.files)})
            self._prepared.discard(self._table.io)


def _find_landed(context: ManagerContext, table: Table, scope: WriteScope, err: Exception) -> CommitTableResponse:
    operation_id, branch = scope.operation_id, scope.branch
    name = ".".join(table.name())
    try:
        current = context.catalog.load_table(table.name())
        if found := find_operation(current.metadata, operation_id, branch):
            found.manifests(current.io)
            return CommitTableResponse(metadata=current.metadata, metadata_location=current.metadata_location)
    except Exception:  # noqa: BLE001 - a table that cannot be looked at leaves the outcome unknown
        context.logger.warning("outcome unknown", table=name, operation_id=operation_id)
    msg = f"The catalog gave no answer that tells whether the write to '{name}' landed; nothing was deleted."
    hint = f"Repeat the call with operation_id='{operation_id}': it writes only if the first try did not land."
    raise CommitStateUnknownError(msg, operation_id=operation_id, hint=hint, table=name) from err


def _dead(attempt: CommitAttempt, metadata: TableMetadata, branch: str | None) -> bool:
    """Whether an attempt can never land: its branch has moved on, without its snapshot."""
    ref = metadata.refs.get(branch or MAIN_BRANCH)
    head = ref.snapshot_id if ref else None
    return head != attempt.parent_id and metadata.snapshot_by_id(attempt.snapshot.snapshot_id) is None


def discard_files(io: FileIO, paths: Iterable[str]) -> None:
    """Delete files that no table refers to, as far as the store lets it."""
    for path in paths:
        # A file that stays is an orphan for the next sweep, no reason to fail a write.
        with contextlib.suppress(Exception):
            io.delete(path)


def delete_old_metadata(context: ManagerContext, table: Table, before: TableMetadata) -> None:
    """Delete the metadata files that a commit dropped from the log, when the table's properties ask for it."""
    after = table.metadata
    if after.properties.get(_DELETE_OLD, "false").lower() == "true" and is_collected(after.properties):
        kept = {entry.metadata_file for entry in after.metadata_log}
        dropped = [entry.metadata_file for entry in before.metadata_log if entry.metadata_file not in kept]
        # A registered table brings the log of another one along. What is in question is left to a sweep: a commit does
        # not open all other tables.
        if dropped:
            discard_files(table.io, own_files(context, table, search=False).split(dropped)[0])


def describe(outcome: Outcome) -> SnapshotInfo:
    """Describe the snapshot a write made, or the current one when it had nothing to change."""
    snapshot = outcome.snapshot or outcome.table.current_snapshot()
    return SnapshotInfo.of(snapshot) if snapshot else SnapshotInfo.nothing()
