"""Private API of PyIceberg's Arrow scan of data files."""

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
    """Read the position deletes of a plan, and return them by data file location.

    Why: PyIceberg only reads them as part of its scan.
    """
    return _read_all_delete_files(io, tasks)


def surviving_positions(deletes: list[pa.ChunkedArray], start: int, end: int) -> pa.Array:
    """Return the positions from ``start`` to ``end`` of a data file that are not deleted, relative to ``start``.

    Why: PyIceberg only applies deletes as part of its scan.
    """
    return _combine_positional_deletes(deletes, start, end)


def projected_constants(
    file: DataFile,
    projected: Schema,
    table_schema: Schema,
    spec: PartitionSpec | None,
    file_field_ids: set[int],
) -> dict[int, Any]:
    """Return the partition values of columns that are missing from a data file, by field id.

    Why: PyIceberg only computes them as part of its scan.
    """
    return _get_column_projection_values(file, projected, table_schema, spec, file_field_ids)


class ScanHook(ArrowScan):
    """Base class for scans that implement the reading of one data file in ``task_batches``.

    Why: ``ArrowScan.to_table`` plans, limits and reads files in parallel; only the reading of one file differs.
    """

    def task_batches(self, task: FileScanTask, deletes: list[pa.ChunkedArray] | None) -> Iterator[pa.RecordBatch]:
        """Read one data file.

        Args:
            task: The file.
            deletes: Its position deletes, if any.
        """
        raise NotImplementedError

    def _record_batches_from_scan_tasks_and_deletes(
        self, tasks: Iterable[FileScanTask], deletes_per_file: dict[str, list[pa.ChunkedArray]]
    ) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            yield from self.task_batches(task, deletes_per_file.get(task.file.file_path))


class ProjectionHook(ArrowProjectionVisitor):
    """Base class for projections that override the cast of values to the type of their column.

    Why: PyIceberg's visitor has no public step between reading a column and putting it into its struct.
    """

    def cast(self, field: NestedField, values: pa.Array) -> pa.Array:
        """Cast values to the type of their column; the default is PyIceberg's cast."""
        return super()._cast_if_needed(field, values)

    def _cast_if_needed(self, field: NestedField, values: pa.Array) -> pa.Array:
        return self.cast(field, values)
