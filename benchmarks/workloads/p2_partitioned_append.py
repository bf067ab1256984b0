"""P2: append into 84 month partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.arms import FloeTable, PyIcebergTable, SparkTable, TableArm
from benchmarks.data import lineitem

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

TITLE = "append into 84 month partitions"
ROWS_AT_SCALE_ONE = 6_000_000


class _Append(TableArm):
    digest = ("l_orderkey", "l_returnflag", "l_linenumber")
    month_column = "l_shipdate"

    def rows(self, scale: float) -> pa.Table:
        return lineitem(int(ROWS_AT_SCALE_ONE * scale))


class Floe(_Append, FloeTable):
    """floe's append."""

    def run(self) -> dict[str, float]:
        snapshot = self.manager.append(self.name, self.data)
        return {"files": float(snapshot.summary["added-data-files"])}


class PyIceberg(_Append, PyIcebergTable):
    """Plain PyIceberg."""

    def run(self) -> None:
        self.table.append(self.data)


class Spark(_Append, SparkTable):
    """Plain Spark, from a Parquet file of the same rows: as Arrow data, they do not fit into its driver's memory."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.source = str(folder / "source.parquet")
        pq.write_table(self.data, self.source, compression="zstd")

    def run(self) -> None:
        self.spark.read.parquet(self.source).writeTo(self.target).append()


ARMS = {"floe": Floe, "pyiceberg": PyIceberg, "spark": Spark}
GOALS = {"pyiceberg": 0.5, "spark": 0.7}
