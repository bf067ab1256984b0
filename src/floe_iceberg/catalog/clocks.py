"""Keeps the timestamps of a table monotonic, even if the clocks of its writers differ.

Iceberg's Java implementation rejects metadata whose last update is before an entry of its logs, and logs that are out
of order. The timestamp of every change is therefore the writer's time, or just after the table's newest timestamp if
that is later.

For the embedded, Hive and Glue catalogs, PyIceberg uses the local time, which ``with_monotonic_timestamps`` corrects. A
REST catalog sets the time of a change itself and rejects a snapshot that is more than a minute ahead, so the timestamp
of a snapshot follows the server's clock.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, cast

from pydantic import Field
from pyiceberg.table.snapshots import SnapshotLogEntry
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate

from floe_iceberg.catalog.metadata_updates import with_version_1_fields
from floe_iceberg.pyiceberg_internals.metadata import UpdateContext, register_update

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

_JAVA_TOLERANCE_SECONDS = 60


def next_timestamp(metadata: TableMetadata, *, offset_ms: int = 0) -> int:
    """Return the timestamp in milliseconds for a change made now, later than all timestamps of the table.

    Args:
        metadata: The table's metadata.
        offset_ms: Milliseconds by which the catalog's clock is ahead of this machine's clock.
    """
    return max(int(time.time() * 1000) + offset_ms, earliest_timestamp(metadata))


def earliest_timestamp(metadata: TableMetadata) -> int:
    """Return the earliest valid timestamp for a change, later than all timestamps of the table."""
    logs = (metadata.snapshot_log[-1:], metadata.metadata_log[-1:])
    return 1 + max([metadata.last_updated_ms, *(entry.timestamp_ms for log in logs for entry in log)])


def seconds_ahead(metadata: TableMetadata) -> float:
    """Return the seconds by which a table's timestamps are ahead of this machine's clock, at least 0."""
    return max(0.0, earliest_timestamp(metadata) / 1000 - time.time())


def seconds_until_java_writes(metadata: TableMetadata) -> float:
    """Return the seconds until Iceberg's Java implementation accepts a write by this machine's clock; 0 if now."""
    return max(0.0, seconds_ahead(metadata) - _JAVA_TOLERANCE_SECONDS)


def with_timestamps_after(base: TableMetadata, changed: TableMetadata) -> TableMetadata:
    """Return changed metadata with new timestamps moved after those of its base metadata."""
    earliest = earliest_timestamp(base)
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in base.snapshot_log}
    log = [
        entry
        if entry.timestamp_ms >= earliest or (entry.snapshot_id, entry.timestamp_ms) in known
        else SnapshotLogEntry(snapshot_id=entry.snapshot_id, timestamp_ms=earliest)
        for entry in changed.snapshot_log
    ]
    unset = changed.last_updated_ms == base.last_updated_ms
    timestamp = next_timestamp(base) if unset else max(changed.last_updated_ms, earliest)
    return changed.model_copy(update={"last_updated_ms": timestamp, "snapshot_log": log})


class _Begin(SetPropertiesUpdate):
    """Update without effect that records the metadata before a commit's updates."""

    updates: dict[str, str] = Field(default_factory=dict)


class _End(SetPropertiesUpdate):
    """Update that sets timestamps and the fields specific to format version 1 after a commit's updates."""

    updates: dict[str, str] = Field(default_factory=dict)


class _BaseContext(UpdateContext):
    """Update context with the base metadata recorded by ``_Begin``."""

    base: TableMetadata


def with_monotonic_timestamps(updates: tuple[TableUpdate, ...]) -> tuple[TableUpdate, ...]:
    """Wrap updates that PyIceberg applies in this process, so the table's timestamps stay monotonic.

    The fields specific to format version 1 are set to the current schema and spec.
    """
    return (_Begin(), *updates, _End())


@register_update(_Begin)
def _(update: _Begin, base_metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    del update
    cast("_BaseContext", context).base = base_metadata
    return base_metadata


@register_update(_End)
def _(update: _End, base_metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    del update
    if not context.has_changes():
        return base_metadata
    return with_version_1_fields(with_timestamps_after(cast("_BaseContext", context).base, base_metadata))
