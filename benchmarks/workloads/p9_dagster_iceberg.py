"""The dagster-iceberg arm of P9: runs in a separate environment without floe."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any

os.environ["DAGSTER_DISABLE_TELEMETRY"] = "1"
warnings.simplefilter("ignore")

import pyarrow as pa  # noqa: E402 - warnings first
from dagster import DagsterInstance, asset, materialize  # noqa: E402
from dagster_iceberg.config import IcebergCatalogConfig  # noqa: E402
from dagster_iceberg.io_manager.arrow import PyArrowIcebergIOManager  # noqa: E402
from pyiceberg.catalog.sql import SqlCatalog  # noqa: E402


class Arm:
    """Handles one request at a time."""

    def prepare(self, *, folder: str, namespace: str, properties: dict[str, str], rows: str, count: int) -> dict:
        """Open catalog and IO manager."""
        self.folder, self.namespace, self.properties, self.count = Path(folder), namespace, properties, count
        with pa.memory_map(rows) as source:
            self.data = pa.ipc.open_file(source).read_all()
        where = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self.catalog = SqlCatalog("peer", **where)
        self.catalog.create_namespace_if_not_exists(namespace)
        self.io_manager = PyArrowIcebergIOManager(
            name="peer", config=IcebergCatalogConfig(properties={"type": "sql", **where}), namespace=namespace
        )
        self.instance = DagsterInstance.ephemeral()
        return {}

    def reset(self, *, name: str) -> dict:
        """Create the table."""
        self.name = name
        self.catalog.create_table(f"{self.namespace}.{name}", self.data.schema, properties=self.properties)
        return {}

    def run(self) -> dict:
        """Materialize repeatedly, and return the median time."""
        data = self.data

        @asset(name=self.name, metadata={"write_mode": "append"})
        def rows() -> pa.Table:
            return data

        laps = []
        for _ in range(self.count):
            started = time.perf_counter()
            materialize([rows], instance=self.instance, resources={"io_manager": self.io_manager})
            laps.append(time.perf_counter() - started)
        return {"ms": statistics.median(laps) * 1000}

    def read(self, *, columns: list[str]) -> dict:
        """Write the table's rows to a file, from which floe's process computes the checksum."""
        found = self.catalog.load_table(f"{self.namespace}.{self.name}").scan(selected_fields=tuple(columns)).to_arrow()
        file = str(self.folder / f"{self.name}.arrow")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_file(sink, found.schema) as writer:
            writer.write_table(found)
        return {"file": file}


def main() -> None:
    """Answer requests until the input ends; all other output goes to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    arm: Any = Arm()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(arm, request.pop("do"))(**request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
