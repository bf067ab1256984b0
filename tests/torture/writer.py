"""A writer process: ``python -m tests.torture.writer CONFIG``."""

from __future__ import annotations

import contextlib
import json
import random
import resource
import sys
import time
import traceback
from pathlib import Path

from tests.torture.arena import Arena
from tests.torture.chaos import DATABASE_FAULTS, Steps, skew_clock
from tests.torture.ledger import Ledger, Told
from tests.torture.operations import OPERATION_ID, Kind, Operation

from floe_core.errors import CommitStateUnknownError, FloeStorageError, MaintenanceInProgressError
from floe_iceberg import Engine
from floe_testing.faults.database_faults import DatabaseFault, DatabaseFaults

_KEPT_MILLISECONDS = 20_000
_MOST_STEPS = 14


class Writer:
    """Carries out its operations one after the other and writes down what it was told."""

    def __init__(self, config: dict) -> None:
        self.config = config
        self.seed, self.number = config["seed"], config["writer"]
        self.arena = Arena(**config["arena"])
        self.ledger = Ledger(Path(config["ledger"]))
        self.engine = Engine.SPARK if config["spark"] else Engine.ARROW
        self.steps = Steps()
        self.catalog = self.arena.patient_catalog()
        self.faults = DatabaseFaults(self.catalog.engine) if self.arena.is_embedded else None
        self.manager = self.arena.manager(self.catalog, **self._compute())

    def _compute(self) -> dict:
        if not self.config["spark"]:
            return {}
        from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
        from floe_spark.plane.plane import SparkDataPlane
        from floe_spark.session.sessions import open_engine
        from floe_spark.session.settings import SparkSettings

        plugin = self.arena.plugin() if self.arena.is_embedded else self.catalog.catalog_plugin
        conf = plugin.get_spark_conf("lake", self.catalog.properties)
        packages = (ICEBERG_AWS_BUNDLE, *plugin.get_spark_packages(self.catalog.properties))
        settings = SparkSettings(
            "local[2]",
            Path(self.config["scratch"]),
            driver_memory="1g",
            user_conf={"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"},
            packages=tuple(dict.fromkeys(packages)),
        )
        open_engine(settings)
        return {"compute": SparkDataPlane(settings, catalog_name="lake", conf=conf)}

    def run(self) -> None:
        first, repeat = self._resume()
        stop_at = self.config.get("stop_at") or float("inf")
        for number in range(first, self.config["operations"]):
            if time.monotonic() > stop_at:
                break
            operation = Operation.draw(self.seed, self.number, number, list(self.arena.tables))
            self._one(operation, number, repeated=repeat)
            repeat = False
        self.ledger.write(end=True)

    def _resume(self) -> tuple[int, bool]:
        """Go on after a kill: with the operation that was cut off under the same id, or with the next one."""
        begun = [line for line in self.ledger.lines() if line.get("told") == Told.BEGUN]
        if not begun:
            return 0, False
        last = begun[-1]["number"]
        again = random.Random(f"again {self.seed} {self.number} {last}").random() < 0.5
        return (last, True) if again else (last + 1, False)

    def _one(self, operation: Operation, number: int, *, repeated: bool) -> None:
        rng = random.Random(f"fault {self.seed} {self.number} {number}")
        fault = None if repeated else self._arm(rng)
        again = rng.random() < 0.5
        self._told(operation, Told.BEGUN, number=number, fault=fault, table=operation.table)
        told = self._carry_out(operation)
        self.steps.arm(None)
        if self.faults is not None:
            self.faults.play([])
        if told is Told.UNKNOWN and again:
            self._told(operation, Told.BEGUN, number=number, fault="repeated", table=operation.table)
            self._carry_out(operation)

    def _arm(self, rng: random.Random) -> str | None:
        share = self.config["fault_share"]
        if rng.random() > share:
            return None
        if rng.random() < self.config["kill_share"]:
            self.steps.arm(rng.randint(1, _MOST_STEPS))
            return "kill -9"
        if self.faults is None or self.config["spark"]:
            return None
        script = [rng.choice(DATABASE_FAULTS) for _ in range(rng.choice([1, 1, 1, 2, 3]))]
        self.faults.play(script)
        return "; ".join(fault.value for fault in script if isinstance(fault, DatabaseFault))

    def _carry_out(self, operation: Operation) -> Told:
        started = time.monotonic()
        try:
            if operation.kind in {Kind.COMPACT, Kind.EXPIRE}:
                self._maintain(operation)
                told, extra = Told.DONE, {}
            else:
                snapshot = operation.run(self.manager, self.engine)
                landed = snapshot.summary.get(OPERATION_ID) == operation.name
                told, extra = (Told.DONE if landed else Told.NOTHING), {"snapshot": snapshot.snapshot_id}
        except CommitStateUnknownError as err:
            told, extra = Told.UNKNOWN, {"error": type(err).__name__}
        except MaintenanceInProgressError as err:
            told, extra = Told.NOTHING, {"error": type(err).__name__}
        except FloeStorageError as err:
            told, extra = Told.FAILED, {"error": type(err).__name__, "message": str(err)[:300]}
        except Exception as err:  # noqa: BLE001 - an error that is not floe's is a finding
            extra = {"error": type(err).__name__, "raw": traceback.format_exc()[-1500:]}
            told = Told.FAILED
        elapsed = round((time.monotonic() - started) * 1000, 1)
        self._told(operation, told, ms=elapsed, rss_kb=_memory(), **extra)
        return told

    def _maintain(self, operation: Operation) -> None:
        if operation.kind is Kind.COMPACT:
            self.manager.compact_table(operation.table, engine=self.engine)
            return
        snapshots = self.manager.load_table(operation.table).metadata.snapshots
        if not snapshots:
            return
        # Recorded before they are deleted, so that the judge can walk the complete history.
        archived = [
            [item.snapshot_id, item.parent_snapshot_id, (item.summary or {}).get(OPERATION_ID, "")]
            for item in snapshots
        ]
        self.ledger.write(archive=operation.table, snapshots=archived)
        newest = max(item.timestamp_ms for item in snapshots)
        self.manager.expire_snapshots(
            operation.table, older_than=newest - _KEPT_MILLISECONDS, retain_last=10, engine=self.engine
        )

    def _told(self, operation: Operation, told: Told, **extra: object) -> None:
        self.ledger.write(op=operation.name, kind=operation.kind, told=told, at=time.monotonic(), **extra)


def _memory() -> int:
    """Return the resident memory of this process in KB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    if config["skew"]:
        skew_clock(config["skew"])
    with contextlib.suppress(KeyboardInterrupt):
        Writer(config).run()


if __name__ == "__main__":
    main()
