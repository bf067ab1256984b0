"""Parquet data file writer, with the column metrics that readers use for pruning."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import uuid
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionFieldValue
from pyiceberg.typedef import Record
from pyiceberg.utils.concurrent import ExecutorFactory

from floe_core.errors import CapabilityError
from floe_iceberg.catalog.locations import location_provider
from floe_iceberg.commit.protocol import discard_files
from floe_iceberg.formats.cast import as_stored, fit, stored_names
from floe_iceberg.formats.column_metrics import ColumnMetrics, column_modes, leaves
from floe_iceberg.formats.parquet_options import positive_int, row_group_rows, with_statistics, writer_options
from floe_iceberg.formats.partitioning import Partition, PartitionRows, record_values, split
from floe_iceberg.formats.sorting import sorted_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from concurrent.futures import Future

    from pyiceberg.io import FileIO
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortOrder

    from floe_iceberg.formats.column_metrics import Leaf

_MIB = 1024 * 1024
_TARGET_BYTES = "write.target-file-size-bytes"
# Below this size, a second writer costs more than it saves.
_MIN_BYTES_PER_WRITER = 48 * _MIB


@dataclass(frozen=True)
class Layout:
    """Layout of the files of one write: schema, partition spec, sort order and location.

    Attributes:
        metadata: The table's metadata, with the write's schema changes applied.
        io: The table's FileIO.
        order: Sort order of the rows in each file; the table's sort order when None.
    """

    metadata: TableMetadata
    io: FileIO
    order: SortOrder | None = None
    write_id: uuid.UUID = field(default_factory=uuid.uuid4)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    paths: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Reject formats other than Parquet."""
        wanted = self.metadata.properties.get("write.format.default", "parquet").lower()
        if wanted != "parquet":
            msg = f"The table's write.format.default is {wanted}; the arrow engine writes Parquet only."
            raise CapabilityError(msg, hint="Pass engine='spark'.")
        # Read early: an invalid setting must fail before the first file is written.
        _ = self.writer_options, self.target_bytes

    @cached_property
    def writer_options(self) -> dict[str, Any]:
        """The Parquet writer's options."""
        return writer_options(self.metadata.properties)

    @property
    def schema(self) -> Schema:
        """The schema of the rows."""
        return self.metadata.schema()

    @property
    def spec(self) -> PartitionSpec:
        """The partition spec of new files."""
        return self.metadata.spec()

    @cached_property
    def stored_schema(self) -> Schema | None:
        """The schema with the column names used in files; None when they equal the table's names."""
        return stored_names(self.schema)

    @cached_property
    def columns(self) -> list[Leaf]:
        """The columns of each file and the metrics to collect for each."""
        return leaves(self.schema, column_modes(self.metadata))

    @property
    def target_bytes(self) -> int:
        """File size on disk at which a new file is started."""
        return positive_int(self.metadata.properties, _TARGET_BYTES, 512 * _MIB)

    def new_path(self, record: Record | None = None) -> str:
        """Return the path for another data file, and record it."""
        partition = None
        if record is not None:
            values = [
                PartitionFieldValue(field=spec_field, value=value)
                for spec_field, value in zip(self.spec.fields, record_values(record), strict=True)
            ]
            partition = Partition(field_values=values, partition_spec=self.spec, schema=self.schema)
        provider = location_provider(self.metadata)
        with self._lock:
            name = f"{next(self._numbers):05d}-0-{self.write_id}.parquet"
            path = provider.new_data_location(name, partition)
            self.paths.append(path)
        return path

    def discard(self) -> None:
        """Delete every file written under this layout."""
        discard_files(self.io, self.paths)
        self.paths.clear()

    def sort(self, rows: pa.Table) -> tuple[pa.Table, int | None]:
        """Sort rows by the layout's order; also return the order's id if the table defines it."""
        order = self.order or self.metadata.sort_order()
        if order.is_unsorted:
            return rows, None
        ours = any(order == known for known in self.metadata.sort_orders)
        return sorted_rows(rows, order, self.schema), order.order_id if ours else None


