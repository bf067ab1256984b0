"""P3: three hundred small appends to one table."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

TITLE = "300 small appends to one table"
APPENDS = 300
ROWS = 1_000
EDGE = 10
DIGEST = ("l_orderkey", "l_linenumber")


def timed_appends(append: Callable[[pa.Table], object], data: pa.Table, count: int) -> dict[str, float]:
    """Append slice by slice; tell how the last ones compare to the first ones."""
    laps = []
    for number in range(count):
        piece = data.slice(number * ROWS, ROWS)
        started = time.perf_counter()
        append(piece)
        laps.append(time.perf_counter() - started)
    first, last = statistics.median(laps[:EDGE]), statistics.median(laps[-EDGE:])
    return {"first_ms": first * 1000, "last_ms": last * 1000, "last_to_first": last / first}


class _Appends:
    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.count = int(APPENDS * scale)
        self.data = lineitem(self.count * ROWS)

    def close(self) -> None:
        pass


class Floe(_Appends):
    """floe's own append."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(self.name, self.data.schema, properties=PROPERTIES)

    def run(self) -> dict[str, float]:
        return timed_appends(lambda piece: self.manager.append(self.name, piece), self.data, self.count)

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        self.manager.close()


class PyIceberg(_Appends):
    """Plain PyIceberg."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        self.table = self.catalog.create_table(f"{NAMESPACE}.t{round_number}", self.data.schema, properties=PROPERTIES)

    def run(self) -> dict[str, float]:
        return timed_appends(self.table.append, self.data, self.count)

    def checksum(self) -> str:
        return rows_digest(self.table.scan(selected_fields=DIGEST).to_arrow(), DIGEST)


ARMS = {"floe": Floe, "pyiceberg": PyIceberg}
GOALS = {"pyiceberg": 0.2}
FIGURE_GOALS = {"last_to_first": 1.5}
