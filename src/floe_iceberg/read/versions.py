"""Resolves a version of a table from a snapshot id, a time, a branch or a tag."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from numbers import Integral
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from floe_core.errors import ConfigurationError, InvalidScanError, RefNotFoundError, SnapshotNotFoundError
from floe_iceberg.names import name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

TimestampLike = datetime | int

# Refs with this prefix are internal to floe and are not shown to users.
RESERVED_REF_PREFIX = "floe.maintenance"

_MAX_LISTED = 10


@dataclass(frozen=True)
class Version:
    """A version of a table, and the schema for reading it.

    Attributes:
        snapshot: The snapshot; None for an empty table.
        schema: The schema of the rows.
    """

    snapshot: Snapshot | None
    schema: Schema

    @property
    def snapshot_id(self) -> int | None:
        """Id of the snapshot; None for an empty table."""
        return self.snapshot.snapshot_id if self.snapshot else None


def to_millis(timestamp: TimestampLike) -> int:
    """Return milliseconds since the epoch; a datetime without a time zone is local time."""
    if isinstance(timestamp, datetime):
        return int(timestamp.astimezone().timestamp() * 1000)
    if isinstance(timestamp, bool) or not isinstance(timestamp, Integral):
        msg = f"{timestamp!r} is not a valid time. Pass a datetime or milliseconds since the epoch."
        raise ConfigurationError(msg, hint="For example datetime(2026, 5, 4, tzinfo=UTC).")
    return int(timestamp)


def to_utc(timestamp: TimestampLike) -> datetime:
    """Return a time as a datetime in UTC; a datetime without a time zone is local time."""
    try:
        if isinstance(timestamp, datetime):
            return timestamp.astimezone(UTC)
        return datetime.fromtimestamp(to_millis(timestamp) / 1000, tz=UTC)
    except (OSError, OverflowError, ValueError) as err:
        msg = f"{timestamp} is outside the supported range of dates."
        raise ConfigurationError(msg, hint="Numbers must be milliseconds since the epoch.") from err


def local_text(timestamp_ms: int) -> str:
    """Format a timestamp in local time."""
    return datetime.fromtimestamp(timestamp_ms / 1000, tz=UTC).astimezone().isoformat(timespec="milliseconds")


def newest_first(metadata: TableMetadata) -> list[Snapshot]:
    """Order snapshots by commit, newest first, independent of the writers' clocks."""
    order = {snapshot.snapshot_id: position for position, snapshot in enumerate(metadata.snapshots)}
    # Format version 1 has no sequence numbers; its order in the metadata is the commit order.
    return sorted(metadata.snapshots, key=lambda s: (s.sequence_number or 0, order[s.snapshot_id]), reverse=True)


