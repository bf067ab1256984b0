"""Snapshots and refs: list snapshots, roll back, manage tags and branches, publish a branch."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, RemoveSnapshotRefUpdate, SetSnapshotRefUpdate

from floe_core.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    InvalidIdentifierError,
    InvalidScanError,
    RefExistsError,
    SnapshotNotFoundError,
    WriteError,
)
from floe_core.failed_writes import failing_as_writes
from floe_iceberg.commit.engine import engine_only, first_snapshot_by_engine
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.models import RefInfo, SnapshotInfo
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.read.versions import (
    RESERVED_REF_PREFIX,
    ancestors,
    local_text,
    newest_first,
    ref_history,
    ref_not_found,
    resolve,
    snapshot_by_id,
    to_millis,
)

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.read.versions import TimestampLike

Age = timedelta | int

_REF_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._/=:@-]{0,254}$")


def list_snapshots(context: ManagerContext, target: TableTarget, *, limit: int | None = None) -> list[SnapshotInfo]:
    """List the snapshots of every branch, newest first by sequence number."""
    with context.operation("iceberg.list_snapshots", target, limit=limit):
        table = load_table(context, target)
        if limit is not None and limit < 0:
            msg = f"limit must be 0 or more, not {limit}."
            raise InvalidScanError(msg, table=name_of(table))
        return [SnapshotInfo.of(snapshot) for snapshot in newest_first(table.metadata)[:limit]]


def current_snapshot(context: ManagerContext, target: TableTarget, *, ref: str | None = None) -> SnapshotInfo | None:
    """Return the current snapshot of main, a branch or a tag; None if the table has no snapshots."""
    with context.operation("iceberg.current_snapshot", target, ref=ref):
        snapshot = resolve(load_table(context, target), ref=ref).snapshot
        return SnapshotInfo.of(snapshot) if snapshot else None


def rollback(
    context: ManagerContext, target: TableTarget, *, snapshot_id: int | None = None, to: TimestampLike | None = None
) -> SnapshotInfo:
    """Make an earlier snapshot of main current again; later snapshots stay readable until they expire.

    Args:
        context: The manager's context.
        target: The table.
        snapshot_id: Snapshot to roll back to.
        to: Time to roll back to; selects the newest ancestor that is not later.

    Raises:
        SnapshotNotFoundError: The snapshot does not exist or is not in main's history.
        ConcurrencyConflictError: Other writers committed first on every attempt.
    """
    with context.operation("iceberg.rollback", target, snapshot_id=snapshot_id) as operation:
        if (snapshot_id is None) == (to is None):
            msg = "Pass either the snapshot or the time to roll back to."
            raise InvalidScanError(msg)
        selected: list[Snapshot] = []
        before: list[int | None] = []

        def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
            # A rollback that landed leaves its head out of the history. A second one would undo later commits as well.
            if uncertain and before and not _contains(table, MAIN_BRANCH, before[0]):
                return None
            before[:] = [table.metadata.current_snapshot_id]
            # Retries keep the first selection: by time, they could otherwise go further back.
            found = selected[0] if selected else _rollback_snapshot(table, snapshot_id, to)
            selected[:] = [snapshot_by_id(table, found.snapshot_id)]
            _require_ancestor(table, found.snapshot_id)
            if table.metadata.current_snapshot_id == found.snapshot_id:
                return None
            return move_ref(table, MAIN_BRANCH, found.snapshot_id)

        commit_change(context, target, plan, what="the rollback")
        operation.set(snapshot_id=selected[0].snapshot_id)
        return SnapshotInfo.of(selected[0])


def create_tag(
    context: ManagerContext,
    target: TableTarget,
    name: str,
    *,
    snapshot_id: int | None = None,
    max_ref_age: Age | None = None,
) -> RefInfo:
    """Create a tag for a snapshot, which expires after ``max_ref_age`` if it is set.

    Raises:
        InvalidIdentifierError: The name is invalid.
        RefExistsError: A branch or tag of that name already exists.
        SnapshotNotFoundError: The snapshot does not exist, or the table has no snapshots.
    """
    with context.operation("iceberg.create_tag", target, ref=name):
        return _create_ref(
            context,
            target,
            name,
            SetSnapshotRefUpdate(
                ref_name=name,
                type=SnapshotRefType.TAG,
                snapshot_id=snapshot_id or 0,
                max_ref_age_ms=_age_ms(max_ref_age),
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            ),
            snapshot_id,
        )


def create_branch(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    name: str,
    *,
    snapshot_id: int | None = None,
    max_ref_age: Age | None = None,
    max_snapshot_age: Age | None = None,
    min_snapshots_to_keep: int | None = None,
) -> RefInfo:
    """Create a branch at a snapshot, by default the current one.

    A branch needs a snapshot, so an empty table first gets an empty snapshot on main.

    Args:
        context: The manager's context.
        target: The table.
        name: Name of the branch.
        snapshot_id: Snapshot at which it starts.
        max_ref_age: Age at which expiry removes the branch.
        max_snapshot_age: Age at which its snapshots expire.
        min_snapshots_to_keep: Number of its snapshots that are always kept.

    Raises:
        InvalidIdentifierError: The name is invalid.
        RefExistsError: A branch or tag of that name already exists.
        SnapshotNotFoundError: The snapshot does not exist.
    """
    with context.operation("iceberg.create_branch", target, ref=name):
        table = ensure_snapshot(context, load_table(context, target)) if snapshot_id is None else None
        return _create_ref(
            context,
            target,
            name,
            SetSnapshotRefUpdate(
                ref_name=name,
                type=SnapshotRefType.BRANCH,
                snapshot_id=snapshot_id or 0,
                max_ref_age_ms=_age_ms(max_ref_age),
                max_snapshot_age_ms=_age_ms(max_snapshot_age),
                min_snapshots_to_keep=min_snapshots_to_keep,
            ),
            snapshot_id,
            loaded=table,
        )


def branch_off(context: ManagerContext, table: Table, name: str) -> Table:
    """Create a branch at main of a table that was just loaded, and return the updated table.

    Raises:
        RefExistsError: A branch or tag of that name already exists.
    """
    with context.operation("iceberg.create_branch", table, ref=name):
        table = ensure_snapshot(context, table)
        start = branch_at(table, name, table.metadata.current_snapshot_id)
        return _with_ref(context, table, name, start, None, loaded=table)


def remove_tag(context: ManagerContext, target: TableTarget, name: str) -> None:
    """Remove a tag; its snapshot stays until it expires.

    Raises:
        RefNotFoundError: The tag does not exist.
    """
    with context.operation("iceberg.remove_tag", target, ref=name):
        _remove_ref(context, target, name, SnapshotRefType.TAG)


def remove_branch(context: ManagerContext, target: TableTarget, name: str) -> None:
    """Remove a branch; its snapshots stay until they expire.

    Raises:
        RefNotFoundError: The branch does not exist.
        InvalidIdentifierError: The branch is main, which cannot be removed.
    """
    with context.operation("iceberg.remove_branch", target, ref=name):
        if name == MAIN_BRANCH:
            msg = "The branch 'main' cannot be removed."
            raise InvalidIdentifierError(msg, hint="Drop the table instead.")
        _remove_ref(context, target, name, SnapshotRefType.BRANCH)


def list_refs(context: ManagerContext, target: TableTarget) -> list[RefInfo]:
    """List branches and tags, main first, then by kind and name."""
    with context.operation("iceberg.list_refs", target):
        table = load_table(context, target)
        shown = [_ref_info(name, ref) for name, ref in visible_refs(table).items()]
        return sorted(shown, key=lambda ref: (ref.name != MAIN_BRANCH, ref.kind, ref.name))


def publish_branch(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    branch: str,
    *,
    to: str = MAIN_BRANCH,
    remove: bool = False,
    head: int | None = None,
    loaded: Table | None = None,
) -> SnapshotInfo:
    """Fast-forward a branch to the head of another branch, which must descend from it.

    Args:
        context: The manager's context.
        target: The table.
        branch: Branch whose snapshots are published.
        to: Branch to fast-forward.
        remove: Whether to remove the published branch in the same commit.
        head: Snapshot that the branch must have, because the caller checked it; None for any.
        loaded: The table, if the caller has just loaded it; used by the first attempt.

    Raises:
        RefNotFoundError: The branch does not exist.
        WriteError: The branch has another snapshot than ``head``.
        ConcurrencyConflictError: The target has snapshots that are not on the branch.
    """
    with failing_as_writes(), context.operation("iceberg.publish_branch", target, ref=branch, to=to) as operation:
        selected: list[Snapshot] = []

        def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
            if uncertain and selected and _contains(table, to, selected[0].snapshot_id):
                return None
            start = _branch(table, branch).snapshot_id
            if head is not None and start != head:
                raise _changed(table, branch)
            selected[:] = [snapshot_by_id(table, start)]
            current = _head(table, to)
            _require_fast_forward(table, branch, start, to, current)
            moved = move_ref(table, to, start) if current != start else Change(())
            if not remove:
                return moved if moved.updates else None
            return Change(
                (*moved.updates, RemoveSnapshotRefUpdate(ref_name=branch)),
                (*moved.requirements, AssertRefSnapshotId(ref=branch, snapshot_id=start)),
            )

        commit_change(context, target, plan, what=f"publishing branch '{branch}'", loaded=loaded)
        operation.set(snapshot_id=selected[0].snapshot_id)
        return SnapshotInfo.of(selected[0])


def ensure_snapshot(context: ManagerContext, table: Table) -> Table:
    """Create an empty snapshot on main if the table has none, because a ref needs a snapshot to point to."""
    if table.metadata.current_snapshot() is not None:
        return table
    try:
        if engine_only(table.metadata):
            first_snapshot_by_engine(context, table)
            return load_table(context, table)
        with table.transaction() as transaction, transaction.update_snapshot().fast_append():
            pass
    except Exception:
        # Another writer may have created the first snapshot, which is just as good.
        table = load_table(context, table)
        if table.metadata.current_snapshot() is None:
            raise
    return table


def move_ref(table: Table, name: str, snapshot_id: int) -> Change:
    """Return the change that moves a branch to a snapshot, provided it has not moved in the meantime."""
    ref = table.metadata.refs.get(name)
    expected = AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id if ref else None)
    return Change((branch_at(table, name, snapshot_id),), (expected,))


def branch_at(table: Table, name: str, snapshot_id: int | None) -> SetSnapshotRefUpdate:
    """Return the update that points a branch to a snapshot and keeps its retention settings."""
    ref = table.metadata.refs.get(name)
    return SetSnapshotRefUpdate(
        ref_name=name,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot_id,
        max_ref_age_ms=ref.max_ref_age_ms if ref else None,
        max_snapshot_age_ms=ref.max_snapshot_age_ms if ref else None,
        min_snapshots_to_keep=ref.min_snapshots_to_keep if ref else None,
    )


def visible_refs(table: Table) -> dict[str, SnapshotRef]:
    """Return the user's branches and tags."""
    return {name: ref for name, ref in table.metadata.refs.items() if not name.startswith(RESERVED_REF_PREFIX)}


