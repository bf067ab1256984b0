"""Read marks: snapshot properties that record how far a table's rows have been read from a source table.

A mark is committed together with the rows, and a rollback reverts both, so an incremental read that continues from the
mark neither misses rows nor reads them twice. Every snapshot that floe creates in process copies the marks of its
parent, so marks survive the expiry of the snapshot that set them. A second property records where the read started: if
another run has committed the same rows in the meantime, the commit fails.
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
_FROM_START = "the beginning"


def read_mark(source: str, snapshot_id: int) -> dict[str, str]:
    """Return the snapshot property that records the last source snapshot that was read."""
    return {f"{READ_PREFIX}{source}": str(snapshot_id)}


def since_mark(source: str, snapshot_id: int | None) -> dict[str, str]:
    """Return the snapshot property that records where the read of a source started; None for its beginning."""
    return {f"{_SINCE_PREFIX}{source}": _FROM_START if snapshot_id is None else str(snapshot_id)}


def continues_read(properties: Mapping[str, str]) -> bool:
    """Whether a snapshot with these properties continues an incremental read."""
    return any(key.startswith(_SINCE_PREFIX) for key in properties)


def require_unread(
    metadata: TableMetadata, parent_id: int | None, properties: Mapping[str, str], *, table: str
) -> None:
    """Require that the parent does not already contain the source rows of a new snapshot.

    Raises:
        ConcurrencyConflictError: Another run has already read the same rows.
    """
    for key, since in properties.items():
        if not key.startswith(_SINCE_PREFIX):
            continue
        source = key.removeprefix(_SINCE_PREFIX)
        if since_mark(source, _last_mark(metadata, parent_id, source))[key] != since:
            msg = f"Another run has already read the same rows of '{source}' into table '{table}'; nothing was written."
            raise ConcurrencyConflictError(msg, hint="Run it again to continue after those rows.", table=table)


def last_read(table: Table, source: str) -> int | None:
    """Return the last source snapshot that was read into a table's main branch; None if none is recorded."""
    main = table.metadata.refs.get(MAIN_BRANCH)
    return _last_mark(table.metadata, main.snapshot_id if main else None, source)


def _last_mark(metadata: TableMetadata, snapshot_id: int | None, source: str) -> int | None:
    for snapshot in ancestors(metadata, snapshot_id):
        mark = _marks(snapshot).get(f"{READ_PREFIX}{source}")
        if mark is not None:
            return int(mark)
    return None


def carried_marks(parent: Snapshot | None) -> Mapping[str, str]:
    """Return the marks that the next snapshot copies from its parent."""
    return {} if parent is None else _marks(parent)


def _marks(snapshot: Snapshot) -> dict[str, str]:
    properties = summary_of(snapshot)
    return {key: value for key, value in properties.items() if key.startswith(READ_PREFIX)}
