"""Writes on the data plane, under the same promise: exactly once, or an error that says what is known.

An engine works once and cannot be trusted to tell how it ended. Before and after each try the branch's history is
searched for the operation's id. Row-level operations go to a branch of their own, and floe moves the target branch to
its head, provided nobody has moved it meanwhile.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
)

from floe_core.dataplane import WriteKind, WriteRequest
from floe_core.errors import CommitStateUnknownError, ConcurrencyConflictError
from floe_iceberg.commits import Backoff, Outcome, WriteScope, find_operation, require_branch
from floe_iceberg.context import identifier_of
from floe_iceberg.metadata_commits import Change, commit_change
from floe_iceberg.schema import require_fit, stage_changes
from floe_iceberg.snapshots import ensure_snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext, TableTarget

_ROW_LEVEL = {WriteKind.UPSERT, WriteKind.DELETE, WriteKind.OVERWRITE_FILTER}
_BRANCH_PREFIX = "floe.operation."


@dataclass(frozen=True)
class EngineWrite:
    """What the engine is asked to write."""

    kind: WriteKind
    data: object | None = None
    schema: pa.Schema | None = None
    keys: tuple[str, ...] = ()
    row_filter: str | None = None


def write_on_engine(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    write: EngineWrite,
    scope: WriteScope,
    properties: Mapping[str, str],
    *,
    evolve: bool = True,
) -> Outcome:
    """Carry out a write on the data plane, exactly once.

    Raises:
        ConcurrencyConflictError: Others won every race within the budget.
        CommitStateUnknownError: Nobody can tell whether the write landed.
    """
    table = context.load(target)
    require_branch(table, scope.branch)
    if found := find_operation(table.metadata, scope.operation_id, scope.branch):
        return Outcome(table, found, repeated=True)
    if write.schema is not None:
        _evolve(context, target, write.schema, evolve=evolve)
    loop = _EngineLoop(context, target, write, scope, properties)
    return loop.on_branch() if write.kind in _ROW_LEVEL and context.branches else loop.direct()


def _evolve(context: ManagerContext, target: TableTarget, schema: pa.Schema, *, evolve: bool) -> None:
    # The engine does not change schemas on its own; every column must be there before it writes.
    def plan(table: Table, _doubtful: bool) -> Change | None:  # noqa: FBT001 - the plan's signature
        changes = require_fit(table, schema, evolve=evolve, name=".".join(table.name()))
        staged = stage_changes(table, changes)
        return Change(staged.updates, staged.requirements) if staged.updates else None

    commit_change(context, target, plan, what="the change of schema")


class _EngineLoop:
    """The tries of one write on an engine."""

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
        """Write to the target branch itself; Iceberg's own retry settles races between appends."""
        before = self._head(self._load(), self._scope.branch)
        self._run(self._scope.branch)
        table = self._load()
        found = find_operation(table.metadata, self._scope.operation_id, self._scope.branch)
        if found is None and self._head(table, self._scope.branch) == before:
            return Outcome(table, None)
        return Outcome(table, found)

    def on_branch(self) -> Outcome:
        """Write to a branch of the operation's own and publish it."""
        if self._load().metadata.current_snapshot() is None:
            ensure_snapshot(self._context, self._target)
        while True:
            outcome = self._once_on_branch()
            if outcome is not None:
                return outcome
            if not self._backoff.wait():
                name = str(identifier_of(self._target))
                msg = f"Other writers to table '{name}' were faster {self._backoff.tries} times; nothing was written."
                raise ConcurrencyConflictError(msg, hint="Try again, or raise commit_timeout_seconds.", table=name)

    def _once_on_branch(self) -> Outcome | None:
        table = self._load()
        if found := find_operation(table.metadata, self._scope.operation_id, self._scope.branch):
            return Outcome(table, found, repeated=True)
        base = self._head(table, self._scope.branch)
        branch = self._own_branch(self._backoff.tries)
        self._set_ref(table, branch, base, expected=self._head(table, branch))
        try:
            self._run(branch)
            table = self._load()
            head = self._head(table, branch)
            if head == base:
                return Outcome(table, None)
            return self._publish(table, branch, head, base)
        finally:
            self._remove(branch)

    def _publish(self, table: Table, branch: str, head: Any, base: Any) -> Outcome | None:  # noqa: ANN401
        goal = self._scope.branch or MAIN_BRANCH
        try:
            self._set_ref(table, goal, head, expected=base)
        except CommitFailedException:
            self._context.logger.info("publish conflict", table=str(identifier_of(self._target)), branch=branch)
            return None
        except CommitStateUnknownException as err:
            raise self._unknown() from err
        table = self._load()
        return Outcome(table, find_operation(table.metadata, self._scope.operation_id, self._scope.branch))

    def _run(self, branch: str | None) -> None:
        """Let the engine write; after an error, find out whether it did."""
        request = WriteRequest(
            table=str(identifier_of(self._target)),
            kind=self._write.kind,
            data=self._write.data,
            row_filter=self._write.row_filter,
            keys=self._write.keys,
            branch=None if branch in {None, MAIN_BRANCH} else branch,
            snapshot_properties=self._properties,
        )
        try:
            self._plane.write(request)
        except Exception:
            # A lost driver or reply: the write may still be running, and may still land.
            self._plane.await_quiet(self._scope.operation_id)
            if find_operation(self._load().metadata, self._scope.operation_id, branch) is None:
                raise

    def _load(self) -> Table:
        return self._context.load(self._target)

    @staticmethod
    def _head(table: Table, branch: str | None) -> int | None:
        ref = table.metadata.refs.get(branch or MAIN_BRANCH)
        return ref.snapshot_id if ref else None

    def _own_branch(self, number: int) -> str:
        digest = hashlib.sha256(self._scope.operation_id.encode()).hexdigest()[:16]
        return f"{_BRANCH_PREFIX}{digest}.{number}"

    def _set_ref(self, table: Table, name: str, snapshot_id: int | None, *, expected: int | None) -> None:
        ref = table.metadata.refs.get(name)
        update = SetSnapshotRefUpdate(
            ref_name=name,
            type=SnapshotRefType.BRANCH,
            snapshot_id=snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms if ref else None,
            max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
            min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
        )
        requirements = (
            AssertTableUUID(uuid=table.metadata.table_uuid),
            AssertRefSnapshotId(ref=name, snapshot_id=expected),
        )
        self._context.catalog.commit_table(table, requirements, (update,))

    def _remove(self, branch: str) -> None:
        # A branch that stays only holds on to snapshots until somebody removes it.
        with contextlib.suppress(Exception):
            table = self._load()
            if branch in table.metadata.refs:
                requirements = (AssertTableUUID(uuid=table.metadata.table_uuid),)
                self._context.catalog.commit_table(table, requirements, (RemoveSnapshotRefUpdate(ref_name=branch),))

    def _unknown(self) -> CommitStateUnknownError:
        name, operation_id = str(identifier_of(self._target)), self._scope.operation_id
        msg = f"The catalog gave no answer that tells whether the write to '{name}' landed; nothing was deleted."
        hint = f"Repeat the call with operation_id='{operation_id}': it writes only if the first try did not land."
        return CommitStateUnknownError(msg, operation_id=operation_id, hint=hint, table=name)
