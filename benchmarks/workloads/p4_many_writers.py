"""P4: 16 processes append ten times each to one table."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, RETRIES, open_floe, open_pyiceberg

TITLE = "16 processes appending 10 times each to one table"
WRITERS = 16
APPENDS = 10
ROWS = 100


def _floe_writer(folder: str, name: str, barrier: object, results: object) -> None:
    manager = open_floe(Path(folder))
    data = lineitem(ROWS)
    barrier.wait()
    landed = 0
    for _ in range(APPENDS):
        manager.append(name, data)
        landed += 1
    results.put(landed)


def _pyiceberg_writer(folder: str, name: str, barrier: object, results: object) -> None:
    catalog = open_pyiceberg(Path(folder))
    data = lineitem(ROWS)
    barrier.wait()
    landed = 0
    for _ in range(APPENDS):
        try:
            catalog.load_table(name).append(data)
            landed += 1
        except Exception:  # noqa: BLE001, S112 - failed appends are counted
            continue
    results.put(landed)


class _Writers:
    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.writers = max(2, int(WRITERS * scale))
        self.schema = lineitem(ROWS).schema

    def race(self, writer: object) -> dict[str, float]:
        context = multiprocessing.get_context("spawn")
        barrier, results = context.Barrier(self.writers + 1), context.Queue()
        processes = [
            context.Process(target=writer, args=(str(self.folder), self.name, barrier, results))
            for _ in range(self.writers)
        ]
        for process in processes:
            process.start()
        barrier.wait()
        started = time.perf_counter()
        landed = sum(results.get(timeout=600) for _ in processes)
        seconds = time.perf_counter() - started
        for process in processes:
            process.join()
        return {
            "landed": float(landed),
            "lost": float(self.writers * APPENDS - landed),
            "commits_per_second": landed / seconds,
            "seconds_per_landed": seconds / max(landed, 1),
        }

    def close(self) -> None:
        pass


class Floe(_Writers):
    """floe's append."""

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager = open_floe(self.folder)
        self.manager.create_table(self.name, self.schema, properties=PROPERTIES)

    def run(self) -> dict[str, float]:
        self.figures = self.race(_floe_writer)
        return self.figures

    def checksum(self) -> str:
        rows = self.manager.scan(self.name, columns=["l_orderkey"]).num_rows
        return "exact" if rows == self.figures["landed"] * ROWS else f"rows {rows}"


class PyIceberg(_Writers):
    """Plain PyIceberg, with twenty retries."""

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        catalog = open_pyiceberg(self.folder)
        self.table = catalog.create_table(self.name, self.schema, properties=PROPERTIES | RETRIES)

    def run(self) -> dict[str, float]:
        self.figures = self.race(_pyiceberg_writer)
        return self.figures

    def checksum(self) -> str:
        rows = self.table.refresh().scan(selected_fields=("l_orderkey",)).to_arrow().num_rows
        return "exact" if rows == self.figures["landed"] * ROWS else f"rows {rows}"


ARMS = {"floe": Floe, "pyiceberg": PyIceberg}
GOALS = {"pyiceberg": 1 / 3}
# Not all arms commit every append, so the time per committed append is compared.
COMPARED = "seconds_per_landed"
FIGURE_GOALS = {"lost": 0.0}
