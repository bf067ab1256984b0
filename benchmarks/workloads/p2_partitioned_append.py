"""P2: append into 84 month partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.transforms import MonthTransform

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "append into 84 month partitions"
DIGEST = ("l_orderkey", "l_returnflag", "l_linenumber")


class Floe:
    """floe's own append."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.data = lineitem(int(6_000_000 * scale))
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(
            self.name, self.data.schema, partition_spec=["month(l_shipdate)"], properties=PROPERTIES
        )

    def run(self) -> dict[str, float]:
        snapshot = self.manager.append(self.name, self.data)
        return {"files": float(snapshot.summary["added-data-files"])}

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        self.manager.close()


class PyIceberg:
    """Plain PyIceberg."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.data = lineitem(int(6_000_000 * scale))
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        self.table = self.catalog.create_table(f"{NAMESPACE}.t{round_number}", self.data.schema, properties=PROPERTIES)
        with self.table.update_spec() as update:
            update.add_field("l_shipdate", MonthTransform(), "l_shipdate_month")

    def run(self) -> None:
        self.table.append(self.data)

    def checksum(self) -> str:
        return rows_digest(self.table.scan(selected_fields=DIGEST).to_arrow(), DIGEST)

    def close(self) -> None:
        pass


class Spark:
    """Spark by hand, warm, from the same Arrow table."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.data = lineitem(int(6_000_000 * scale))
        self.manager = open_floe(folder)
        self.spark = self.manager.spark

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(
            self.name, self.data.schema, partition_spec=["month(l_shipdate)"], properties=PROPERTIES
        )

    def run(self) -> None:
        self.spark.createDataFrame(self.data).writeTo(f"{self.manager.catalog.name}.{self.name}").append()

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        self.manager.close()


ARMS = {"floe": Floe, "pyiceberg": PyIceberg, "spark": Spark}
GOALS = {"pyiceberg": 0.5, "spark": 0.7}
