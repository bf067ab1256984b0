"""Rows out of data files: PyIceberg's scan, with the faults of its projection put right in one place.

PyIceberg 0.12 rebuilds lists and maps whose values are structs without their validity, so that null reads as empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, translate_column_names
from pyiceberg.io.pyarrow import (
    ArrowAccessor,
    ArrowProjectionVisitor,
    ArrowScan,
    _combine_positional_deletes,
    _get_column_projection_values,
    _read_all_delete_files,
    expression_to_pyarrow,
    schema_to_pyarrow,
)
from pyiceberg.manifest import FileFormat
from pyiceberg.schema import prune_columns, visit_with_partner
from pyiceberg.types import FixedType, TimestampType, TimestamptzType, UUIDType

from floe_core.errors import CapabilityError
from floe_iceberg.formats.arrow_types import with_children
from floe_iceberg.formats.file_columns import FileColumns, file_columns

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable, Iterator

    import pyarrow.compute as pc
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.types import ListType, MapType, NestedField, StructType

_READABLE = (FileFormat.PARQUET, FileFormat.ORC)
# Arrow takes the timestamps of old writers (INT96) for nanoseconds, which end in 2262.
_READ_OPTIONS: dict[str, Any] = {
    "pre_buffer": True,
    "buffer_size": 8 * 1024 * 1024,
    "coerce_int96_timestamp_unit": "us",
}
_NEWEST_IN_MICROSECONDS = 2
_UUID = 16


def require_readable(tasks: Iterable[FileScanTask], *, table: str) -> None:
    """Refuse data files of a format that is not read in process, before anything is read or written.

    Raises:
        CapabilityError: Names the format.
    """
    for task in tasks:
        if task.file.file_format not in _READABLE:
            kind = FileFormat(task.file.file_format).value
            msg = f"Table '{table}' has {kind} data files, which only the Spark engine can read."
            raise CapabilityError(msg, hint="Pass engine='spark', or read the table as a frame.", table=table)


class RowScan(ArrowScan):
    """Reads data files into a schema by field id, position deletes applied and rows filtered."""

    def file_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        """Read one file after the other, a batch in memory at a time."""
        tasks = list(tasks)
        # ArrowScan's public generator holds every file it has started in memory.
        yield from self._record_batches_from_scan_tasks_and_deletes(tasks, _read_all_delete_files(self._io, tasks))

    def _record_batches_from_scan_tasks_and_deletes(
        self, tasks: Iterable[FileScanTask], deletes_per_file: dict[str, list[pa.ChunkedArray]]
    ) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from self._task_batches(task, deletes_per_file.get(task.file.file_path))

    def _task_batches(self, task: FileScanTask, deletes: list[pa.ChunkedArray] | None) -> Iterator[pa.RecordBatch]:
        metadata = self._table_metadata
        downcast = self._downcast_ns_timestamp_to_us
        if downcast is None:
            downcast = metadata.format_version <= _NEWEST_IN_MICROSECONDS
        with self._io.new_input(task.file.file_path).open() as stream:
            fragment = _format_of(task).make_fragment(stream)
            physical = fragment.physical_schema
            columns = file_columns(physical, metadata, downcast=downcast, path=task.file.file_path)
            constants = _get_column_projection_values(
                task.file,
                self._projected_schema,
                metadata.schema(),
                metadata.specs().get(task.file.spec_id),
                columns.schema.field_ids,
            )
            condition = self._condition(columns, constants)
            stored = prune_columns(columns.schema, self._projected_field_ids, select_full_types=False)
            scanner = ds.Scanner.from_fragment(
                fragment=fragment,
                schema=physical,
                # Deletes name positions in the file, so that they come before the filter.
                filter=None if deletes else condition,
                columns=[column.name for column in stored.columns],
            )
            projection = Projection(
                stored,
                downcast_ns_timestamp_to_us=downcast,
                projected_missing_fields=constants,
                allow_timestamp_tz_mismatch=True,
            )
            position = 0
            for batch in scanner.to_batches():
                rows = batch
                if deletes:
                    rows = _surviving(batch, deletes, position, condition)
                    position += batch.num_rows
                if rows.num_rows:
                    yield projection.of(self._projected_schema, rows)

    def _condition(self, columns: FileColumns, constants: dict[int, Any]) -> pc.Expression | None:
        """Translate the row filter to the names and types of one file; the rows that pass are filtered once more."""
        # The types of a file that was taken in are its writer's, and a literal may not fit them.
        if isinstance(self._bound_row_filter, AlwaysTrue) or columns.mapped:
            return None
        file_schema = columns.schema
        translated: BooleanExpression = translate_column_names(
            self._bound_row_filter,
            file_schema,
            case_sensitive=self._case_sensitive,
            projected_field_values=constants,
        )
        return expression_to_pyarrow(bind(file_schema, translated, self._case_sensitive), file_schema)


def _format_of(task: FileScanTask) -> ds.FileFormat:
    return ds.OrcFileFormat() if task.file.file_format == FileFormat.ORC else ds.ParquetFileFormat(**_READ_OPTIONS)


def _surviving(
    batch: pa.RecordBatch, deletes: list[pa.ChunkedArray], position: int, condition: pc.Expression | None
) -> pa.RecordBatch:
    rows = pa.Table.from_batches(
        [batch.take(_combine_positional_deletes(deletes, position, position + batch.num_rows))]
    )
    if condition is not None:
        rows = rows.filter(condition)
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else batch.slice(0, 0)


class Projection(ArrowProjectionVisitor):
    """Brings the columns of a file into the shape of a schema; null lists and maps stay null."""

    def of(self, schema: Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Project a batch of the file."""
        struct = visit_with_partner(schema, rows, self, ArrowAccessor(self._file_schema))
        return pa.RecordBatch.from_struct_array(struct)

    def _cast_if_needed(self, field: NestedField, values: pa.Array) -> pa.Array:
        """Bring values into the type of their column.

        ORC keeps fixed values and UUIDs as plain binary, and Arrow reads its timestamps as nanoseconds.
        """
        kind = field.field_type
        if field.field_id in self._projected_missing_fields:
            return values
        if isinstance(kind, TimestampType | TimestamptzType) and getattr(values.type, "unit", "") == "ns":
            return values.cast(pa.timestamp("us", "UTC" if isinstance(kind, TimestamptzType) else None), safe=False)
        if isinstance(kind, FixedType | UUIDType) and (
            pa.types.is_binary(values.type) or pa.types.is_large_binary(values.type)
        ):
            sized = values.cast(pa.binary(len(kind) if isinstance(kind, FixedType) else _UUID))
            return sized if isinstance(kind, FixedType) else pa.ExtensionArray.from_storage(pa.uuid(), sized)
        return super()._cast_if_needed(field, values)

    def struct(
        self, struct: StructType, struct_array: pa.Array | None, field_results: builtins.list[pa.Array | None]
    ) -> pa.Array | None:
        """Put projected fields into their struct; one that the file lacks has the value of its partition."""
        if struct_array is not None:
            field_results = [
                self._constant(field, len(struct_array)) if found is None else found
                for field, found in zip(struct.fields, field_results, strict=True)
            ]
        return super().struct(struct, struct_array, field_results)

    def _constant(self, field: NestedField, rows: int) -> pa.Array | None:
        value = self._projected_missing_fields.get(field.field_id)
        if value is None:
            return None
        return pa.repeat(pa.scalar(value, schema_to_pyarrow(field.field_type, include_field_ids=False)), rows)

    def list(self, list_type: ListType, list_array: pa.Array | None, value_array: pa.Array | None) -> pa.Array | None:
        """Put projected elements into their lists."""
        if list_array is None or value_array is None:
            return None
        if isinstance(list_array, pa.FixedSizeListArray):
            list_array = list_array.cast(pa.list_(list_array.type.value_field))
        elements = self._cast_if_needed(list_type.element_field, value_array)
        kind = pa.large_list if isinstance(list_array, pa.LargeListArray) else pa.list_
        target = kind(self._construct_field(list_type.element_field, elements.type))
        return with_children(list_array, target, elements)

    def map(
        self, map_type: MapType, map_array: pa.Array | None, key_result: pa.Array | None, value_result: pa.Array | None
    ) -> pa.Array | None:
        """Put projected keys and values into their maps."""
        if map_array is None or key_result is None or value_result is None:
            return None
        keys = self._cast_if_needed(map_type.key_field, key_result)
        values = self._cast_if_needed(map_type.value_field, value_result)
        key_field = self._construct_field(map_type.key_field, keys.type)
        value_field = self._construct_field(map_type.value_field, values.type)
        entries = pa.StructArray.from_arrays([keys, values], fields=[key_field, value_field])
        return with_children(map_array, pa.map_(key_field, value_field), entries)
