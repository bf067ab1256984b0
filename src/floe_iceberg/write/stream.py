"""Streaming writes of data larger than memory, in one pass with one commit.

Batches are collected into chunks. Each chunk is split by partition. Every partition has one open file and adds its part
of the chunk to it as a row group. When too many files are open, the least recently used ones are closed.
"""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import wait
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory

from floe_iceberg.formats.cast import fit
from floe_iceberg.formats.partitioning import PartitionRows, record_key, split
from floe_iceberg.write.data_files import DataFileWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from pyiceberg.manifest import DataFile

    from floe_iceberg.write.data_files import Layout

# Each open file costs a handle and, on an object store, an upload buffer.
MAX_OPEN_FILES = 128


def write_stream(
    layout: Layout,
    reader: pa.RecordBatchReader,
    *,
    chunk_bytes: int,
    layout_for: Callable[[pa.Table], Layout | None] | None = None,
) -> list[DataFile]:
    """Write a reader's batches as data files in bounded memory.

    If the reader fails, all files written so far are deleted.

    Args:
        layout: Layout of the files.
        reader: The batches.
        chunk_bytes: Arrow bytes to buffer.
        layout_for: Called with each chunk before it is written; returns a new layout if the layout has to change.
    """
    writers = _OpenFiles(layout)
    try:
        for chunk in _chunks(reader, chunk_bytes):
            if layout_for is not None and (changed := layout_for(chunk)) is not None:
                writers.switch_layout(changed)
                layout = changed
            writers.write(fit(chunk, layout.schema))
            pa.default_memory_pool().release_unused()
        return writers.close()
    except BaseException:
        writers.abort()
        layout.discard()
        raise


def _chunks(reader: pa.RecordBatchReader, chunk_bytes: int) -> Iterator[pa.Table]:
    batches: list[pa.RecordBatch] = []
    size = 0
    for batch in reader:
        for piece in _split(batch, chunk_bytes):
            batches.append(piece)
            size += piece.nbytes
            if size >= chunk_bytes:
                chunk = pa.Table.from_batches(batches)
                # Clear the list first: it would keep the chunk in memory until the next one is complete.
                batches, size = [], 0
                yield chunk
                del chunk
    if batches:
        yield pa.Table.from_batches(batches)


def _split(batch: pa.RecordBatch, chunk_bytes: int) -> Iterator[pa.RecordBatch]:
    if batch.num_rows == 0:
        return
    rows = max(1, int(batch.num_rows * chunk_bytes / max(1, batch.nbytes)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class _OpenFiles:
    """One open file per partition; the least recently used is closed first."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._open: OrderedDict[tuple[object, ...], DataFileWriter] = OrderedDict()
        self._closed: list[DataFile] = []

    def write(self, rows: pa.Table) -> None:
        if self._layout.spec.is_unpartitioned():
            parts: Iterator[PartitionRows] = iter([PartitionRows(Record(), rows)])
        else:
            parts = split(rows, self._layout.spec, self._layout.schema)
        executor = ExecutorFactory.get_or_create()
        pending: list[Future[None]] = []
        for part in parts:
            writer = self._writer(part.record, pending)
            pending.append(executor.submit(writer.write, self._layout.sort(part.rows)[0]))
        _finish(pending)
        self._roll()

    def _writer(self, record: Record, pending: list[Future[None]]) -> DataFileWriter:
        key = record_key(record)
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        if len(self._open) >= MAX_OPEN_FILES:
            _finish(pending)
            _, oldest = self._open.popitem(last=False)
            self._closed.append(oldest.close())
        unpartitioned = self._layout.spec.is_unpartitioned()
        self._open[key] = DataFileWriter(self._layout, None if unpartitioned else record)
        return self._open[key]

    def _roll(self) -> None:
        for key, writer in list(self._open.items()):
            if writer.position >= self._layout.target_bytes:
                self._closed.append(writer.close())
                del self._open[key]

    def switch_layout(self, layout: Layout) -> None:
        """Close the current files and write the following chunks with another layout."""
        self.close()
        self._layout = layout

    def close(self) -> list[DataFile]:
        while self._open:
            _, writer = self._open.popitem(last=False)
            self._closed.append(writer.close())
        return self._closed

    def abort(self) -> None:
        for writer in self._open.values():
            writer.abort()


def _finish(pending: list[Future[None]]) -> None:
    wait(pending)
    for future in pending:
        future.result()
    pending.clear()
