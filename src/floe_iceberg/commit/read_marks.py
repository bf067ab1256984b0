"""Up to where a table's rows were made out of another table, noted in the snapshot that brought them.

The note lands with the rows or not at all, and a rollback takes both back, so that whoever reads on from it misses
nothing and reads nothing twice. Every snapshot that floe makes in process carries the notes of the one before, so that
they outlive the snapshot they came with. Beside it stands since when the rows were read: a commit on a table that has
been told of those rows by another run meanwhile does not land.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.errors import ConcurrencyConflictError
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.read.versions import ancestors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

READ_PREFIX = "floe.read."
_SINCE_PREFIX = "floe.read-since."
_THE_BEGINNING = "the beginning"


def read_mark(source: str, snapshot_id: int) -> dict[str, str]:
    """Return the snapshot property that notes up to where a source was read."""
    return {f"{READ_PREFIX}{source}": str(snapshot_id)}


def since_mark(source: str, snapshot_id: int | None) -> dict[str, str]:
    """Return the snapshot property that notes since when a source was read; None for its beginning."""
    return {f"{_SINCE_PREFIX}{source}": _THE_BEGINNING if snapshot_id is None else str(snapshot_id)}


def reads_on(properties: Mapping[str, str]) -> bool:
    """Whether a snapshot with these properties goes on from what another one has read."""
    return any(key.startswith(_SINCE_PREFIX) for key in properties)


def require_unread(
    metadata: TableMetadata, parent_id: int | None, properties: Mapping[str, str], *, table: str
) -> None:
    """Refuse a snapshot on a parent that has the rows it was made of already.

    Raises:
        ConcurrencyConflictError: Another run has read the same rows.
    """
    for key, since in properties.items():
        if not key.startswith(_SINCE_PREFIX):
            continue
        source = key.removeprefix(_SINCE_PREFIX)
        if since_mark(source, _noted(metadata, parent_id, source))[key] != since:
            msg = (
                f"Another run has read the same rows of '{source}' into table '{table}' meanwhile; nothing was written."
            )
            raise ConcurrencyConflictError(msg, hint="Run it again: it reads on from there.", table=table)


def last_read(table: Table, source: str) -> int | None:
    """Return the last snapshot of a source that is in a table's rows on main; None when nothing says."""
    main = table.metadata.refs.get(MAIN_BRANCH)
    return _noted(table.metadata, main.snapshot_id if main else None, source)


def _noted(metadata: TableMetadata, snapshot_id: int | None, source: str) -> int | None:
    for snapshot in ancestors(metadata, snapshot_id):
        noted = _marks(snapshot).get(f"{READ_PREFIX}{source}")
        if noted is not None:
            return int(noted)
    return None


def carried_marks(parent: Snapshot | None) -> Mapping[str, str]:
    """Return the notes that the next snapshot goes on with."""
    return {} if parent is None else _marks(parent)


def _marks(snapshot: Snapshot) -> dict[str, str]:
    properties = summary_of(snapshot)
    return {key: value for key, value in properties.items() if key.startswith(READ_PREFIX)}