class DataFileWriter:
    """Writer of one data file; rows must have the layout's schema, as returned by ``cast.fit``."""

    def __init__(self, layout: Layout, record: Record | None = None, *, sort_order_id: int | None = None) -> None:
        """Choose the path; the first write creates the file."""
        self._layout = layout
        self._record = record if record is not None else Record()
        self._sort_order_id = sort_order_id
        self.path = layout.new_path(record)
        self._output = layout.io.new_output(self.path)
        self._stream: Any = None
        self._writer: pq.ParquetWriter | None = None
        self._metrics = ColumnMetrics(layout.columns)

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell()) if self._stream is not None else 0

    def write(self, rows: pa.Table) -> None:
        """Write rows; each call ends a row group."""
        properties = self._layout.metadata.properties
        self._metrics.observe(rows)
        if self._layout.stored_schema is not None:
            rows = as_stored(rows, self._layout.stored_schema)
        if self._writer is None:
            self._stream = self._output.create(overwrite=True)
            self._writer = pq.ParquetWriter(
                self._stream,
                schema=rows.schema,
                store_decimal_as_integer=True,
                write_statistics=with_statistics(rows.schema),
                **self._layout.writer_options,
            )
        self._writer.write_table(rows, row_group_size=row_group_rows(rows, properties))

    def close(self) -> DataFile:
        """Finish the file and return its DataFile entry."""
        if self._writer is None:
            msg = "a data file needs rows"
            raise ValueError(msg)
        try:
            self._writer.close()
            self._stream.close()
        except BaseException:
            self.abort()
            raise
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self.path,
            file_format=FileFormat.PARQUET,
            partition=self._record,
            file_size_in_bytes=len(self._output),
            sort_order_id=self._sort_order_id,
            equality_ids=None,
            key_metadata=None,
            **self._metrics.describe(self._writer.writer.metadata),
        )
        file.spec_id = self._layout.metadata.default_spec_id
        return file

    def abort(self) -> None:
        """Close the file without finishing it; the layout deletes it."""
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
            # Otherwise the garbage collector closes it again and warns about the closed file.
            self._writer.is_open = False
        if self._stream is not None:
            with contextlib.suppress(Exception):
                self._stream.close()


def write_rows(layout: Layout, rows: pa.Table) -> list[DataFile]:
    """Write rows that fit the schema as data files, on all cores."""
    rows = fit(rows, layout.schema)
    if rows.num_rows == 0:
        return []
    if layout.spec.is_unpartitioned():
        tasks: Iterable[PartitionRows] = (PartitionRows(Record(), part) for part in _parts(rows))
    else:
        tasks = split(rows, layout.spec, layout.schema)
    try:
        return [file for files in _in_parallel(layout, tasks) for file in files]
    except BaseException:
        layout.discard()
        raise


def _in_parallel(layout: Layout, tasks: Iterable[PartitionRows]) -> list[list[DataFile]]:
    """Write on all cores with few tasks queued; if one fails, wait for the others before raising."""
    executor = ExecutorFactory.get_or_create()
    max_queued = 2 * (os.cpu_count() or 1)
    futures: list[Future[list[DataFile]]] = []
    try:
        for number, task in enumerate(tasks):
            if number >= max_queued:
                futures[number - max_queued].result()
            futures.append(executor.submit(_write_partition, layout, task))
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()
        wait(futures)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    count = max(1, min(os.cpu_count() or 1, rows.nbytes // _MIN_BYTES_PER_WRITER))
    size = -(-rows.num_rows // count)
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size)


def _write_partition(layout: Layout, task: PartitionRows) -> list[DataFile]:
    rows, order_id = layout.sort(task.rows)
    record = None if layout.spec.is_unpartitioned() else task.record
    files = []
    writer: DataFileWriter | None = None
    step = row_group_rows(rows, layout.metadata.properties)
    try:
        for start in range(0, rows.num_rows, step):
            writer = writer or DataFileWriter(layout, record, sort_order_id=order_id)
            writer.write(rows.slice(start, step))
            if writer.position >= layout.target_bytes:
                files.append(writer.close())
                writer = None
        if writer is not None:
            files.append(writer.close())
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    return files
