"""Row counts from snapshot summaries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class RowCount:
    """A number of rows.

    Attributes:
        rows: The number.
        exact: Whether the number is exact; with delete files, only a read can count the rows.
    """

    rows: int = 0
    exact: bool = True

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> RowCount:
        """Compute the count from a snapshot summary."""
        rows, deleted = (int(summary.get(key, 0)) for key in ("total-records", "total-position-deletes"))
        # A position may be deleted twice or in a removed file, and equality deletes are not counted per row.
        return cls(max(0, rows - deleted), exact=int(summary.get("total-delete-files", 0)) == 0)

    def __str__(self) -> str:
        """Format the count for display."""
        return f"{self.rows:,}" if self.exact else f"about {self.rows:,}"
