"""Plans which snapshots and refs expire, by the rules of the Iceberg specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType

from floe_core.errors import MaintenanceError, SnapshotNotFoundError, UnsafeRetentionError
from floe_iceberg.read.versions import RESERVED_REF_PREFIX, ancestors

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.refs import SnapshotRef

MIN_SNAPSHOTS_PROPERTY = "history.expire.min-snapshots-to-keep"
MAX_REF_AGE_PROPERTY = "history.expire.max-ref-age-ms"


@dataclass(frozen=True)
class Floor:
    """Snapshots that stay regardless of the retention settings of branches and tags.

    Attributes:
        since_ms: Snapshots that are not older than this stay; None for no limit.
        count: Minimum number of snapshots per branch.
    """

    since_ms: int | None = None
    count: int = 1


@dataclass(frozen=True)
class Expiry:
    """Snapshots and refs to remove.

    Attributes:
        snapshot_ids: Snapshots to expire, oldest first.
        refs: Branches and tags that exceeded their maximum age.
    """

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]


def plan_expiry(  # noqa: PLR0913 - options by keyword
    metadata: TableMetadata,
    *,
    older_than_ms: int | None,
    retain_last: int,
    snapshot_ids: Collection[int] = (),
    now_ms: int,
    floor: Floor = Floor(),  # noqa: B008 - a frozen value
) -> Expiry:
    """Plan an expiry.

    Args:
        metadata: The table's metadata.
        older_than_ms: Snapshots older than this may expire; if None, none expires by age.
        retain_last: Minimum number of snapshots per branch, unless the branch has its own setting.
        snapshot_ids: Snapshots that expire regardless of age.
        now_ms: The current time.
        floor: Snapshots that stay regardless of branches and tags; does not protect ``snapshot_ids``.

    Raises:
        SnapshotNotFoundError: One of ``snapshot_ids`` does not exist.
        MaintenanceError: One of ``snapshot_ids`` is the head of a branch or tagged.
        UnsafeRetentionError: The table's maximum ref age is not a number.
    """
    dropped = set() if older_than_ms is None else _expired_refs(metadata, now_ms)
    refs = {name: ref for name, ref in metadata.refs.items() if name not in dropped}
    chosen = _chosen_snapshots(metadata, refs, snapshot_ids)
    if older_than_ms is not None:
        kept = _kept_by_refs(metadata, refs, older_than_ms, max(retain_last, floor.count), now_ms, floor.count)
        kept |= _kept_without_ref(metadata, refs, older_than_ms)
        kept |= _kept_since(metadata, floor.since_ms)
        chosen |= {snapshot.snapshot_id for snapshot in metadata.snapshots} - kept
    ordered = [snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.snapshot_id in chosen]
    return Expiry(snapshot_ids=tuple(ordered), refs=tuple(sorted(dropped)))


def _expired_refs(metadata: TableMetadata, now_ms: int) -> set[str]:
    default = _default_ref_age(metadata)
    expired = set()
    for name, ref in metadata.refs.items():
        if name == MAIN_BRANCH or name.startswith(RESERVED_REF_PREFIX):
            continue
        longest = ref.max_ref_age_ms if ref.max_ref_age_ms is not None else default
        snapshot = metadata.snapshot_by_id(ref.snapshot_id)
        if snapshot is None or (longest is not None and now_ms - snapshot.timestamp_ms > longest):
            expired.add(name)
    return expired


def _default_ref_age(metadata: TableMetadata) -> int | None:
    text = metadata.properties.get(MAX_REF_AGE_PROPERTY)
    try:
        return None if text is None else int(text)
    except ValueError:
        msg = f"The table's {MAX_REF_AGE_PROPERTY} is '{text}', which is not an age."
        raise UnsafeRetentionError(msg, hint="Set it to a number of milliseconds.") from None


def _chosen_snapshots(metadata: TableMetadata, refs: dict[str, SnapshotRef], snapshot_ids: Collection[int]) -> set[int]:
    for snapshot_id in snapshot_ids:
        if metadata.snapshot_by_id(snapshot_id) is None:
            msg = f"Snapshot {snapshot_id} does not exist, so it cannot expire."
            raise SnapshotNotFoundError(msg)
        referencing = sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id)
        if referencing:
            msg = f"Snapshot {snapshot_id} cannot expire: it is referenced by {', '.join(referencing)}."
            raise MaintenanceError(msg, hint="Remove or move that branch or tag first.")
    return set(snapshot_ids)


def _kept_by_refs(  # noqa: PLR0913, PLR0917 - the rules of one call
    metadata: TableMetadata, refs: dict[str, SnapshotRef], older_than_ms: int, retain_last: int, now_ms: int, count: int
) -> set[int]:
    kept: set[int] = set()
    for ref in refs.values():
        kept.add(ref.snapshot_id)
        if ref.snapshot_ref_type != SnapshotRefType.BRANCH:
            continue
        min_count = max(ref.min_snapshots_to_keep, count) if ref.min_snapshots_to_keep is not None else retain_last
        oldest = now_ms - ref.max_snapshot_age_ms if ref.max_snapshot_age_ms is not None else older_than_ms
        for position, snapshot in enumerate(ancestors(metadata, ref.snapshot_id)):
            if position >= min_count and snapshot.timestamp_ms < oldest:
                break
            kept.add(snapshot.snapshot_id)
    return kept


def _kept_without_ref(metadata: TableMetadata, refs: dict[str, SnapshotRef], older_than_ms: int) -> set[int]:
    """Keep recent snapshots without a ref, because they may be about to be published."""
    referenced = {snapshot.snapshot_id for ref in refs.values() for snapshot in ancestors(metadata, ref.snapshot_id)}
    return {
        snapshot.snapshot_id
        for snapshot in metadata.snapshots
        if snapshot.snapshot_id not in referenced and snapshot.timestamp_ms >= older_than_ms
    }


def _kept_since(metadata: TableMetadata, since_ms: int | None) -> set[int]:
    if since_ms is None:
        return set()
    return {snapshot.snapshot_id for snapshot in metadata.snapshots if snapshot.timestamp_ms >= since_ms}