def _create_ref(  # noqa: PLR0913 - the ref, and where it starts
    context: ManagerContext,
    target: TableTarget,
    name: str,
    update: SetSnapshotRefUpdate,
    snapshot_id: int | None,
    *,
    loaded: Table | None = None,
) -> RefInfo:
    table = _with_ref(context, target, name, update, snapshot_id, loaded=loaded)
    return _ref_info(name, table.metadata.refs[name])


def _with_ref(  # noqa: PLR0913 - the ref, and where it starts
    context: ManagerContext,
    target: TableTarget,
    name: str,
    update: SetSnapshotRefUpdate,
    snapshot_id: int | None,
    *,
    loaded: Table | None,
) -> Table:
    _require_ref_name(name)
    if not context.branches:
        msg = f"The catalog '{context.catalog.name}' does not support branches and tags."
        raise CapabilityError(msg, hint="Use a catalog that does, such as polaris or sql.")

    def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        existing = table.metadata.refs.get(name)
        if uncertain and existing is not None and _ref_info(name, existing).kind == update.type:
            return None
        if existing is not None:
            msg = f"Table '{name_of(table)}' already has a {existing.snapshot_ref_type.value} '{name}'."
            raise RefExistsError(msg, hint="Choose another name, or remove it first.", table=name_of(table))
        selected = snapshot_id if snapshot_id is not None else table.metadata.current_snapshot_id
        if selected is None:
            msg = f"Table '{name_of(table)}' has no snapshots, so '{name}' cannot be created."
            raise SnapshotNotFoundError(msg, hint="Write to it first.", table=name_of(table))
        snapshot_by_id(table, selected)
        return Change(
            (update.model_copy(update={"snapshot_id": selected}),), (AssertRefSnapshotId(ref=name, snapshot_id=None),)
        )

    return commit_change(context, target, plan, what=f"creating {update.type.value} '{name}'", loaded=loaded)


