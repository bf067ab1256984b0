"""Metadata updates that PyIceberg applies differently from Iceberg's Java implementation.

A REST catalog applies updates on the server. With the embedded, Hive and Glue catalogs, PyIceberg applies them, and its
``remove-snapshots`` breaks the history: log entries before an expired one stay, so time travel returns a version that
was no longer current; remaining snapshots lose their parent, which breaks incremental reads; and partition statistics
of expired snapshots stay. The update here has the same wire format and is applied like in Java.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.metadata import TableMetadataV1
from pyiceberg.table.update import (
    RemovePartitionStatisticsUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    TableUpdate,
)

from floe_iceberg.pyiceberg_internals.metadata import UpdateContext, apply_update, register_update

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import SnapshotLogEntry


class RemoveSnapshots(RemoveSnapshotsUpdate):
    """Removes snapshots, their refs and statistics, and the history up to them."""


# PyIceberg dispatches on the update's class, so only floe's updates are applied this way.
@register_update(RemoveSnapshots)
def _(update: RemoveSnapshots, base_metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    expired = set(update.snapshot_ids)
    if missing := sorted(expired - {snapshot.snapshot_id for snapshot in base_metadata.snapshots}):
        msg = f"Cannot remove unknown snapshots: {missing}"
        raise ValueError(msg)
    metadata = base_metadata
    for dependent in _dependent_removals(metadata, expired):
        metadata = apply_update(dependent, metadata, context)
    context.add_update(update)
    kept = [snapshot for snapshot in metadata.snapshots if snapshot.snapshot_id not in expired]
    return metadata.model_copy(
        update={
            "snapshots": kept,
            "snapshot_log": _unbroken(metadata.snapshot_log, {snapshot.snapshot_id for snapshot in kept}),
        }
    )


def _dependent_removals(metadata: TableMetadata, expired: set[int]) -> Iterator[TableUpdate]:
    for name, ref in metadata.refs.items():
        if ref.snapshot_id in expired:
            yield RemoveSnapshotRefUpdate(ref_name=name)
    for snapshot_id in {file.snapshot_id for file in metadata.statistics} & expired:
        yield RemoveStatisticsUpdate(snapshot_id=snapshot_id)
    for snapshot_id in {file.snapshot_id for file in metadata.partition_statistics} & expired:
        yield RemovePartitionStatisticsUpdate(snapshot_id=snapshot_id)


def _unbroken(log: list[SnapshotLogEntry], kept: set[int]) -> list[SnapshotLogEntry]:
    """Return the log after its last missing snapshot, because time travel across a gap finds the wrong version."""
    last_gap = max((position for position, entry in enumerate(log) if entry.snapshot_id not in kept), default=-1)
    return log[last_gap + 1 :]


def with_version_1_fields(metadata: TableMetadata) -> TableMetadata:
    """Return metadata with the fields specific to format version 1 set to the current schema and spec.

    PyIceberg never updates them, but readers that only support version 1 rely on them.
    """
    if not isinstance(metadata, TableMetadataV1):
        return metadata
    spec = [field.model_dump(mode="json", by_alias=True) for field in metadata.spec().fields]
    return metadata.model_copy(update={"schema_": metadata.schema(), "partition_spec": spec})