def ancestors(metadata: TableMetadata, snapshot_id: int | None) -> Iterator[Snapshot]:
    """Walk from a snapshot to its oldest existing ancestor, including the snapshot itself."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    while snapshot_id is not None and (snapshot := by_id.get(snapshot_id)) is not None:
        yield snapshot
        snapshot_id = snapshot.parent_snapshot_id


def ref_history(metadata: TableMetadata, ref: str | None = None) -> Iterator[Snapshot]:
    """Walk a branch or tag, main by default, from its head to its oldest kept snapshot."""
    head = metadata.refs.get(ref or MAIN_BRANCH)
    return ancestors(metadata, head.snapshot_id if head else None)


def resolve(
    table: Table, *, snapshot_id: int | None = None, as_of: TimestampLike | None = None, ref: str | None = None
) -> Version:
    """Resolve the requested version; the current one by default.

    A branch is read with the table's schema; a snapshot, time or tag with the schema of its snapshot.

    Raises:
        InvalidScanError: More than one of the three is given.
        SnapshotNotFoundError: The snapshot does not exist, or none is that old.
        RefNotFoundError: The branch or tag does not exist.
    """
    given = [
        name for name, value in (("snapshot_id", snapshot_id), ("as_of", as_of), ("ref", ref)) if value is not None
    ]
    if len(given) > 1:
        msg = f"Pass only one of snapshot_id, as_of and ref, not {' and '.join(given)}."
        raise InvalidScanError(msg, table=name_of(table))
    if ref is not None:
        return _by_ref(table, ref)
    if snapshot_id is not None:
        return _at_snapshot(table, snapshot_by_id(table, snapshot_id))
    if as_of is not None:
        return _at_snapshot(table, snapshot_as_of(table, as_of))
    return Version(snapshot=table.metadata.current_snapshot(), schema=table.schema())


def snapshot_by_id(table: Table, snapshot_id: int) -> Snapshot:
    """Find a snapshot.

    Raises:
        SnapshotNotFoundError: The snapshot does not exist.
    """
    if snapshot := table.metadata.snapshot_by_id(snapshot_id):
        return snapshot
    msg = f"Table '{name_of(table)}' has no snapshot {snapshot_id}."
    raise SnapshotNotFoundError(msg, hint=_existing_snapshots(table), table=name_of(table))


def snapshot_as_of(table: Table, timestamp: TimestampLike) -> Snapshot:
    """Find the snapshot that was current at a time.

    Raises:
        SnapshotNotFoundError: The table's history starts later, or the snapshot of that time has expired.
    """
    millis, metadata = to_millis(timestamp), table.metadata
    log = metadata.snapshot_log
    logged = next((entry for entry in reversed(log) if entry.timestamp_ms <= millis), None)
    # If the snapshot of the entry has expired, an earlier one would be wrong: it was no longer current then.
    if logged is not None and (snapshot := metadata.snapshot_by_id(logged.snapshot_id)):
        return snapshot
    reason = f"has no snapshot at or before {local_text(millis)}"
    if logged is not None:
        reason = f"no longer has the snapshot that was current at {local_text(millis)}"
    kept = [entry.timestamp_ms for entry in log if metadata.snapshot_by_id(entry.snapshot_id)]
    hint = f"Its history starts at {local_text(min(kept))}." if kept else "The table has no snapshots."
    msg = f"Table '{name_of(table)}' {reason}."
    raise SnapshotNotFoundError(msg, hint=hint, table=name_of(table))


def ref_not_found(table: Table, ref: str, *, kind: str = "branch or tag") -> RefNotFoundError:
    """Return the error for a missing branch or tag, with the existing ones."""
    names = sorted(name for name in table.metadata.refs if not name.startswith(RESERVED_REF_PREFIX))
    near = get_close_matches(ref, names, n=1)
    guess = f"Did you mean '{near[0]}'? " if near else ""
    existing = f"Existing branches and tags: {', '.join(names)}." if names else "The table has no branches or tags."
    msg = f"Table '{name_of(table)}' has no {kind} '{ref}'."
    return RefNotFoundError(msg, hint=guess + existing, table=name_of(table))


def _by_ref(table: Table, ref: str) -> Version:
    found = table.metadata.refs.get(ref)
    if found is None and ref == MAIN_BRANCH:
        return Version(snapshot=None, schema=table.schema())
    if found is None:
        raise ref_not_found(table, ref)
    snapshot = snapshot_by_id(table, found.snapshot_id)
    if found.snapshot_ref_type == SnapshotRefType.BRANCH:
        return Version(snapshot=snapshot, schema=table.schema())
    return _at_snapshot(table, snapshot)


def _at_snapshot(table: Table, snapshot: Snapshot) -> Version:
    schema = table.schemas().get(snapshot.schema_id) if snapshot.schema_id is not None else None
    return Version(snapshot=snapshot, schema=schema or table.schema())


def _existing_snapshots(table: Table) -> str:
    newest = newest_first(table.metadata)
    if not newest:
        return "The table has no snapshots."
    listed = ", ".join(str(snapshot.snapshot_id) for snapshot in newest[:_MAX_LISTED])
    more = f" and {len(newest) - _MAX_LISTED} older" if len(newest) > _MAX_LISTED else ""
    return f"Existing snapshots, newest first: {listed}{more}."
