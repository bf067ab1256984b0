"""P5: upsert into two million rows; half of the keys exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties, write_deltalake

from benchmarks.arms import FloeTable, PyIcebergTable, TableArm
from benchmarks.data import lineitem
from benchmarks.harness import NotRunError
from benchmarks.peers import TARGET_FILE_SIZE, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "upsert into 2M rows"
BASE_ROWS = 2_000_000
UPSERTS_AT_SCALE_ONE = 100_000
PYICEBERG_LIMIT = 100_000


def keyed(rows: int, *, first: int, changed: bool) -> pa.Table:
    """Return lineitem rows with a unique key, optionally with changed values."""
    data = lineitem(rows).select(["l_linenumber", "l_returnflag", "l_shipdate", "l_comment"])
    numbers = pa.array(range(first, first + rows), pa.int64())
    if changed:
        data = data.set_column(0, "l_linenumber", pc.add(data["l_linenumber"], pa.scalar(100, pa.int32())))
    return data.add_column(0, "id", numbers)


class _Upsert(TableArm):
    digest = ("id", "l_linenumber", "l_returnflag")

    def rows(self, scale: float) -> pa.Table:
        count = int(UPSERTS_AT_SCALE_ONE * scale)
        self.changes = keyed(count, first=BASE_ROWS - count // 2, changed=True)
        return keyed(BASE_ROWS, first=0, changed=False)


class Floe(_Upsert, FloeTable):
    """floe's upsert."""

    def reset(self, round_number: int) -> None:
        super().reset(round_number)
        self.manager.append(self.name, self.data)

    def run(self) -> None:
        self.manager.upsert(self.name, self.changes, keys=["id"])


class Delta(_Upsert):
    """delta-rs."""

    written = WriterProperties(compression="ZSTD", compression_level=1)

    def reset(self, round_number: int) -> None:
        self.path = str(self.folder / f"t{round_number}")
        write_deltalake(self.path, self.data, target_file_size=TARGET_FILE_SIZE, writer_properties=self.written)

    def run(self) -> None:
        (
            DeltaTable(self.path)
            .merge(
                self.changes,
                predicate="t.id = s.id",
                source_alias="s",
                target_alias="t",
                writer_properties=self.written,
            )
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def checksum(self) -> str:
        found = DeltaTable(self.path).to_pyarrow_table(columns=list(self.digest))
        return rows_digest(pa.table(found), self.digest)


class PyIceberg(_Upsert, PyIcebergTable):
    """Plain PyIceberg, up to 100,000 rows: a million would take many minutes."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        if self.changes.num_rows > PYICEBERG_LIMIT:
            message = f"not run above {PYICEBERG_LIMIT:,} rows: takes many minutes"
            raise NotRunError(message)

    def reset(self, round_number: int) -> None:
        super().reset(round_number)
        self.table.append(self.data)

    def run(self) -> None:
        self.table.upsert(self.changes, join_cols=["id"])


ARMS = {"floe": Floe, "delta-rs": Delta, "pyiceberg": PyIceberg}
GOALS = {"delta-rs": 1.2, "pyiceberg": 0.1}
GOAL_SIZES = {"pyiceberg": {1}}
