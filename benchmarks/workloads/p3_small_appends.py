"""P3: 300 small appends to one table."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.arms import FloeTable, PyIcebergTable, TableArm
from benchmarks.data import lineitem

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

TITLE = "300 small appends to one table"
APPENDS = 300
ROWS = 1_000
EDGE = 10


class _Appends(TableArm):
    digest = ("l_orderkey", "l_linenumber")

    def rows(self, scale: float) -> pa.Table:
        return lineitem(int(APPENDS * scale) * ROWS)

    def timed(self, append: Callable[[pa.Table], object]) -> dict[str, float]:
        """Append slice by slice, and compare the last appends with the first."""
        laps = []
        for start in range(0, self.data.num_rows, ROWS):
            piece = self.data.slice(start, ROWS)
            started = time.perf_counter()
            append(piece)
            laps.append(time.perf_counter() - started)
        first, last = statistics.median(laps[:EDGE]), statistics.median(laps[-EDGE:])
        return {"first_ms": first * 1000, "last_ms": last * 1000, "last_to_first": last / first}


class Floe(_Appends, FloeTable):
    """floe's append."""

    def run(self) -> dict[str, float]:
        return self.timed(lambda piece: self.manager.append(self.name, piece))


class PyIceberg(_Appends, PyIcebergTable):
    """Plain PyIceberg."""

    def run(self) -> dict[str, float]:
        return self.timed(self.table.append)


ARMS = {"floe": Floe, "pyiceberg": PyIceberg}
GOALS = {"pyiceberg": 0.2}
FIGURE_GOALS = {"last_to_first": 1.5}
