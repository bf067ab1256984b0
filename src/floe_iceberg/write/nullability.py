"""Schema changes that make required columns optional when the data contains nulls."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.ipc

from floe_iceberg.models import SchemaChange, SchemaChangeKind
from floe_iceberg.table.keys.key_property import KEYS_PROPERTY, parse_keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pyiceberg.table import Table


def nullable_by_data(
    table: Table, data: pa.Table | pa.RecordBatchReader, *, kept: Collection[str] = (), known: Collection[str] = ()
) -> tuple[SchemaChange, ...]:
    """Return the schema changes that allow the data's nulls in required columns of a table.

    Args:
        table: The table.
        data: Rows; for a stream, which can be read only once, only columns of the null type are considered.
        kept: Columns that stay required.
        known: Columns of a stream that are known to contain nulls.
    """
    return make_optional(
        name
        for name in required_columns(table, kept)
        if (index := data.schema.get_field_index(name)) >= 0
        and (
            name in known
            or pa.types.is_null(data.schema.field(index).type)
            or (isinstance(data, pa.Table) and data.column(index).null_count)
        )
    )


def required_columns(table: Table, kept: Collection[str] = ()) -> list[str]:
    """Return the required columns that may become optional: those that are neither keys nor in ``kept``."""
    schema = table.schema()
    # Key columns stay required: a missing value cannot identify a row.
    keys = {*kept, *parse_keys(table.properties.get(KEYS_PROPERTY, "")), *schema.identifier_field_names()}
    return [field.name for field in schema.fields if field.required and not _contains_key(field.name, keys)]


def make_optional(columns: Iterable[str]) -> tuple[SchemaChange, ...]:
    """Return the changes that make columns optional."""
    return tuple(SchemaChange(kind=SchemaChangeKind.MAKE_OPTIONAL, column=name) for name in columns)


@dataclass(frozen=True)
class BufferedStream:
    """A stream buffered in a file, which can be read again.

    Attributes:
        nulls: The given columns that contain nulls.
    """

    nulls: frozenset[str]
    _file: IO[bytes]

    def reader(self) -> pa.RecordBatchReader:
        """Return the stream from its beginning."""
        self._file.seek(0)
        return pa.ipc.open_stream(self._file)


@contextmanager
def buffered_stream(reader: pa.RecordBatchReader, columns: Collection[str]) -> Iterator[BufferedStream]:
    """Read a whole stream before it is written, and note which of the given columns contain nulls.

    The batches are buffered in a temporary file, not in memory.
    """
    with tempfile.TemporaryFile(prefix="floe-stream-") as file:
        nulls: set[str] = set()
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(file, reader.schema, options=options) as writer:
            for batch in reader:
                nulls |= {name for name in columns if batch.column(name).null_count}
                writer.write_batch(batch)
        yield BufferedStream(frozenset(nulls), file)


def _contains_key(column: str, keys: set[str]) -> bool:
    return any(key == column or key.startswith(f"{column}.") for key in keys)
