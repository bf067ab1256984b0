"""PyIceberg's scan of data files with Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.io.pyarrow import (
    ArrowProjectionVisitor,
    ArrowScan,
    _combine_positional_deletes,
    _get_column_projection_values,
    _read_all_delete_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask
    from pyiceberg.types import NestedField


def read_delete_files(io: FileIO, tasks: Iterable[FileScanTask]) -> dict[str, list[pa.ChunkedArray]]:
    """Read the position deletes of a plan; return those of each data file by its location.

    Why: PyIceberg reads them only as part of its own scan.
    """
    return _read_all_delete_files(io, tasks)


def surviving_positions(deletes: list[pa.ChunkedArray], start: int, end: int) -> pa.Array:
    """Return the positions from ``start`` to ``end`` of a data file that no delete names, counted from ``start``.

    Why: PyIceberg applies deletes only as part of its own scan.
    """
    return _combine_positional_deletes(deletes, start, end)


def projected_constants(
    file: DataFile,
    projected: Schema,
    table_schema: Schema,
    spec: PartitionSpec | None,
    file_field_ids: set[int],
) -> dict[int, Any]:
    """Return the values of columns that a data file lacks and its partition gives, by field id.

    Why: PyIceberg works them out only as part of its own scan.
    """
    return _get_column_projection_values(file, projected, table_schema, spec, file_field_ids)


class ScanHook(ArrowScan):
    """A scan that reads each data file by itself, by implementing ``task_batches``.

    Why: ``ArrowScan.to_table`` plans, limits and reads files side by side; only how one file is read differs.
    """

    def task_batches(self, task: FileScanTask, deletes: list[pa.ChunkedArray] | None) -> Iterator[pa.RecordBatch]:
        """Read one data file.

        Args:
            task: The file.
            deletes: Its position deletes, if it has any.
        """
        raise NotImplementedError

    def _record_batches_from_scan_tasks_and_deletes(
        self, tasks: Iterable[FileScanTask], deletes_per_file: dict[str, list[pa.ChunkedArray]]
    ) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from self.task_batches(task, deletes_per_file.get(task.file.file_path))


class ProjectionHook(ArrowProjectionVisitor):
    """A projection that brings values into the type of their column, by overriding ``cast``.

    Why: PyIceberg's visitor has no public step between reading a column and putting it into its struct.
    """

    def cast(self, field: NestedField, values: pa.Array) -> pa.Array:
        """Bring values into the type of their column; by default as PyIceberg does."""
        return super()._cast_if_needed(field, values)

    def _cast_if_needed(self, field: NestedField, values: pa.Array) -> pa.Array:
        return self.cast(field, values)
