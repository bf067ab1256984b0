"""Applies commits to table metadata.

PyIceberg copies and validates the whole history for every update, so each append costs more than the last. This module
avoids that for the common case: a commit that adds one snapshot to a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadata, TableMetadataV1, TableMetadataV2
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRef
from pyiceberg.table.snapshots import MetadataLogEntry, SnapshotLogEntry
from pyiceberg.table.update import AddSnapshotUpdate, SetSnapshotRefUpdate, update_table_metadata

from floe_iceberg.catalog.clocks import earliest_timestamp, with_monotonic_timestamps

if TYPE_CHECKING:
    from pyiceberg.table.update import TableUpdate

_DEFAULT_METADATA_FILES = 100
_PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"


def with_updates(base: TableMetadata, location: str, updates: tuple[TableUpdate, ...]) -> TableMetadata:
    """Return metadata with updates applied; timestamps never go backwards.

    Args:
        base: The metadata to change.
        location: The location of its metadata file.
        updates: The changes to apply.

    Raises:
        CommitFailedException: The sequence number of a new snapshot is already used.
        ValueError: The updates do not fit the metadata.
        KeyError: The updates refer to something that is not in the metadata.
    """
    _require_new_numbers(base, updates)
    return update_table_metadata(base, with_monotonic_timestamps(updates), metadata_location=location)


def next_version(location: str) -> int:
    """Return the version number for the next metadata file; 0 if the current file has no number."""
    name = location.rsplit("/", 1)[-1]
    version = name.split("-", 1)[0]
    return int(version) + 1 if version.isdigit() else 0


def with_snapshot(base: TableMetadata, location: str, updates: tuple[TableUpdate, ...]) -> TableMetadata | None:
    """Add one snapshot to a branch without copying the history; return None for any other kind of update."""
    match updates:
        case (AddSnapshotUpdate() as added, SetSnapshotRefUpdate() as moved) if (
            isinstance(base, TableMetadataV2)
            and moved.snapshot_id == added.snapshot.snapshot_id
            and (added.snapshot.sequence_number or 0) > base.last_sequence_number
        ):
            pass
        case _:
            return None
    snapshot = added.snapshot
    ref = SnapshotRef(
        snapshot_id=moved.snapshot_id,
        snapshot_ref_type=moved.type,
        min_snapshots_to_keep=moved.min_snapshots_to_keep,
        max_snapshot_age_ms=moved.max_snapshot_age_ms,
        max_ref_age_ms=moved.max_ref_age_ms,
    )
    keep = max(1, int(base.properties.get(_PREVIOUS_VERSIONS, _DEFAULT_METADATA_FILES)))
    log = [*base.metadata_log, MetadataLogEntry(metadata_file=location, timestamp_ms=base.last_updated_ms)][-keep:]
    # The table's metadata may have changed since the snapshot was written.
    timestamp_ms = max(snapshot.timestamp_ms, earliest_timestamp(base))
    changes: dict[str, Any] = {
        "snapshots": [*base.snapshots, snapshot],
        "last_sequence_number": snapshot.sequence_number,
        "last_updated_ms": timestamp_ms,
        "refs": {**base.refs, moved.ref_name: ref},
        "metadata_log": log,
    }
    if moved.ref_name == MAIN_BRANCH:
        entry = SnapshotLogEntry(snapshot_id=snapshot.snapshot_id, timestamp_ms=timestamp_ms)
        changes |= {"current_snapshot_id": snapshot.snapshot_id, "snapshot_log": [*base.snapshot_log, entry]}
    return base.model_copy(update=changes)


def _require_new_numbers(base: TableMetadata, updates: tuple[TableUpdate, ...]) -> None:
    """Reject snapshots whose sequence numbers were used by a commit to another branch.

    PyIceberg accepts any number for a snapshot without a parent.
    """
    if isinstance(base, TableMetadataV1):
        return
    for change in updates:
        if isinstance(change, AddSnapshotUpdate):
            number, last = change.snapshot.sequence_number or 0, base.last_sequence_number
            if number <= last:
                msg = f"Sequence number {number} is already used; the last is {last}"
                raise CommitFailedException(msg)
