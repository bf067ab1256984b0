"""A torture run: starts servers, writers, readers and faults, and judges the result."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.torture.arena import Arena
from tests.torture.chaos import GatewayChaos, fill_disk, small_disk
from tests.torture.judge import Books, drift, judge_table, maintenance_done, open_books, percentiles

from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties
from floe_testing.services.host.runner import ServiceRun
from floe_testing.services.iceberg_rest import IcebergRest
from floe_testing.services.minio import Minio
from floe_testing.stand_ins.vending import CredentialVendor

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
_SKEWS = (0.0, 120.0, -120.0, 0.0)
# Java rejects a table whose latest timestamp is more than a minute ahead of its own clock.
_SKEWS_BESIDE_JAVA = (0.0, 45.0, -120.0)
_MOST_RESTARTS = 400
_DISK_MEGABYTES = 700
_JUDGES_SECONDS = 3600


@dataclass(frozen=True)
class Plan:
    """How much of what.

    Attributes:
        seed: Everything that is drawn follows from it.
        operations: Operations in all; about seven of ten land, the others meet a fault that ends them.
        rest: Share of them that goes over REST.
        spark: Operations on Spark, on top, on each of two catalogs, with as many beside them.
        fault_share: Share of operations that meet a fault.
        minutes: When writers stop, whatever is left; None for never.
        kill_share: Share of the faults that are kills.
    """

    seed: int
    operations: int = 14_000
    rest: float = 0.3
    spark: int = 120
    fault_share: float = 0.3
    minutes: float | None = None
    kill_share: float = 0.1

    @classmethod
    def soak(cls, seed: int, minutes: float) -> Plan:
        """Run for a time with few faults and no kills, to see whether anything grows."""
        return cls(seed, operations=10_000_000, spark=0, fault_share=0.03, minutes=minutes, kill_share=0.0)


@dataclass
class Crew:
    """The processes of one arena."""

    arena: Arena
    writers: list[dict[str, Any]] = field(default_factory=list)
    ledgers: list[Path] = field(default_factory=list)
    restarts: int = 0


class Torture:
    """Runs a plan in a folder."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.stop = folder / "stop"
        self.chaos: list[GatewayChaos] = []
        self.storage: list[CredentialVendor] = []
        self.other_faults: Counter[str] = Counter()
        self._rng = random.Random(f"run {plan.seed}")
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self) -> dict[str, Any]:
        started = time.monotonic()
        with contextlib.ExitStack() as stack:
            stack.callback(self._end_processes)
            crews = list(self._crews(stack))
            for crew in crews:
                crew.arena.create()
            for chaos in self.chaos:
                chaos.share = self.plan.fault_share
            stack.enter_context(self._in_background(self._full_disks, [crew.arena for crew in crews]))
            readers = [self._start_reader(crew) for crew in crews]
            self._work(crews)
            self.stop.touch()
            for reader in readers:
                reader.wait(120)
            for chaos in self.chaos:
                chaos.share = 0.0
            return self._verdict(crews, time.monotonic() - started)

    def _crews(self, stack: contextlib.ExitStack) -> Iterator[Crew]:
        plan = self.plan
        disk = self.folder / "disk"
        stack.enter_context(small_disk(disk, megabytes=_DISK_MEGABYTES))
        over_rest = int(plan.operations * plan.rest)
        embedded = plan.operations - over_rest
        (disk / "embedded").mkdir()
        tables = {"bronze.one": 2, "bronze.two": 2, "bronze.old": 1}
        crew = Crew(Arena("embedded", tables, root=str(disk / "embedded")))
        self._add_writers(crew, count=4, operations=embedded // 4)
        if plan.spark:
            (self.folder / "shared").mkdir()
            yield crew
            crew = Crew(Arena("embedded, Spark and Arrow", {"bronze.both": 2}, root=str(self.folder / "shared")))
            self._add_writers(crew, count=1, operations=plan.spark)
            self._add_writers(crew, count=1, operations=plan.spark, spark=True)
        yield crew
        if over_rest:
            yield from self._rest_crews(stack, over_rest)

    def _rest_crews(self, stack: contextlib.ExitStack, operations: int) -> Iterator[Crew]:
        services = ServiceRun(ROOT / ".floe-dev", f"torture-{self.folder.name}")
        stack.callback(services.leave)
        store = services.start(Minio())
        server = services.start(IcebergRest(store))
        for name, vended, count in (
            ("REST", False, 2),
            ("REST, vended credentials", True, 1),
            *([("REST, Spark and Arrow", False, 1)] if self.plan.spark else []),
        ):
            with_spark = "Spark" in name
            gateway = stack.enter_context(FaultGateway(server.url))
            gateway.keeps_exchanges = False
            tokens = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET, lifetime_seconds=20)
            self.chaos.append(GatewayChaos(f"{self.plan.seed} {name}", share=0.0))
            gateway.chaos = self.chaos[-1]
            if not with_spark:
                # Java's client renews a token before it expires, but does not replace a rejected one.
                stack.enter_context(self._in_background(self._revoke, tokens))
            keys = store_properties(store)
            if vended:
                front = stack.enter_context(FaultGateway(store.url))
                front.keeps_exchanges = False
                self.storage.append(CredentialVendor(store, catalog=gateway, front=front, seconds=8))
                # Writers handle rejected tokens themselves.
                self.storage[-1].announce_expiry = False
                keys = {}
            space = f"torture_{self.folder.name.replace('-', '_')}_{'_'.join(re.findall('[a-z]+', name.lower()))}"
            tables = {f"{space}.both": 2} if with_spark else {f"{space}.one": 2, f"{space}.old": 1}
            arena = Arena(name, tables, uri=gateway.url, store=keys)
            crew = Crew(arena)
            self._add_writers(crew, count=count, operations=self.plan.spark if with_spark else operations // 3)
            if with_spark:
                self._add_writers(crew, count=1, operations=self.plan.spark, spark=True)
            yield crew

    def _add_writers(self, crew: Crew, *, count: int, operations: int, spark: bool = False) -> None:
        for _ in range(count):
            number = sum(len(path.name) > 0 for path in self.folder.glob("writer-*.config"))
            ledger = self.folder / f"ledger-{number}"
            skews = _SKEWS if crew.arena.is_embedded and "Spark" not in crew.arena.name else _SKEWS_BESIDE_JAVA
            config = {
                "seed": self.plan.seed,
                "writer": number,
                "arena": crew.arena.as_json(),
                "ledger": str(ledger),
                "scratch": str(self.folder),
                "operations": operations,
                "spark": spark,
                "fault_share": self.plan.fault_share,
                "kill_share": 0.05 if spark else self.plan.kill_share,
                # Spark uses the machine's clock, not the shifted clock of the process.
                "skew": 0.0 if spark else skews[number % len(skews)],
                "stop_at": time.monotonic() + self.plan.minutes * 60 if self.plan.minutes else None,
            }
            (self.folder / f"writer-{number}.config").write_text(json.dumps(config), encoding="utf-8")
            crew.writers.append(config)
            crew.ledgers.append(ledger)

    def _start(self, module: str, config: Path) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{config.stem}.log").open("ab")
        command = [sys.executable, "-m", f"tests.torture.{module}", str(config)]
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        log.close()
        self._processes.append(process)
        return process

    def _start_reader(self, crew: Crew) -> subprocess.Popen[bytes]:
        name = f"reader-{crew.ledgers[0].name}"
        config = {
            "arena": crew.arena.as_json(),
            "ledger": str(self.folder / f"{name}.jsonl"),
            "stop": str(self.stop),
            "pause": 1.0,
        }
        path = self.folder / f"{name}.config"
        path.write_text(json.dumps(config), encoding="utf-8")
        return self._start("reader", path)

    def _work(self, crews: list[Crew]) -> None:
        """Run the writers to their end; a killed one is started again, as an orchestrator would."""
        running: dict[subprocess.Popen[bytes], tuple[Crew, Path]] = {}
        for crew in crews:
            for config in crew.writers:
                path = self.folder / f"writer-{config['writer']}.config"
                running[self._start("writer", path)] = (crew, path)
        while running:
            time.sleep(0.1)
            for process in [process for process in running if process.poll() is not None]:
                crew, path = running.pop(process)
                if process.returncode == 0:
                    continue
                crew.restarts += 1
                if process.returncode != -9 or crew.restarts > _MOST_RESTARTS:
                    log = (self.folder / f"{path.stem}.log").read_text(errors="replace")[-3000:]
                    msg = f"{path.stem} ended with {process.returncode}:\n{log}"
                    raise RuntimeError(msg)
                running[self._start("writer", path)] = (crew, path)

    def _end_processes(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    @contextlib.contextmanager
    def _in_background(self, work: Any, *arguments: Any) -> Iterator[None]:
        done = threading.Event()
        thread = threading.Thread(target=work, args=(done, *arguments), daemon=True)
        thread.start()
        yield
        done.set()
        thread.join(30)

    def _full_disks(self, done: threading.Event, arenas: list[Arena]) -> None:
        disk = self.folder / "disk"
        if not disk.is_mount() or not any(arena.root.startswith(str(disk)) for arena in arenas):
            return
        while not done.wait(self._rng.uniform(10, 20)):
            self.other_faults["disk full"] += 1
            fill_disk(disk, seconds=self._rng.uniform(0.3, 1.0))

    def _revoke(self, done: threading.Event, tokens: Any) -> None:
        while not done.wait(5):
            self.other_faults["all tokens revoked"] += 1
            tokens.revoke()

    def _verdict(self, crews: list[Crew], seconds: float) -> dict[str, Any]:
        arenas, books = {}, []
        for desk in self.storage:
            # The judge needs longer for a table than a writer's credentials are valid.
            desk.seconds = _JUDGES_SECONDS
        for crew in crews:
            books.append(open_books(crew.ledgers, crew.arena, self.plan.seed))
            manager = crew.arena.manager()
            arenas[crew.arena.name] = {
                "restarts": crew.restarts,
                "tables": {table: judge_table(manager, table, books[-1]) for table in crew.arena.tables},
            }
            manager.catalog.close()
        return self._summary(arenas, books, seconds)

    def _summary(self, arenas: dict[str, Any], books: list[Books], seconds: float) -> dict[str, Any]:
        tables = [table for arena in arenas.values() for table in arena["tables"].values()]
        faults: Counter[str] = Counter(self.other_faults)
        for source in [*(book.faults for book in books), *(chaos.faults for chaos in self.chaos)]:
            faults.update(source)
        # A repeated operation is not a fault, and a kill that was drawn too late did not happen.
        faults.pop("repeated", None)
        faults["kill -9"] = sum(arena["restarts"] for arena in arenas.values())
        faults["storage credentials refused"] = sum(desk.refused for desk in self.storage)
        outcomes = Counter(told.value for book in books for told in book.told.values())
        latencies: dict[str, list[float]] = {}
        for book in books:
            for kind, values in book.latencies.items():
                latencies.setdefault(kind, []).extend(values)
        looks = [line for path in self.folder.glob("reader-*.jsonl") for line in _json_lines(path)]
        wrong_rows = ("rows_doubled", "rows_missing", "rows_extra", "rows_different", "history_broken", "strangers")
        return {
            "seed": self.plan.seed,
            "seconds": round(seconds),
            "operations": sum(len(book.told) for book in books),
            "commits": sum(table["landed"] for table in tables),
            "snapshots": sum(table["snapshots"] for table in tables),
            "maintenance": sum(map(maintenance_done, books)),
            "kills": sum(arena["restarts"] for arena in arenas.values()),
            "faults": dict(sorted(faults.items())),
            "outcomes": dict(outcomes),
            "errors": dict(sum((book.errors for book in books), Counter())),
            "lost": sum(len(table["lost"]) for table in tables),
            "doubled": sum(len(table["doubled"]) for table in tables),
            "landed_though_refused": sum(len(table["landed_though_refused"]) for table in tables),
            "wrong_rows": {key: bad for table in tables for key in wrong_rows if (bad := table[key])},
            "raw_errors": [raw for book in books for raw in book.raw],
            "reads": sum("rows" in line for line in looks),
            "read_errors": dict(Counter(line["error"] for line in looks if "error" in line)),
            "read_raw_errors": [line["raw"] for line in looks if "raw" in line][:20],
            "breaches": [breach for table in tables for breach in table["breaches"]],
            "drift": {name: drift(book.timeline) for name, book in zip(arenas, books, strict=True)},
            "partial_reads": [line["breach"] for line in looks if "breach" in line][:20],
            "latency_ms": {kind: percentiles(values) for kind, values in sorted(latencies.items())},
            "arenas": arenas,
        }


def _json_lines(path: Path) -> Iterator[dict[str, Any]]:
    from tests.torture.ledger import read

    yield from read(path)


def clean(result: dict[str, Any]) -> bool:
    """Whether nothing was lost, doubled, wrong or untyped."""
    figures = ("lost", "doubled", "landed_though_refused", "wrong_rows", "raw_errors", "read_raw_errors")
    return not any(result[figure] for figure in (*figures, "partial_reads")) and not result.get("breaches")


def remove(folder: Path) -> None:
    """Remove what a run left."""
    shutil.rmtree(folder, ignore_errors=True)