def _remove_ref(context: ManagerContext, target: TableTarget, name: str, kind: SnapshotRefType) -> None:
    def plan(table: Table, uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        ref = visible_refs(table).get(name)
        if ref is None and uncertain:
            return None
        if ref is None or ref.snapshot_ref_type != kind:
            raise ref_not_found(table, name, kind=kind.value)
        return Change(
            (RemoveSnapshotRefUpdate(ref_name=name),), (AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id),)
        )

    commit_change(context, target, plan, what=f"removing {kind.value} '{name}'")


def _require_ref_name(name: str) -> None:
    if not _REF_NAME.match(name) or name.startswith(RESERVED_REF_PREFIX):
        msg = f"'{name}' is not a valid branch or tag name."
        hint = (
            "Use at most 255 letters, digits and . _ / = : @ -, starting with a letter or digit"
            f"; names starting with '{RESERVED_REF_PREFIX}' are reserved."
        )
        raise InvalidIdentifierError(msg, hint=hint)


def _rollback_snapshot(table: Table, snapshot_id: int | None, to: TimestampLike | None) -> Snapshot:
    if snapshot_id is not None:
        return snapshot_by_id(table, snapshot_id)
    millis = to_millis(to if to is not None else 0)
    history = list(ref_history(table.metadata))
    for snapshot in history:
        if snapshot.timestamp_ms <= millis:
            return snapshot
    msg = f"The history of table '{name_of(table)}' has no snapshot at or before {local_text(millis)}."
    hint = f"The oldest is from {local_text(history[-1].timestamp_ms)}." if history else "The table has no snapshots."
    raise SnapshotNotFoundError(msg, hint=hint, table=name_of(table))


