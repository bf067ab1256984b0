"""P9: a Dagster materialization of 1,000 rows."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from dagster import AssetsDefinition, DagsterInstance, asset, materialize

from benchmarks.data import lineitem
from benchmarks.environments import ForeignProcess, environment
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest
from floe_dagster import IcebergIOManager

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "one Dagster materialization of 1k rows"
ROWS = 1_000
MATERIALIZATIONS = 20
DIGEST = ("l_orderkey", "l_linenumber")
SCRIPT = Path(__file__).parent / "p9_dagster_iceberg.py"
# dagster-iceberg pins pyiceberg<0.12 and the version of Dagster with which it was released.
PACKAGES = ("dagster-iceberg==0.3.*", "pyiceberg[pyarrow,sql-sqlite,pyiceberg-core]<0.12")

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"


class _Materialized:
    """An asset that is materialized repeatedly into the same table."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.count = max(3, int(MATERIALIZATIONS * scale))
        self.data = lineitem(ROWS)
        self.instance = DagsterInstance.ephemeral()

    def timed(self, assets: AssetsDefinition, **resources: Any) -> dict[str, float]:
        def once() -> None:
            materialize([assets], instance=self.instance, resources=resources)

        return {"ms": statistics.median(lap(once) for _ in range(self.count)) * 1000}

    def close(self) -> None:
        self.instance.dispose()


def lap(work: Callable[[], object]) -> float:
    """Return the time of one materialization."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


class Floe(_Materialized):
    """floe's IO manager."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"t{round_number}"
        self.manager.create_table(f"{NAMESPACE}.{self.name}", self.data.schema, properties=PROPERTIES)

    def run(self) -> dict[str, float]:
        data = self.data

        @asset(key=[NAMESPACE, self.name])
        def rows() -> pa.Table:
            return data

        return self.timed(rows, io_manager=IcebergIOManager(table_manager=self.manager))

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(f"{NAMESPACE}.{self.name}", columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        super().close()
        self.manager.close()


class NoOp(_Materialized):
    """A step that appends with plain PyIceberg and returns nothing to Dagster."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.catalog.create_table(self.name, self.data.schema, properties=PROPERTIES)

    def run(self) -> dict[str, float]:
        catalog, name, data = self.catalog, self.name, self.data

        @asset(key=name.split("."))
        def rows() -> None:
            catalog.load_table(name).append(data)

        return self.timed(rows)

    def checksum(self) -> str:
        return rows_digest(self.catalog.load_table(self.name).scan(selected_fields=DIGEST).to_arrow(), DIGEST)


class DagsterIceberg:
    """The package dagster-iceberg, in a separate environment."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.process = ForeignProcess(environment("dagster-iceberg", PACKAGES), SCRIPT)
        rows = folder / "rows.arrow"
        with pa.OSFile(str(rows), "wb") as sink, pa.ipc.new_file(sink, (data := lineitem(ROWS)).schema) as writer:
            writer.write_table(data)
        count = max(3, int(MATERIALIZATIONS * scale))
        self.process.ask(
            do="prepare", folder=str(folder), namespace=NAMESPACE, properties=PROPERTIES, rows=str(rows), count=count
        )

    def reset(self, round_number: int) -> None:
        self.process.ask(do="reset", name=f"t{round_number}")

    def run(self) -> dict[str, float]:
        return {"ms": self.process.ask(do="run")["ms"]}

    def checksum(self) -> str:
        file = self.process.ask(do="read", columns=list(DIGEST))["file"]
        with pa.memory_map(file) as source:
            return rows_digest(pa.ipc.open_file(source).read_all(), DIGEST)

    def close(self) -> None:
        self.process.close()


ARMS = {"floe": Floe, "dagster no-op + pyiceberg": NoOp, "dagster-iceberg": DagsterIceberg}
GOALS = {"dagster-iceberg": 1.0}
DIFFERENCE_GOALS = {"dagster no-op + pyiceberg": 10.0}
# A round consists of several materializations; their medians are compared.
COMPARED = "ms"
UNIT = "ms"
