"""P1: append one or several million rows to a new table."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arms import FloeTable, PyIcebergTable, TableArm
from benchmarks.data import lineitem
from benchmarks.peers import rows_digest

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "bulk append of Arrow rows"
ROWS_AT_SCALE_ONE = 1_000_000


class _Append(TableArm):
    digest = ("l_orderkey", "l_returnflag", "l_linenumber")

    def rows(self, scale: float) -> pa.Table:
        return lineitem(int(ROWS_AT_SCALE_ONE * scale))

    def timed(self, work: Callable[[], object]) -> dict[str, float]:
        started = time.perf_counter()
        work()
        return {"seconds_a_million_rows": (time.perf_counter() - started) / self.scale}


class Floe(_Append, FloeTable):
    """floe's append."""

    def run(self) -> dict[str, float]:
        return self.timed(lambda: self.manager.append(self.name, self.data))


class PyIceberg(_Append, PyIcebergTable):
    """Plain PyIceberg."""

    def run(self) -> dict[str, float]:
        return self.timed(lambda: self.table.append(self.data))


class Parquet(_Append):
    """One zstd Parquet file, without a table format."""

    def reset(self, round_number: int) -> None:
        self.file = self.folder / f"{round_number}.parquet"

    def run(self) -> dict[str, float]:
        return self.timed(
            lambda: pq.write_table(
                self.data, self.file, compression="zstd", compression_level=1, row_group_size=1_048_576
            )
        )

    def checksum(self) -> str:
        return rows_digest(pa.table(pq.read_table(self.file, columns=list(self.digest))), self.digest)


ARMS = {"floe": Floe, "pyiceberg": PyIceberg, "parquet": Parquet}
GOALS = {"pyiceberg": 1.05, "parquet": 1.15}
# SC-003: a million rows within a minute.
FIGURE_GOALS = {"seconds_a_million_rows": 60.0}
REQUIREMENTS = {"seconds_a_million_rows": "SC-003"}
