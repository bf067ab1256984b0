"""Up to where a table's rows were made out of another table, noted in the snapshot that brought them.

The note lands with the rows or not at all, and a rollback takes both back, so that whoever reads on from it misses
nothing and reads nothing twice. Every snapshot that floe makes in process carries the notes of the one before, so that
they outlive the snapshot they came with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_iceberg.commits import ancestry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

READ_PREFIX = "floe.read."


def read_mark(source: str, snapshot_id: int) -> dict[str, str]:
    """Return the snapshot property that notes up to where a source was read."""
    return {f"{READ_PREFIX}{source}": str(snapshot_id)}


def last_read(table: Table, source: str) -> int | None:
    """Return the last snapshot of a source that is in a table's rows on main; None when nothing says."""
    for snapshot in ancestry(table.metadata):
        noted = _marks(snapshot).get(f"{READ_PREFIX}{source}")
        if noted is not None:
            return int(noted)
    return None


def carried_marks(parent: Snapshot | None) -> Mapping[str, str]:
    """Return the notes that the next snapshot goes on with."""
    return {} if parent is None else _marks(parent)


def _marks(snapshot: Snapshot) -> dict[str, str]:
    properties = snapshot.summary.additional_properties if snapshot.summary else {}
    return {key: value for key, value in properties.items() if key.startswith(READ_PREFIX)}
