"""P7: scans of two of 16 columns, one of 84 months, and an old snapshot."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

TITLE = "scans: projection, pruning, time travel"
COLUMNS = ["l_orderkey", "l_partkey"]
MONTH = "l_shipdate >= '1995-03-01' and l_shipdate < '1995-04-01'"
REPEATS = 5


def bytes_read() -> int:
    """Return the bytes this process has read so far, from disk or cache."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return int(lines[0].removeprefix("rchar: "))


def read(scan: Callable[[], object]) -> int:
    """Return the bytes one scan reads."""
    before = bytes_read()
    scan()
    return bytes_read() - before


def lap(scan: Callable[[], object]) -> float:
    """Return the median time of a scan."""
    laps = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        scan()
        laps.append(time.perf_counter() - started)
    return statistics.median(laps)


def column_share(files: list[Path]) -> float:
    """Return the share of the projected columns in the stored bytes."""
    wanted = total = 0
    for file in files:
        metadata = pq.ParquetFile(file).metadata
        for group in range(metadata.num_row_groups):
            for index in range(metadata.num_columns):
                column = metadata.row_group(group).column(index)
                total += column.total_compressed_size
                wanted += column.total_compressed_size if column.path_in_schema in COLUMNS else 0
    return wanted / total


def digest(*found: pa.Table) -> str:
    """Summarize the results of scans."""
    return " / ".join(rows_digest(table, tuple(COLUMNS)) for table in found)


class Floe:
    """floe's scan."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.manager = open_floe(folder)
        self.name = f"{NAMESPACE}.lineitem"
        data = lineitem(int(6_000_000 * scale))
        self.manager.create_table(self.name, data.schema, partition_spec=["month(l_shipdate)"], properties=PROPERTIES)
        self.old = self.manager.append(self.name, data)
        self.manager.append(self.name, data.slice(0, 1_000))
        self.share = column_share(list((folder / ".floe/warehouse").rglob("*.parquet")))

    def reset(self, round_number: int) -> None:
        pass

    def run(self) -> dict[str, float]:
        scan, name = self.manager.scan, self.name
        everything = read(lambda: scan(name))
        projected = read(lambda: scan(name, columns=COLUMNS))
        month = read(lambda: scan(name, row_filter=MONTH))
        now = lap(lambda: scan(name, columns=COLUMNS))
        then = lap(lambda: scan(name, columns=COLUMNS, snapshot_id=self.old.snapshot_id))
        return {
            "projected_share_of_bytes": projected / everything,
            "to_columns_share": (projected / everything) / self.share,
            "month_share_of_bytes": month / everything,
            "time_travel_to_current": then / now,
        }

    def checksum(self) -> str:
        scan = self.manager.scan
        return digest(
            scan(self.name, columns=COLUMNS),
            scan(self.name, columns=COLUMNS, row_filter=MONTH),
            scan(self.name, columns=COLUMNS, snapshot_id=self.old.snapshot_id),
        )

    def close(self) -> None:
        self.manager.close()


class PyIceberg:
    """Plain PyIceberg on the same scans."""

    def prepare(self, folder: Path, scale: float) -> None:
        floe = Floe()
        floe.prepare(folder, scale)
        floe.close()
        self.old = floe.old
        uri = f"sqlite:///{folder}/.floe/catalog.db"
        catalog = open_pyiceberg(folder).__class__("floe", uri=uri, warehouse=f"file://{folder}/.floe/warehouse")
        self.table = catalog.load_table(f"{NAMESPACE}.lineitem")

    def reset(self, round_number: int) -> None:
        pass

    def run(self) -> None:
        scan = self.table.scan
        scan().to_arrow()
        scan(selected_fields=tuple(COLUMNS)).to_arrow()
        scan(row_filter=MONTH).to_arrow()
        lap(lambda: scan(selected_fields=tuple(COLUMNS)).to_arrow())
        lap(lambda: scan(selected_fields=tuple(COLUMNS), snapshot_id=self.old.snapshot_id).to_arrow())

    def checksum(self) -> str:
        scan, columns = self.table.scan, tuple(COLUMNS)
        return digest(
            scan(selected_fields=columns).to_arrow(),
            scan(selected_fields=columns, row_filter=MONTH).to_arrow(),
            scan(selected_fields=columns, snapshot_id=self.old.snapshot_id).to_arrow(),
        )

    def close(self) -> None:
        pass


ARMS = {"floe": Floe, "pyiceberg": PyIceberg}
GOALS = {"pyiceberg": 1.05}
FIGURE_GOALS = {"to_columns_share": 1.2, "time_travel_to_current": 1.1}
REQUIREMENTS = {"to_columns_share": "SC-004", "time_travel_to_current": "SC-005"}
