"""P1: append a million rows and more to a fresh table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe, open_pyiceberg, rows_digest

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "bulk append of Arrow rows"
DIGEST = ("l_orderkey", "l_returnflag", "l_linenumber")


class _Append:
    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.data = lineitem(int(1_000_000 * scale))

    def close(self) -> None:
        pass


class Floe(_Append):
    """floe's own append."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.manager = open_floe(folder)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(self.name, self.data.schema, properties=PROPERTIES)

    def run(self) -> None:
        self.manager.append(self.name, self.data)

    def checksum(self) -> str:
        return rows_digest(self.manager.scan(self.name, columns=list(DIGEST)), DIGEST)

    def close(self) -> None:
        self.manager.close()


class PyIceberg(_Append):
    """Plain PyIceberg."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        self.catalog = open_pyiceberg(folder)

    def reset(self, round_number: int) -> None:
        self.table = self.catalog.create_table(f"{NAMESPACE}.t{round_number}", self.data.schema, properties=PROPERTIES)

    def run(self) -> None:
        self.table.append(self.data)

    def checksum(self) -> str:
        return rows_digest(self.table.scan(selected_fields=DIGEST).to_arrow(), DIGEST)


class Parquet(_Append):
    """One zstd Parquet file: the ceiling."""

    def reset(self, round_number: int) -> None:
        self.file = self.folder / f"{round_number}.parquet"

    def run(self) -> None:
        pq.write_table(self.data, self.file, compression="zstd", row_group_size=1_048_576)

    def checksum(self) -> str:
        return rows_digest(pa.table(pq.read_table(self.file, columns=list(DIGEST))), DIGEST)


ARMS = {"floe": Floe, "pyiceberg": PyIceberg, "parquet": Parquet}
GOALS = {"pyiceberg": 1.05, "parquet": 1.15}
