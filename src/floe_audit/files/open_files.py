"""Open data files of any format: schema, statistics and row batches."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from floe_audit.files.avro import open_avro
from floe_audit.files.avro_rows import arrow_schema, arrow_table
from floe_audit.files.parquet_footer import Chunk, ParquetFooter, footer_length, parse_footer
from floe_audit.spec.columns import nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from floe_audit.files.access import FileSource

_BATCH_ROWS = 131_072
_GUESS = 65_536


@dataclass(frozen=True)
class Footer:
    """Statistics of one leaf column in a Parquet footer, over all row groups."""

    values: int
    nulls: int | None
    size: int
    extremes: tuple[tuple[Any, Any], ...] | None
    """Minimum and maximum of each row group in physical form; None if a row group does not have them."""


@dataclass(frozen=True)
class OpenFile:
    """An open data or delete file."""

    schema: pa.Schema
    rows: int
    parquet: pq.ParquetFile | None = None
    row_group_offsets: tuple[int, ...] | None = None
    footers: tuple[Footer, ...] = ()
    """In the order of the leaf columns."""
    row_groups: tuple[tuple[Chunk, ...], ...] = ()
    source: Any = field(default=None, repr=False)

    def batches(self, columns: list[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows in batches."""
        for _, batch in self.numbered_batches(columns):
            yield batch

    def numbered_batches(self, columns: list[str] | None = None) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Read the rows in batches, each with its row group number."""
        if self.parquet is None:
            yield from ((0, batch) for batch in self._other_batches(columns))
            return
        for group in range(self.parquet.num_row_groups):
            for batch in self.parquet.iter_batches(_BATCH_ROWS, [group], columns, use_threads=False):
                yield group, batch

    def _other_batches(self, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        if isinstance(self.source, orc.ORCFile):
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
            footer = _parquet_footer(stream, files.size(path))
            parquet = pq.ParquetFile(
                native,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
                pre_buffer=False,
            )
            with parquet:
                yield _parquet(parquet, footer)
        elif form == "orc":
            source = orc.ORCFile(native)
            yield OpenFile(source.schema, source.nrows, source=source)
        else:
            avro = open_avro(stream.read())
            schema = arrow_schema(avro.schema)
            table = arrow_table(avro, schema)
            yield OpenFile(schema, table.num_rows, source=table)


def _parquet_footer(stream: BinaryIO, size: int) -> ParquetFooter:
    stream.seek(max(0, size - _GUESS))
    tail = stream.read(_GUESS)
    length = footer_length(tail) + 8
    if length > len(tail) and length < size:
        stream.seek(size - length)
        tail = stream.read(length)
    stream.seek(0)
    return parse_footer(size, tail)


def _parquet(parquet: pq.ParquetFile, read: ParquetFooter) -> OpenFile:
    schema = parquet.schema_arrow
    offsets = tuple(min((chunk.start for chunk in group), default=0) for group in read.row_groups)
    leaves = [one for one in nodes(schema) if one.leaf]
    columns = list(zip(*read.row_groups, strict=True))
    # A file without rows has no row groups and no column statistics.
    footers = tuple(_footer(chunks) for chunks in columns) if len(columns) == len(leaves) else ()
    return OpenFile(schema, read.rows, parquet, offsets, footers, read.row_groups if footers else ())


def _footer(chunks: tuple[Chunk, ...]) -> Footer:
    nulls: int | None = 0
    extremes: list[tuple[Any, Any]] | None = []
    for one in chunks:
        nulls = None if nulls is None or one.nulls is None else nulls + one.nulls
        if one.lower is not None and one.upper is not None:
            if extremes is not None:
                extremes.append((one.lower, one.upper))
        elif one.nulls != one.values:
            extremes = None
    values, size = sum(one.values for one in chunks), sum(one.size for one in chunks)
    return Footer(values, nulls, size, None if extremes is None else tuple(extremes))
