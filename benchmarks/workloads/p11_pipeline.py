"""P11: the flights example end to end, compared with the same pipeline written with only PySpark.

Each arm has its own engine, with the same settings: ``local`` is a driver with two cores, ``cluster`` a standalone
master with two workers, ``connect`` a Spark Connect server.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers import rows_digest
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager
from floe_spark.server.connect_server import start_server, stop_server
from floe_spark.session.sessions import open_engine
from floe_spark.session.settings import SparkSettings

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts

TITLE = "the flights example end to end"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "flights"
DAYS_OF_A_YEAR = 365
SETTINGS = {"spark.sql.shuffle.partitions": "2"}
DIGESTS = {
    "bronze.flights": ("flight", "delivery"),
    "silver.flights": ("flight", "dep_delay", "origin", "seats"),
    "gold.carrier_hours": ("flights", "cancelled", "airline"),
    "gold.routes": ("flights", "cancelled", "destination"),
    "gold.daily": ("flights", "cancelled"),
}

sys.path.insert(0, str(EXAMPLE))


class _Flights:
    """A folder of deliveries, with an empty project for each round."""

    def __init__(self, variant: str) -> None:
        """Choose the engine."""
        self.variant = variant

    def prepare(self, folder: Path, scale: float) -> None:
        os.environ["FLIGHTS_LANDING"] = str(folder / "landing")
        from flights import feed

        self.folder = folder
        self.stack = ExitStack()
        first = feed.FIRST_DAY
        # Stops before the day whose delivery has wrong values.
        count = max(2, min(int(DAYS_OF_A_YEAR * scale), DAYS_OF_A_YEAR - 1))
        self.days = [str(first + timedelta(days=number)) for number in range(count)]
        feed.deliver_reference()
        feed.deliver(first, first + timedelta(days=count - 1))
        started = time.perf_counter()
        self.master = self._start()
        settings = SparkSettings(self.master, folder, user_conf=self._conf())
        # Kept open, so that Spark keeps running between rounds.
        self.stack.callback(open_engine(settings).release)
        self.start_seconds = time.perf_counter() - started

    def _start(self) -> str:
        match self.variant:
            case "cluster":
                from floe_testing.spark import standalone_cluster

                return self.stack.enter_context(standalone_cluster(self.folder))
            case "connect":
                settings = SparkSettings("local[2]", self.folder, user_conf=SETTINGS)
                server = start_server(settings)
                self.stack.callback(stop_server, settings.state_dir)
                return server.url
            case _:
                return "local[2]"

    def _conf(self) -> dict[str, str]:
        if self.variant != "cluster":
            return SETTINGS
        loopback = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        return {**SETTINGS, **loopback, "spark.executor.memory": "800m"}

    def reset(self, round_number: int) -> None:
        self.project = self.folder / f"round-{round_number}"
        shutil.copytree(EXAMPLE, self.project, ignore=shutil.ignore_patterns(".floe", "landing", "__pycache__"))
        artifacts = compile_project(self.project / "floe.yaml")
        compute = artifacts.compute.model_copy(update={"master": self.master, "conf": self._conf()})
        self.artifacts: CompiledArtifacts = artifacts.model_copy(update={"compute": compute})

    def checksum(self) -> str:
        with IcebergTableManager.from_artifacts(self.artifacts) as manager:
            found = {name: manager.scan(name, columns=list(columns)) for name, columns in DIGESTS.items()}
        digests = [rows_digest(rows, DIGESTS[name]) for name, rows in found.items()]
        shutil.rmtree(self.project / ".floe" / "warehouse")
        return " / ".join(digests)

    def close(self) -> None:
        self.stack.close()


class Floe(_Flights):
    """``floe run``, in this process."""

    def run(self) -> None:
        from floe_dagster.runs.home import open_instance
        from floe_dagster.runs.materialize import run_assets
        from floe_dagster.runs.pipeline import Pipeline

        pipeline = Pipeline.of(self.artifacts)
        with open_instance(self.artifacts) as instance:
            outcome = run_assets(pipeline, instance, pipeline.select("*"), self.days)
        if not outcome.success:
            reasons = [f"{asset.table}: {asset.reason}" for asset in outcome.assets if asset.reason]
            message = f"the run failed: {reasons}"
            raise RuntimeError(message)


class ByHand(_Flights):
    """The hand-written pipeline, in a session with the same settings."""

    def run(self) -> None:
        from benchmarks.workloads.p11_by_hand import FlightsByHand

        with IcebergTableManager.from_artifacts(self.artifacts) as manager:
            FlightsByHand(manager.spark, manager.catalog.name).run(self.days)


ARMS = {"floe": Floe, "by hand": ByHand}
GOALS = {"by hand": 1.05}
