"""P6: a stream larger than memory into a partitioned table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TITLE = "10 GiB of Arrow batches into 84 month partitions"
STREAM_BYTES = 10 * 1024**3
BATCH_ROWS = 131_072


class Floe:
    """floe's own append of a RecordBatchReader."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.manager = open_floe(folder)
        self.batches = lineitem(BATCH_ROWS * 4).to_batches(max_chunksize=BATCH_ROWS)
        self.target = int(STREAM_BYTES * scale)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(
            self.name, self.batches[0].schema, partition_spec=["month(l_shipdate)"], properties=PROPERTIES
        )
        self.sent_rows = 0

    def _stream(self) -> Iterator[pa.RecordBatch]:
        sent = 0
        while sent < self.target:
            for batch in self.batches:
                sent += batch.nbytes
                self.sent_rows += batch.num_rows
                yield batch

    def run(self) -> dict[str, float]:
        reader = pa.RecordBatchReader.from_batches(self.batches[0].schema, self._stream())
        snapshot = self.manager.append(self.name, reader)
        return {"rows": float(self.sent_rows), "files": float(snapshot.summary["added-data-files"])}

    def checksum(self) -> str:
        records = int(self.manager.get_current_snapshot(self.name).summary["total-records"])
        return "exact" if records == self.sent_rows else f"{records} of {self.sent_rows}"

    def close(self) -> None:
        self.manager.close()


ARMS = {"floe": Floe}
GOALS: dict[str, float] = {}
PEAK_RSS_GOAL_MIB = 1024.0
