"""Incremental inputs: the rows added to a table since the asset last read it."""

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
        start: Last snapshot that the asset has read; None to read the table from the beginning.
        end: Last snapshot to read; None for a table without snapshots.
        reset: Whether the asset reads all rows again.
    """

    source: str
    start: int | None
    end: int | None
    reset: bool = False

    @property
    def mark(self) -> dict[str, str]:
        """Properties for the snapshot that contains the asset's own rows."""
        if self.end is None:
            return {}
        since = {} if self.reset else since_mark(self.source, self.start)
        return {**read_mark(self.source, self.end), **since}


def everything(manager: IcebergTableManager, source: str) -> Increment:
    """Return all rows of a table, for an asset that has not read any."""
    return Increment(source, None, manager.load_table(source).metadata.current_snapshot_id)


def increment_since(
    manager: IcebergTableManager, source: str, own: str, *, asset: str, full_refresh: bool = False
) -> Increment:
    """Determine the rows that an asset has not read yet.

    Args:
        manager: Opens both tables.
        source: The table that is read.
        own: The asset's own table, whose snapshots record what was read.
        asset: The asset's name, for messages.
        full_refresh: Read all rows again.

    Raises:
        ConfigurationError: The asset's table has rows but no record of what was read.
    """
    end = manager.load_table(source).metadata.current_snapshot_id
    if full_refresh or not manager.table_exists(own):
        return Increment(source, None, end, reset=full_refresh)
    table = manager.load_table(own)
    start = last_read(table, source)
    current = table.metadata.current_snapshot()
    rows = int(current.summary.additional_properties.get("total-records", 0)) if current and current.summary else 0
    if start is None and rows:
        msg = f"Asset '{asset}' reads '{source}' incrementally, but its {rows:,} rows have no record of what was read."
        raise ConfigurationError(msg, hint=f"Rebuild them once: floe run --select {own} --full-refresh", table=own)
    return Increment(source, start, end)