def _require_ancestor(table: Table, snapshot_id: int) -> None:
    history = [snapshot.snapshot_id for snapshot in ref_history(table.metadata)]
    if snapshot_id in history:
        return
    msg = f"Snapshot {snapshot_id} is not in the history of 'main' of table '{name_of(table)}'."
    hint = f"Available snapshots, newest first: {', '.join(map(str, history[:10]))}."
    raise SnapshotNotFoundError(msg, hint=hint, table=name_of(table))


def _branch(table: Table, name: str) -> SnapshotRef:
    ref = table.metadata.refs.get(name)
    if ref is None or ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise ref_not_found(table, name, kind="branch")
    return ref


def _head(table: Table, branch: str) -> int | None:
    if branch == MAIN_BRANCH and branch not in table.metadata.refs:
        return None
    return _branch(table, branch).snapshot_id


def _contains(table: Table, branch: str, snapshot_id: int | None) -> bool:
    return any(snapshot.snapshot_id == snapshot_id for snapshot in ref_history(table.metadata, branch))


def _require_fast_forward(table: Table, branch: str, head: int, to: str, current: int | None) -> None:
    history = {snapshot.snapshot_id for snapshot in ancestors(table.metadata, head)}
    if current is None or current in history:
        return
    behind = [s.snapshot_id for s in ancestors(table.metadata, current) if s.snapshot_id not in history]
    msg = (
        f"Branch '{branch}' of table '{name_of(table)}' cannot be published: '{to}' has "
        f"{len(behind)} newer snapshot{'s' if len(behind) != 1 else ''} that are not on the branch."
    )
    hint = f"Recreate the branch from the current head of '{to}', repeat the write, then publish it."
    raise ConcurrencyConflictError(msg, hint=hint, table=name_of(table))


def _changed(table: Table, branch: str) -> WriteError:
    name = name_of(table)
    msg = f"Branch '{branch}' of table '{name}' changed after its rows were checked. Nothing was published."
    hint = "Another process wrote to it. Check its rows again, then publish or discard it."
    return WriteError(msg, hint=hint, table=name)


def _age_ms(age: Age | None) -> int | None:
    if age is None:
        return None
    millis = int(age.total_seconds() * 1000) if isinstance(age, timedelta) else age
    if millis <= 0:
        msg = f"An age must be greater than 0, not {age}."
        raise InvalidScanError(msg)
    return millis


def _ref_info(name: str, ref: SnapshotRef) -> RefInfo:
    return RefInfo(
        name=name,
        kind=ref.snapshot_ref_type.value,
        snapshot_id=ref.snapshot_id,
        max_ref_age_ms=ref.max_ref_age_ms,
        max_snapshot_age_ms=ref.max_snapshot_age_ms,
        min_snapshots_to_keep=ref.min_snapshots_to_keep,
    )
