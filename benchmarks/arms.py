"""Arms that create a new table for each round: with floe, plain PyIceberg and plain Spark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pyiceberg.transforms import MonthTransform

from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from floe_iceberg import IcebergTableManager


def started_spark(manager: IcebergTableManager) -> tuple[SparkSession, float]:
    """Start Spark for a manager; return its session and the time it took."""
    started = time.perf_counter()
    spark = manager.spark
    spark.sql("SELECT 1").collect()
    return spark, time.perf_counter() - started


class TableArm:
    """The table of a workload, common to all arms.

    Attributes:
        digest: The columns that the checksum covers.
        month_column: The column by whose months the table is partitioned; None for unpartitioned tables.
    """

    digest: tuple[str, ...]
    month_column: str | None = None

    def rows(self, scale: float) -> pa.Table:
        """Return the rows to write."""
        raise NotImplementedError

    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.scale = scale
        self.data = self.rows(scale)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"

    def close(self) -> None:
        pass


class FloeTable(TableArm):
    """A table written by floe."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        super().reset(round_number)
        spec = [f"month({self.month_column})"] if self.month_column else None
        self.manager.create_table(self.name, self.data.schema, partition_spec=spec, properties=PROPERTIES)

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(self.digest)), self.digest)

    def close(self) -> None:
        self.manager.close()


class PyIcebergTable(TableArm):
    """A table written by plain PyIceberg."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        super().reset(round_number)
        self.table = self.catalog.create_table(self.name, self.data.schema, properties=PROPERTIES)
        if self.month_column:
            with self.table.update_spec() as update:
                update.add_field(self.month_column, MonthTransform(), f"{self.month_column}_month")

    def checksum(self) -> str:
        return rows_digest(self.table.scan(selected_fields=self.digest).to_arrow(), self.digest)


class SparkTable(FloeTable):
    """A table that plain Spark writes in a session with floe's settings; floe only creates it and reads it back."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.spark, self.start_seconds = started_spark(self.manager)

    @property
    def target(self) -> str:
        """The table's name in Spark."""
        return f"{self.manager.catalog.name}.{self.name}"
