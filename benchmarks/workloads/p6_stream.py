"""P6: append a stream that is larger than memory to a partitioned table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES, open_floe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TITLE = "stream of 10 GiB of Arrow batches into 84 month partitions"
STREAM_BYTES = 10 * 1024**3
BATCH_ROWS = 131_072


class Floe:
    """floe's append of a RecordBatchReader."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.manager = open_floe(folder)
        self.batches = lineitem(BATCH_ROWS * 4).to_batches(max_chunksize=BATCH_ROWS)
        self.totals = [pc.sum(batch["l_orderkey"]).as_py() for batch in self.batches]
        self.target = int(STREAM_BYTES * scale)

    def reset(self, round_number: int) -> None:
        self.name = f"{NAMESPACE}.t{round_number}"
        self.manager.create_table(
            self.name, self.batches[0].schema, partition_spec=["month(l_shipdate)"], properties=PROPERTIES
        )
        self.sent_rows = self.sent_total = 0

    def _stream(self) -> Iterator[pa.RecordBatch]:
        sent = 0
        while sent < self.target:
            for batch, total in zip(self.batches, self.totals, strict=True):
                sent += batch.nbytes
                self.sent_rows += batch.num_rows
                self.sent_total += total
                yield batch

    def run(self) -> dict[str, float]:
        reader = pa.RecordBatchReader.from_batches(self.batches[0].schema, self._stream())
        snapshot = self.manager.append(self.name, reader)
        return {"rows": float(self.sent_rows), "files": float(snapshot.summary["added-data-files"])}

    def checksum(self) -> str:
        """Read one column back; peak memory was measured before."""
        found = self.manager.scan(self.name, columns=["l_orderkey"])
        total = pc.sum(found["l_orderkey"]).as_py()
        exact = (found.num_rows, total) == (self.sent_rows, self.sent_total)
        return "exact" if exact else f"{found.num_rows} of {self.sent_rows} rows, {total} of {self.sent_total}"

    def close(self) -> None:
        self.manager.close()


ARMS = {"floe": Floe}
GOALS: dict[str, float] = {}
PEAK_RSS_GOAL_MIB = 1024.0
