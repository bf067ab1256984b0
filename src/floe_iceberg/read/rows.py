"""Reads rows from data files with PyIceberg's scan, and works around errors in its projection.

PyIceberg 0.12 loses the validity of lists and maps with struct values, so null reads as empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids, translate_column_names
from pyiceberg.io.pyarrow import (
    PYARROW_FIELD_DOC_KEY,
    ArrowAccessor,
    expression_to_pyarrow,
    schema_to_pyarrow,
)
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import prune_columns, visit_with_partner
from pyiceberg.table import DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE
from pyiceberg.types import FixedType, ListType, MapType, TimestampType, TimestamptzType, UUIDType
from pyiceberg.utils.config import Config

from floe_core.errors import CapabilityError
from floe_iceberg.formats.arrow_types import with_children
from floe_iceberg.formats.file_columns import FileColumns, file_columns
from floe_iceberg.pyiceberg_internals.arrow import (
    ProjectionHook,
    ScanHook,
    projected_constants,
    read_delete_files,
    surviving_positions,
)

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator

    import pyarrow.compute as pc
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField, StructType

_READABLE = (FileFormat.PARQUET, FileFormat.ORC)
# Arrow reads old INT96 timestamps as nanoseconds by default, which overflow in 2262.
_READ_OPTIONS: dict[str, Any] = {
    "pre_buffer": True,
    "buffer_size": 8 * 1024 * 1024,
    "coerce_int96_timestamp_unit": "us",
}
_LAST_VERSION_WITHOUT_NANOSECONDS = 2
_UUID_BYTES = 16


def require_readable(tasks: Iterable[FileScanTask], *, table: str) -> None:
    """Require, before anything is read or written, that floe can read the format of all data files.

    Raises:
        CapabilityError: floe cannot read a format; the error names it.
    """
    for task in tasks:
        if task.file.file_format not in _READABLE:
            kind = FileFormat(task.file.file_format).value
            msg = f"Table '{table}' has {kind} data files, which only the Spark engine can read."
            raise CapabilityError(msg, hint="Pass engine='spark', or read the table as a frame.", table=table)


class RowScan(ScanHook):
    """Reads data files into a schema by field id, applies position deletes and filters rows."""

    def __init__(
        self, table_metadata: TableMetadata, io: FileIO, projected_schema: Schema, row_filter: BooleanExpression
    ) -> None:
        super().__init__(table_metadata, io, projected_schema, row_filter)
        self.table_metadata = table_metadata
        self.io = io
        self.projected_schema = projected_schema
        self.row_filter = bind(table_metadata.schema(), row_filter, case_sensitive=True)

    def file_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """Read one file after the other, with one batch in memory at a time."""
        tasks = list(tasks)
        # ArrowScan's public generator keeps every file that it has started in memory.
        deletes = read_delete_files(self.io, tasks)
        for task in tasks:
            yield from self.task_batches(task, deletes.get(task.file.file_path))

    def task_batches(self, task: FileScanTask, deletes: list[pa.ChunkedArray] | None) -> Iterator[pa.RecordBatch]:
        """Read one file, with one batch in memory at a time."""
        metadata = self.table_metadata
        downcast = Config().get_bool(DOWNCAST_NS_TIMESTAMP_TO_US_ON_WRITE)
        if downcast is None:
            downcast = metadata.format_version <= _LAST_VERSION_WITHOUT_NANOSECONDS
        with self.io.new_input(task.file.file_path).open() as stream:
            fragment = _format_of(task).make_fragment(stream)
            physical = fragment.physical_schema
            columns = file_columns(physical, metadata, downcast=downcast, path=task.file.file_path)
            constants = projected_constants(
                task.file,
                self.projected_schema,
                metadata.schema(),
                metadata.specs().get(task.file.spec_id),
                columns.schema.field_ids,
            )
            condition = self._condition(columns, constants)
            stored = prune_columns(columns.schema, self._field_ids(), select_full_types=False)
            scanner = ds.Scanner.from_fragment(
                fragment=fragment,
                schema=physical,
                # Deletes refer to positions in the file, so they must be applied before the filter.
                filter=None if deletes else condition,
                columns=[column.name for column in stored.columns],
            )
            projection = Projection(
                stored,
                downcast_ns_timestamp_to_us=downcast,
                projected_missing_fields=constants,
            )
            position = 0
            for batch in scanner.to_batches():
                rows = batch
                if deletes:
                    rows = _without_deleted(batch, deletes, position, condition)
                    position += batch.num_rows
                if rows.num_rows:
                    yield projection.of(self.projected_schema, rows)

    def _field_ids(self) -> set[int]:
        """Return the columns to read from a file: those of the schema and of the filter."""
        schema = self.projected_schema
        wanted = {number for number in schema.field_ids if not isinstance(schema.find_type(number), ListType | MapType)}
        return wanted | extract_field_ids(self.row_filter)

    def _condition(self, columns: FileColumns, constants: dict[int, Any]) -> pc.Expression | None:
        """Translate the row filter to the names and types of one file; matching rows are filtered again later."""
        # A file added with a name mapping has its writer's types, which a literal may not fit.
        if isinstance(self.row_filter, AlwaysTrue) or columns.mapped:
            return None
        file_schema = columns.schema
        translated: BooleanExpression = translate_column_names(
            self.row_filter,
            file_schema,
            case_sensitive=True,
            projected_field_values=constants,
        )
        return expression_to_pyarrow(bind(file_schema, translated, case_sensitive=True), file_schema)


def _format_of(task: FileScanTask) -> ds.FileFormat:
    return ds.OrcFileFormat() if task.file.file_format == FileFormat.ORC else ds.ParquetFileFormat(**_READ_OPTIONS)


def _without_deleted(
    batch: pa.RecordBatch, deletes: list[pa.ChunkedArray], position: int, condition: pc.Expression | None
) -> pa.RecordBatch:
    rows = pa.Table.from_batches([batch.take(surviving_positions(deletes, position, position + batch.num_rows))])
    if condition is not None:
        rows = rows.filter(condition)
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else batch.slice(0, 0)


class Projection(ProjectionHook):
    """Projects the columns of a file to a schema; null lists and maps stay null."""

    def __init__(
        self,
        file_schema: Schema,
        *,
        downcast_ns_timestamp_to_us: bool = False,
        projected_missing_fields: dict[int, Any] | None = None,
    ) -> None:
        """Project the columns of a file.

        Args:
            file_schema: The columns read from the file.
            downcast_ns_timestamp_to_us: Whether to convert nanoseconds to microseconds.
            projected_missing_fields: Values of columns that are not in the file, by field id.
        """
        missing = projected_missing_fields or {}
        super().__init__(
            file_schema,
            downcast_ns_timestamp_to_us=downcast_ns_timestamp_to_us,
            projected_missing_fields=missing,
            allow_timestamp_tz_mismatch=True,
        )
        self.file_schema = file_schema
        self.missing = missing

    def of(self, schema: Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Project a batch of the file."""
        struct = visit_with_partner(schema, rows, self, ArrowAccessor(self.file_schema))
        return pa.RecordBatch.from_struct_array(struct)

    def cast(self, field: NestedField, values: pa.Array) -> pa.Array:
        """Cast values to the type of their column.

        ORC stores fixed values and UUIDs as plain binary, and Arrow reads its timestamps as nanoseconds.
        """
        kind = field.field_type
        if field.field_id in self.missing:
            return values
        if isinstance(kind, TimestampType | TimestamptzType) and getattr(values.type, "unit", "") == "ns":
            return values.cast(pa.timestamp("us", "UTC" if isinstance(kind, TimestamptzType) else None), safe=False)
        if isinstance(kind, FixedType | UUIDType) and (
            pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
        ):
            sized = values.cast(pa.binary(len(kind) if isinstance(kind, FixedType) else _UUID_BYTES))
            return sized if isinstance(kind, FixedType) else pa.ExtensionArray.from_storage(pa.uuid(), sized)
        return super().cast(field, values)

    def struct(
        self, struct: StructType, struct_array: pa.Array | None, field_results: builtins.list[pa.Array | None]
    ) -> pa.Array | None:
        """Build structs from projected fields; a field missing from the file gets its partition value."""
        if struct_array is not None:
            field_results = [
                self._constant(field, len(struct_array)) if found is None else found
                for field, found in zip(struct.fields, field_results, strict=True)
            ]
        return super().struct(struct, struct_array, field_results)

    def _constant(self, field: NestedField, rows: int) -> pa.Array | None:
        value = self.missing.get(field.field_id)
        if value is None:
            return None
        return pa.repeat(pa.scalar(value, schema_to_pyarrow(field.field_type, include_field_ids=False)), rows)

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        """Build lists from projected elements."""
        if list_array is None or value_array is None:
            return None
        if isinstance(list_array, pa.FixedSizeListArray):
            list_array = list_array.cast(pa.list_(list_array.type.value_field))
        elements = self.cast(list_type.element_field, value_array)
        kind = pa.large_list if isinstance(list_array, pa.LargeListArray) else pa.list_
        target = kind(_arrow_field(list_type.element_field, elements.type))
        return with_children(list_array, target, elements)

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        """Build maps from projected keys and values."""
        if map_array is None or key_result is None or value_result is None:
            return None
        keys = self.cast(map_type.key_field, key_result)
        values = self.cast(map_type.value_field, value_result)
        key_field = _arrow_field(map_type.key_field, keys.type)
        value_field = _arrow_field(map_type.value_field, values.type)
        entries = pa.StructArray.from_arrays([keys, values], fields=[key_field, value_field])
        return with_children(map_array, pa.map_(key_field, value_field), entries)


def _arrow_field(field: NestedField, kind: pa.DataType) -> pa.Field:
    doc = {PYARROW_FIELD_DOC_KEY: field.doc.encode()} if field.doc else {}
    return pa.field(field.name, kind, nullable=field.optional, metadata=doc)
