"""Maintenance lease: allows one maintenance run per table at a time, across threads, processes and machines.

The lease is stored in the table, because all users of the table share it. A catalog can only compare and swap refs, so
the holder of the lease owns two tags: one with a fixed name, which only one run can create, and one with the run's id,
so a takeover or release only affects the intended run. A property records the holder and the expiry time. Losing the
lease never endangers data, because every maintenance commit checks its own requirements.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
)

from floe_core.errors import FloeStorageError, MaintenanceInProgressError
from floe_iceberg.commit.metadata import Change, commit_change
from floe_iceberg.names import name_of
from floe_iceberg.read.versions import RESERVED_REF_PREFIX, local_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from floe_iceberg.context import ManagerContext, TableTarget

LEASE_PROPERTY = "floe.maintenance-lease"
LEASE_SECONDS = 900.0

_FIXED_REF = RESERVED_REF_PREFIX


@dataclass(frozen=True)
class Holder:
    """Holder of the lease, as stored in the table.

    Attributes:
        lease_id: Id of the run.
        owner: Host and process.
        operation: The maintenance operation.
        expires_ms: Time after which another run may take over.
    """

    lease_id: str
    owner: str
    operation: str
    expires_ms: int

    @property
    def expired(self) -> bool:
        """Whether another run may take over."""
        return self.expires_ms <= time.time() * 1000

    @property
    def ref(self) -> str:
        """Name of the run's tag."""
        return f"{_FIXED_REF}.{self.lease_id}"


def holder_of(table: Table) -> Holder | None:
    """Return the holder of a table's lease; an unreadable entry counts as none."""
    text = table.metadata.properties.get(LEASE_PROPERTY)
    if text is None:
        return None
    try:
        return Holder(**json.loads(text))
    except (TypeError, ValueError):
        return None


@contextmanager
def maintenance_lease(
    context: ManagerContext, target: TableTarget, operation: str, *, seconds: float = LEASE_SECONDS
) -> Iterator[None]:
    """Hold a table's lease for a block; it is renewed while the block runs and released afterwards.

    Args:
        context: The manager's context.
        target: The table; an empty table has nothing to maintain and needs no lease.
        operation: The maintenance operation, shown to other runs.
        seconds: Time after which the lease of a dead run expires.

    Raises:
        MaintenanceInProgressError: Another run holds the lease.
    """
    lease = _Lease(context, target, operation, seconds)
    if not lease.acquire():
        yield
        return
    stop = threading.Event()
    renewing = threading.Thread(target=lease.renew_until, args=(stop,), name="floe-maintenance-lease", daemon=True)
    renewing.start()
    try:
        yield
    finally:
        stop.set()
        renewing.join()
        lease.release()


class _Lease:
    """The lease of one run."""

    def __init__(self, context: ManagerContext, target: TableTarget, operation: str, seconds: float) -> None:
        self._context = context
        self._target = target
        self._seconds = seconds
        self._operation = operation
        self._id = uuid.uuid4().hex
        self._owner = f"{socket.gethostname()}:{os.getpid()}"

    def acquire(self) -> bool:
        """Acquire the lease; return False if the table has no snapshots."""
        table = commit_change(self._context, self._target, self._plan_acquire, what="acquiring the maintenance lease")
        return table.metadata.current_snapshot_id is not None

    def renew_until(self, stop: threading.Event) -> None:
        """Extend the expiry repeatedly until ``stop`` is set."""
        while not stop.wait(self._seconds / 3):
            try:
                commit_change(self._context, self._target, self._plan_renew, what="renewing the maintenance lease")
            except FloeStorageError as err:
                # The next renewal tries again; the lease lasts three renewal intervals.
                self._context.logger.warning("iceberg.maintenance_lease", outcome="not renewed", reason=str(err))

    def release(self) -> None:
        """Release the lease; a failure is only logged, because the lease expires anyway."""
        try:
            commit_change(self._context, self._target, self._plan_release, what="releasing the maintenance lease")
        except FloeStorageError as err:
            self._context.logger.warning("iceberg.maintenance_lease", outcome="not released", reason=str(err))

    def _holder(self) -> Holder:
        expires = int((time.time() + self._seconds) * 1000)
        return Holder(self._id, self._owner, self._operation, expires)

    def _plan_acquire(self, table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        current = table.metadata.current_snapshot_id
        holder = holder_of(table)
        if current is None or (holder is not None and holder.lease_id == self._id):
            return None
        if holder is not None and not holder.expired:
            raise _in_progress(table, holder)
        stale = _lease_refs(table)
        holder_now = self._holder()
        if not self._context.branches:
            # Without refs there is no compare-and-swap: two runs that start at the same time both continue.
            return Change((_lease_update(holder_now),))
        return Change(
            (
                *(RemoveSnapshotRefUpdate(ref_name=name) for name in stale if name != _FIXED_REF),
                self._tag(_FIXED_REF, current),
                self._tag(holder_now.ref, current),
                _lease_update(holder_now),
            ),
            (
                AssertRefSnapshotId(ref=_FIXED_REF, snapshot_id=stale.get(_FIXED_REF)),
                *_assert_unmoved({name: snapshot for name, snapshot in stale.items() if name != _FIXED_REF}),
            ),
        )

    def _plan_renew(self, table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        holder = holder_of(table)
        if holder is None or holder.lease_id != self._id:
            return None
        return Change((_lease_update(self._holder()),), _assert_unmoved(self._own_refs(table)))

    def _plan_release(self, table: Table, _uncertain: bool) -> Change | None:  # noqa: FBT001 - the commit loop calls it
        holder = holder_of(table)
        if holder is None or holder.lease_id != self._id:
            return None
        refs = self._own_refs(table)
        removed = tuple(RemoveSnapshotRefUpdate(ref_name=name) for name in refs)
        return Change((*removed, RemovePropertiesUpdate(removals=[LEASE_PROPERTY])), _assert_unmoved(refs))

    def _own_refs(self, table: Table) -> dict[str, int]:
        # Another engine's expiry may have removed them because of their age.
        return {
            name: snapshot
            for name, snapshot in _lease_refs(table).items()
            if name in {_FIXED_REF, f"{_FIXED_REF}.{self._id}"}
        }

    def _tag(self, name: str, snapshot_id: int) -> SetSnapshotRefUpdate:
        return SetSnapshotRefUpdate(
            ref_name=name,
            type=SnapshotRefType.TAG,
            snapshot_id=snapshot_id,
            # Any engine's expiry can then clean up after a dead run.
            max_ref_age_ms=int(self._seconds * 1000),
            max_snapshot_age_ms=None,
            min_snapshots_to_keep=None,
        )


def _lease_refs(table: Table) -> dict[str, int]:
    return {name: ref.snapshot_id for name, ref in table.metadata.refs.items() if name.startswith(RESERVED_REF_PREFIX)}


def _assert_unmoved(refs: dict[str, int]) -> tuple[AssertRefSnapshotId, ...]:
    return tuple(AssertRefSnapshotId(ref=name, snapshot_id=snapshot) for name, snapshot in refs.items())


def _lease_update(holder: Holder) -> SetPropertiesUpdate:
    return SetPropertiesUpdate(updates={LEASE_PROPERTY: json.dumps(asdict(holder))})


def _in_progress(table: Table, holder: Holder) -> MaintenanceInProgressError:
    msg = f"Table '{name_of(table)}' is already under maintenance: {holder.operation} by {holder.owner}."
    hint = f"Try again when it has finished. If it was killed, the lease expires at {local_text(holder.expires_ms)}."
    return MaintenanceInProgressError(msg, hint=hint, table=name_of(table))
