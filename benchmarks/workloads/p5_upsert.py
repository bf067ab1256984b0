"""P5: upsert into two million rows; half of the keys are there already."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "upsert into 2M rows"
BASE_ROWS = 2_000_000
UPSERTS_AT_SCALE_ONE = 100_000
PYICEBERG_LIMIT = 100_000
DIGEST = ("id", "l_linenumber", "l_returnflag")


def keyed(rows: int, *, first: int, changed: bool) -> pa.Table:
    """Return lineitem rows under a key of their own, some columns marked as changed."""
    data = lineitem(rows).select(["l_linenumber", "l_returnflag", "l_shipdate", "l_comment"])
    numbers = pa.array(range(first, first + rows), pa.int64())
    if changed:
        data = data.set_column(0, "l_linenumber", pc.add(data["l_linenumber"], pa.scalar(100, pa.int32())))
    return data.add_column(0, "id", numbers)


class _Upsert:
    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.base = keyed(BASE_ROWS, first=0, changed=False)
        count = int(UPSERTS_AT_SCALE_ONE * scale)
        self.changes = keyed(count, first=BASE_ROWS - count // 2, changed=True)

    def close(self) -> None:
        pass


class Floe(_Upsert):
    """floe's own upsert."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(self.name, self.base.schema, properties=PROPERTIES)
        self.manager.append(self.name, self.base)

    def run(self) -> None:
        self.manager.upsert(self.name, self.changes, keys=["id"])

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        self.manager.close()


class Delta(_Upsert):
    """delta-rs."""

    def reset(self, round_number: int) -> None:
        self.path = str(self.folder / f"t{round_number}")
        write_deltalake(self.path, self.base)

    def run(self) -> None:
        (
            DeltaTable(self.path)
            .merge(self.changes, predicate="t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def checksum(self) -> str:
        return rows_digest(pa.table(DeltaTable(self.path).to_pyarrow_table(columns=list(DIGEST))), DIGEST)


class PyIceberg(_Upsert):
    """Plain PyIceberg; a million rows would take it many minutes, so it stops at 100,000."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        if self.changes.num_rows > PYICEBERG_LIMIT:
            message = f"not run above {PYICEBERG_LIMIT} rows: it takes many minutes"
            raise RuntimeError(message)
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        self.table = self.catalog.create_table(f"{NAMESPACE}.t{round_number}", self.base.schema, properties=PROPERTIES)
        self.table.append(self.base)

    def run(self) -> None:
        self.table.upsert(self.changes, join_cols=["id"])

    def checksum(self) -> str:
        return rows_digest(self.table.scan(selected_fields=DIGEST).to_arrow(), DIGEST)


ARMS = {"floe": Floe, "delta-rs": Delta, "pyiceberg": PyIceberg}
GOALS = {"delta-rs": 1.2, "pyiceberg": 0.1}
