"""A table's clock, which never runs backwards, however far the clocks of its writers are apart.

Iceberg's Java refuses metadata whose last update lies before an entry of its logs, and logs that are out of order. The
moment of every change is therefore the writer's time, or just after the table's newest moment when that is later.
For the embedded, Hive and Glue catalogs PyIceberg takes the local time as it is, and ``clocked`` puts that right. A
REST catalog sets the time of a change itself and refuses a snapshot that is a minute ahead of it, so that a snapshot's
moment follows the server's clock.
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

_JAVAS_TOLERANCE_SECONDS = 60


def next_moment(metadata: TableMetadata, *, offset_ms: int = 0) -> int:
    """Return the moment, in milliseconds, of a change made now: later than all that the table has seen.

    Args:
        metadata: The table's metadata.
        offset_ms: How far the catalog's clock is ahead of this machine's.
    """
    return max(int(time.time() * 1000) + offset_ms, earliest_moment(metadata))


def earliest_moment(metadata: TableMetadata) -> int:
    """Return the earliest moment that a change of a table may have: later than all that the table has seen."""
    logs = (metadata.snapshot_log[-1:], metadata.metadata_log[-1:])
    return 1 + max([metadata.last_updated_ms, *(entry.timestamp_ms for log in logs for entry in log)])


def seconds_ahead(metadata: TableMetadata) -> float:
    """Return how far a table's clock is ahead of this machine's; 0 if it is not."""
    return max(0.0, earliest_moment(metadata) / 1000 - time.time())


def seconds_until_java_writes(metadata: TableMetadata) -> float:
    """Return for how long Iceberg's Java will refuse to write a table by this machine's time; 0 if it writes now."""
    return max(0.0, seconds_ahead(metadata) - _JAVAS_TOLERANCE_SECONDS)


def in_order(base: TableMetadata, changed: TableMetadata) -> TableMetadata:
    """Return changed metadata with its new moments after those of the metadata it was changed from."""
    earliest = earliest_moment(base)
    known = {(entry.snapshot_id, entry.timestamp_ms) for entry in base.snapshot_log}
    log = [
        entry
        if entry.timestamp_ms >= earliest or (entry.snapshot_id, entry.timestamp_ms) in known
        else SnapshotLogEntry(snapshot_id=entry.snapshot_id, timestamp_ms=earliest)
        for entry in changed.snapshot_log
    ]
    unset = changed.last_updated_ms == base.last_updated_ms
    moment = next_moment(base) if unset else max(changed.last_updated_ms, earliest)
    return changed.model_copy(update={"last_updated_ms": moment, "snapshot_log": log})


class _Begin(SetPropertiesUpdate):
    """Sets nothing, and remembers the metadata that the updates of a commit begin with."""

    updates: dict[str, str] = Field(default_factory=dict)


class _End(SetPropertiesUpdate):
    """Sets the clock, and the fields of format version 1 alone, after the updates of a commit."""

    updates: dict[str, str] = Field(default_factory=dict)


class _Began(UpdateContext):
    """Declares what ``_Begin`` leaves in the context."""

    base: TableMetadata


def clocked(updates: tuple[TableUpdate, ...]) -> tuple[TableUpdate, ...]:
    """Return updates for PyIceberg to apply in this process, so that the table's clock does not run backwards.

    The fields of format version 1 alone follow the current schema and spec.
    """
    return (_Begin(), *updates, _End())


@register_update(_Begin)
def _(update: _Begin, base_metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    del update
    cast("_Began", context).base = base_metadata
    return base_metadata


@register_update(_End)
def _(update: _End, base_metadata: TableMetadata, context: UpdateContext) -> TableMetadata:
    del update
    if not context.has_changes():
        return base_metadata
    return with_version_1_fields(in_order(cast("_Began", context).base, base_metadata))
