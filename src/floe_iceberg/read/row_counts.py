"""How many rows a snapshot has, as far as its summary tells."""

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
        exact: Whether there are as many for certain; with delete files only a read tells.
    """

    rows: int = 0
    exact: bool = True

    @classmethod
    def of(cls, summary: Mapping[str, str]) -> RowCount:
        """Read it from the summary of a snapshot."""
        rows, deleted = (int(summary.get(key, 0)) for key in ("total-records", "total-position-deletes"))
        # A position may be deleted twice, or in a file that is gone, and nobody counts what equality deletes hit.
        return cls(max(0, rows - deleted), exact=int(summary.get("total-delete-files", 0)) == 0)

    def __str__(self) -> str:
        """Show it as people read it."""
        return f"{self.rows:,}" if self.exact else f"about {self.rows:,}"
