"""Data files of any format: their schema, and their rows in batches."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from floe_audit.avro import open_avro
from floe_audit.avro_rows import arrow_schema, arrow_table
from floe_audit.columns import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_audit.files import FileSource

_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class Footer:
    """What a Parquet footer says of one leaf column, over all row groups."""

    values: int
    nulls: int | None
    size: int
    extremes: tuple[tuple[Any, Any], ...] | None
    """Minimum and maximum of each row group in physical form; none when a row group lacks them."""


@dataclass(frozen=True)
class OpenFile:
    """A data or delete file, opened."""

    schema: pa.Schema
    rows: int
    parquet: pq.ParquetFile | None = None
    row_group_offsets: tuple[int, ...] | None = None
    footers: tuple[Footer, ...] = ()
    """In the order of the leaf columns."""
    source: Any = field(default=None, repr=False)

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows, some at a time."""
        if self.parquet is not None:
            yield from self.parquet.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False)
        elif isinstance(self.source, orc.ORCFile):
            for stripe in range(self.source.nstripes):
                yield self.source.read_stripe(stripe, columns=columns)
        else:
            yield from self.source.to_batches(max_chunksize=_BATCH_ROWS)


@contextlib.contextmanager
def opened(files: FileSource, path: str, form: str) -> Iterator[OpenFile]:
    """Open a data or delete file."""
    with files.open(path) as stream:
        native = stream if isinstance(stream, pa.NativeFile) else pa.PythonFile(stream, mode="r")
        if form == "parquet":
            parquet = pq.ParquetFile(
                native,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
                pre_buffer=False,
            )
            with parquet:
                yield _parquet(parquet)
        elif form == "orc":
            source = orc.ORCFile(native)
            yield OpenFile(source.schema, source.nrows, source=source)
        else:
            avro = open_avro(stream.read())
            schema = arrow_schema(avro.schema)
            table = arrow_table(avro, schema)
            yield OpenFile(schema, table.num_rows, source=table)


def _parquet(parquet: pq.ParquetFile) -> OpenFile:
    metadata = parquet.metadata
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    schema = parquet.schema_arrow
    offsets = []
    for group in groups:
        starts = []
        for place in range(group.num_columns):
            column = group.column(place)
            first = column.data_page_offset
            if column.has_dictionary_page and column.dictionary_page_offset:
                first = min(first, column.dictionary_page_offset)
            starts.append(first)
        offsets.append(min(starts, default=0))
    leaves = [one for one in nodes(schema) if one.leaf]
    footers: list[Footer] = []
    if len(leaves) == metadata.num_columns:
        footers = [_footer([group.column(place) for group in groups]) for place in range(metadata.num_columns)]
    return OpenFile(schema, metadata.num_rows, parquet, tuple(offsets), tuple(footers))


def _footer(chunks: list[pq.ColumnChunkMetaData]) -> Footer:
    values = sum(one.num_values for one in chunks)
    size = sum(one.total_compressed_size for one in chunks)
    nulls: int | None = 0
    extremes: list[tuple[Any, Any]] | None = []
    for one in chunks:
        statistics = one.statistics if one.is_stats_set else None
        if statistics is None or not statistics.has_null_count:
            nulls = None
        elif nulls is not None:
            nulls += statistics.null_count
        if statistics is not None and statistics.has_min_max:
            exact = getattr(statistics, "is_min_value_exact", None), getattr(statistics, "is_max_value_exact", None)
            if extremes is not None and False not in exact:
                extremes.append((statistics.min_raw, statistics.max_raw))
            elif extremes is not None:
                extremes = None
        elif statistics is None or not (statistics.has_null_count and statistics.null_count == one.num_values):
            extremes = None
    return Footer(values, nulls, size, None if extremes is None else tuple(extremes))
