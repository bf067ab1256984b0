"""Rewrites groups of data files and replaces them without losing concurrent changes."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import AddSnapshotUpdate

from floe_core.errors import MaintenanceError
from floe_iceberg.commit.protocol import discard_files
from floe_iceberg.commit.snapshot import FileGoneError, SnapshotDraft
from floe_iceberg.formats.cast import fit
from floe_iceberg.formats.sorting import sorted_rows
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import checked_plan, explain
from floe_iceberg.read.predicates import EVERY_ROW
from floe_iceberg.read.rows import RowScan, require_readable
from floe_iceberg.table.files.delete_files import dangling_deletes
from floe_iceberg.write.data_files import DataFileWriter, Layout, write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.sorting import SortOrder

    from floe_iceberg.commit.protocol import CommitAttempt
    from floe_iceberg.read.predicates import RowPredicate
    from floe_iceberg.table.files.groups import FileGroup

_TARGET_BYTES = "write.target-file-size-bytes"
_MAX_WORKERS = 4


@dataclass(frozen=True)
class Rewritten:
    """A group, and the new files that contain its rows."""

    group: FileGroup
    added: tuple[DataFile, ...]


def live_tasks(table: Table, row_filter: RowPredicate = EVERY_ROW) -> list[FileScanTask]:
    """Plan the current files of main, or those that may contain rows matching a filter."""
    snapshot = table.metadata.current_snapshot()
    if snapshot is None:
        return []
    try:
        return checked_plan(table, table.metadata, snapshot, row_filter)[1]
    except Exception as err:
        raise explain(err, table, snapshot) from err


@dataclass
class Rewriter:
    """Rewrites groups of files of one table in parallel, each in bounded memory.

    Attributes:
        table: The version of the table on which the groups were planned.
        order: Sort order of each new file; None keeps the order of the rows.
        target_size: Target size of new files.
        chunk_bytes: Arrow bytes to buffer when no sorting is needed.
    """

    table: Table
    order: SortOrder | None
    target_size: int
    chunk_bytes: int
    _written: list[str] = field(default_factory=list)

    def rewrite(self, groups: Sequence[FileGroup]) -> list[Rewritten]:
        """Write the new files of all groups; on an error, delete them."""
        workers = min(_MAX_WORKERS, os.cpu_count() or 1)
        try:
            with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="floe-compact") as pool:
                return list(pool.map(self._group, groups))
        except BaseException:
            discard_files(self.table.io, self._written)
            raise

    def _group(self, group: FileGroup) -> Rewritten:
        properties = {**self.table.metadata.properties, _TARGET_BYTES: str(self.target_size)}
        metadata = self.table.metadata.model_copy(update={"properties": properties})
        layout = Layout(metadata, self.table.io, self.order)
        try:
            if group.spec_id != self.table.metadata.default_spec_id:
                added = write_rows(layout, self._all_rows(group))
            elif self.order is not None:
                rows = sorted_rows(self._all_rows(group), self.order, self.table.schema())
                added = list(self._write(layout, group, _slices(rows, self.chunk_bytes)))
            else:
                added = list(self._write(layout, group, self._chunks(group)))
        finally:
            self._written.extend(layout.paths)
        for file in added:
            # A file that is not in a manifest yet has no spec id.
            file.spec_id = self.table.metadata.default_spec_id
        self._require_same_rows(group, added)
        return Rewritten(group, tuple(added))

    def _batches(self, group: FileGroup) -> Iterator[pa.RecordBatch]:
        tasks = list(group.tasks)
        scan = RowScan(self.table.metadata, self.table.io, self.table.schema(), AlwaysTrue())
        require_readable(tasks, table=name_of(self.table))
        try:
            yield from scan.file_batches(tasks)
        except Exception as err:
            raise explain(err, self.table, self.table.metadata.current_snapshot(), tasks) from err

    def _tables(self, group: FileGroup) -> Iterator[pa.Table]:
        """Read the group's files with a single Arrow schema."""
        like: pa.Schema | None = None
        for batch in self._batches(group):
            rows = fit(pa.Table.from_batches([batch]), self.table.schema(), like=like)
            like = rows.schema
            yield rows

    def _all_rows(self, group: FileGroup) -> pa.Table:
        tables = list(self._tables(group))
        return pa.concat_tables(tables) if tables else fit(pa.table({}), self.table.schema())

    def _chunks(self, group: FileGroup) -> Iterator[pa.Table]:
        buffered: list[pa.Table] = []
        size = 0
        for rows in self._tables(group):
            buffered.append(rows)
            size += rows.nbytes
            if size >= self.chunk_bytes:
                yield pa.concat_tables(buffered)
                buffered, size = [], 0
        if buffered:
            yield pa.concat_tables(buffered)

    def _write(self, layout: Layout, group: FileGroup, chunks: Iterable[pa.Table]) -> Iterator[DataFile]:
        record = None if layout.spec.is_unpartitioned() else group.partition
        order_id = self.order.order_id if self.order is not None and self.order == self.table.sort_order() else None
        rows_per_file = -(-group.rows // group.files)
        writer: DataFileWriter | None = None
        remaining = rows_per_file
        try:
            for chunk in chunks:
                start = 0
                while start < chunk.num_rows:
                    writer = writer or DataFileWriter(layout, record, sort_order_id=order_id)
                    part = chunk.slice(start, min(remaining, chunk.num_rows - start))
                    writer.write(part)
                    start, remaining = start + part.num_rows, remaining - part.num_rows
                    if remaining == 0:
                        yield writer.close()
                        writer, remaining = None, rows_per_file
            if writer is not None:
                yield writer.close()
                writer = None
        finally:
            if writer is not None:
                writer.abort()

    def _require_same_rows(self, group: FileGroup, added: list[DataFile]) -> None:
        written = sum(file.record_count for file in added)
        deletes = any(task.delete_files for task in group.tasks)
        if written != group.rows and not (deletes and written < group.rows):
            msg = f"Compaction of table '{name_of(self.table)}' read {written} rows, but its metadata has {group.rows}."
            hint = "Nothing was changed. Check the table's files with 'floe tables files'."
            raise MaintenanceError(msg, hint=hint, table=name_of(self.table))


@dataclass
class PreparedReplace:
    """The replacement of rewritten files, which is safe under concurrent changes.

    A group is only replaced if all of its files are still in the table with the same delete files: then its new files
    contain exactly the live rows. Other groups are skipped. Position delete files that no longer apply to any file are
    removed in the same commit.

    Attributes:
        rewritten: The groups.
        planned_on: Snapshot the groups were planned on.
        draft: Draft of the new snapshot.
        replaced: Groups in the last attempt.
    """

    rewritten: list[Rewritten]
    planned_on: int | None
    draft: SnapshotDraft
    replaced: list[Rewritten] = field(default_factory=list)

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit on the current table; return None if no group is left."""
        self.replaced = self._unchanged(table)
        removed = [task.file for entry in self.replaced for task in entry.group.tasks]
        added = [file for entry in self.replaced for file in entry.added]
        removed += dangling_deletes(table, _other_tasks(table, {file.file_path for file in removed}))
        if not removed:
            return None
        try:
            return as_replace(self.draft.attempt(table, operation=Operation.OVERWRITE, added=added, removed=removed))
        except FileGoneError as err:
            msg = f"Table '{name_of(table)}' lists a file that is not in its manifests: {err}."
            raise MaintenanceError(msg, table=name_of(table)) from err

    def _unchanged(self, table: Table) -> list[Rewritten]:
        if table.metadata.current_snapshot_id == self.planned_on:
            return self.rewritten
        live = {task.file.file_path: _deletes(task) for task in live_tasks(table)}
        return [
            entry
            for entry in self.rewritten
            if all(live.get(task.file.file_path) == _deletes(task) for task in entry.group.tasks)
        ]

    def discard(self, io: FileIO) -> None:
        """Delete the new files of all groups."""
        for entry in self.rewritten:
            discard(io, entry)


def discard(io: FileIO, entry: Rewritten) -> None:
    """Delete a group's new files, which nothing references."""
    discard_files(io, [file.file_path for file in entry.added])


def as_replace(attempt: CommitAttempt) -> CommitAttempt:
    """Mark the snapshot as a replace operation, which changes files but not rows."""
    summary = attempt.snapshot.summary
    properties = dict(summary.additional_properties) if summary else {}
    snapshot = attempt.snapshot.model_copy(update={"summary": Summary(operation=Operation.REPLACE, **properties)})
    updates = tuple(
        AddSnapshotUpdate(snapshot=snapshot) if isinstance(update, AddSnapshotUpdate) else update
        for update in attempt.updates
    )
    return replace(attempt, updates=updates, snapshot=snapshot)


def _other_tasks(table: Table, paths: set[str]) -> Iterator[FileScanTask]:
    """Lazily plan the files of main that are not in ``paths``."""
    yield from (task for task in live_tasks(table) if task.file.file_path not in paths)


def _deletes(task: FileScanTask) -> set[str]:
    return {file.file_path for file in task.delete_files}


def _slices(rows: pa.Table, chunk_bytes: int) -> Iterator[pa.Table]:
    width = max(1.0, rows.nbytes / max(1, rows.num_rows))
    step = max(1, int(chunk_bytes / width))
    for start in range(0, rows.num_rows, step):
        yield rows.slice(start, step)
