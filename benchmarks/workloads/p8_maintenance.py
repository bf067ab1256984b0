"""P8: compact 200 small files, expire 300 snapshots, sweep orphans; Spark's procedures run in a warm session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from benchmarks.arms import started_spark
from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "compact 200 small files, expire 300 snapshots, sweep orphans"
FILES = 200
SNAPSHOTS = 300
ROWS = 1_000
DIGEST = ("l_orderkey", "l_linenumber")


class _Maintained:
    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.manager = open_floe(folder)
        self.files = int(FILES * scale)
        self.snapshots = int(SNAPSHOTS * scale)
        self.data = lineitem(self.files * ROWS)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(self.name, self.data.schema, properties=PROPERTIES)
        for number in range(self.files):
            self.manager.append(self.name, self.data.slice(number * ROWS, ROWS))
        for _ in range(self.snapshots - self.files):
            self.manager.append(self.name, self.data.slice(0, 1))

    def checksum(self) -> str:
        rows = rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)
        return f"{rows} in {len(self.manager.list_snapshots(self.name))} snapshots"

    def close(self) -> None:
        self.manager.close()


class Floe(_Maintained):
    """floe's maintenance, which runs in process on small tables."""

    def run(self) -> None:
        self.manager.compact_table(self.name)
        self.manager.expire_snapshots(self.name, older_than=datetime.now(UTC), retain_last=1)
        self.manager.sweep_orphans(self.name, dry_run=False)


class Spark(_Maintained):
    """Spark's procedures, called directly."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.spark, self.start_seconds = started_spark(self.manager)

    def run(self) -> None:
        catalog = self.manager.catalog.name
        now = datetime.now(UTC)
        old = now - timedelta(days=3)
        self.spark.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{self.name}')").collect()
        self.spark.sql(
            f"CALL {catalog}.system.expire_snapshots(table => '{self.name}', "
            f"older_than => TIMESTAMP '{now:%Y-%m-%d %H:%M:%S.%f}', retain_last => 1)"
        ).collect()
        self.spark.sql(
            f"CALL {catalog}.system.remove_orphan_files(table => '{self.name}', "
            f"older_than => TIMESTAMP '{old:%Y-%m-%d %H:%M:%S}')"
        ).collect()


ARMS = {"floe": Floe, "spark": Spark}
GOALS = {"spark": 1.05}
