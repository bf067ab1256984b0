"""Incremental inputs: what was added to a table since the asset last read it, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.errors import ConfigurationError
from floe_iceberg.commit.read_marks import last_read, read_mark, since_mark

if TYPE_CHECKING:
    from floe_iceberg.manager import IcebergTableManager


@dataclass(frozen=True)
class Increment:
    """The rows of a table that one run of an asset reads.

    Attributes:
        source: The table.
        start: Snapshot that the asset has read already; None to read the table from its beginning.
        end: Last snapshot to read; None for a table that has none.
        again: Whether the asset begins again, whatever it has read.
    """

    source: str
    start: int | None
    end: int | None
    again: bool = False

    @property
    def mark(self) -> dict[str, str]:
        """What the snapshot of the asset's own rows notes."""
        if self.end is None:
            return {}
        since = {} if self.again else since_mark(self.source, self.start)
        return {**read_mark(self.source, self.end), **since}


def everything(manager: IcebergTableManager, source: str) -> Increment:
    """Return all of a table, as an asset reads it that has read nothing yet."""
    return Increment(source, None, manager.load_table(source).metadata.current_snapshot_id)


def increment_since(
    manager: IcebergTableManager, source: str, own: str, *, asset: str, full_refresh: bool = False
) -> Increment:
    """Find out what an asset has not read yet.

    Args:
        manager: Opens both tables.
        source: The table that is read.
        own: The asset's own table, whose snapshots say how far it came.
        asset: The asset's name, for messages.
        full_refresh: Begin again.

    Raises:
        ConfigurationError: The asset's table has rows, and nothing says which rows of the source they were made of.
    """
    end = manager.load_table(source).metadata.current_snapshot_id
    if full_refresh or not manager.table_exists(own):
        return Increment(source, None, end, again=full_refresh)
    table = manager.load_table(own)
    start = last_read(table, source)
    current = table.metadata.current_snapshot()
    rows = int(current.summary.additional_properties.get("total-records", 0)) if current and current.summary else 0
    if start is None and rows:
        msg = f"Asset '{asset}' reads '{source}' incrementally, and nothing says how far its {rows:,} rows go."
        raise ConfigurationError(msg, hint=f"Make them again, once: floe run --select {own} --full-refresh", table=own)
    return Increment(source, start, end)
