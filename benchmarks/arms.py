"""Arms that begin every round with a fresh table: floe's, plain PyIceberg's and plain Spark's."""

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
    """Start Spark for a manager; return its session and how long that took."""
    started = time.perf_counter()
    spark = manager.spark
    spark.sql("SELECT 1").collect()
    return spark, time.perf_counter() - started


class TableArm:
    """What a workload says about its table, whoever writes it.

    Attributes:
        digest: Columns that tell a right outcome from a wrong one.
        month_column: Column whose months are partitions, None for a table without.
    """

    digest: tuple[str, ...]
    month_column: str | None = None

    def rows(self, scale: float) -> pa.Table:
        """Return the rows that are written."""
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
    """A table of floe's."""

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
    """A table of plain PyIceberg's."""

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
    """A table that plain Spark writes, in a session with floe's settings; floe only makes it and reads it back."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.spark, self.start_seconds = started_spark(self.manager)

    @property
    def target(self) -> str:
        """The table's name in Spark."""
        return f"{self.manager.catalog.name}.{self.name}"
