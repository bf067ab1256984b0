"""Prepared writes: data files, and how to build a snapshot from them on any version of the table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import PrimitiveType

from floe_core.errors import ConcurrencyConflictError
from floe_iceberg.formats.partitioning import record_key, require_partitions
from floe_iceberg.names import name_of
from floe_iceberg.table.schema import require_compatible, stage_changes, widens
from floe_iceberg.write.copy_on_write import Branch, ReadSet, Rewrite, read_set, without_matching, without_partitions
from floe_iceberg.write.data_files import Layout, write_rows
from floe_iceberg.write.nullability import nullable_by_data
from floe_iceberg.write.stream import write_stream
from floe_iceberg.write.upsert import key_filter, upsert_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from floe_iceberg.commit.protocol import CommitAttempt, Staged
    from floe_iceberg.commit.snapshot import SnapshotDraft
    from floe_iceberg.read.predicates import RowFilter


@dataclass
class NewRows:
    """Rows to add; their files are written once and reused by every commit attempt that the schema allows.

    Attributes:
        data: The rows.
        evolve: Whether to evolve the table's schema to fit the rows.
        kept: Columns that stay required.
        chunk_bytes: Arrow bytes to buffer when the data is a stream.
    """

    data: pa.Table | pa.RecordBatchReader
    evolve: bool = True
    kept: tuple[str, ...] = ()
    chunk_bytes: int = 128 * 1024 * 1024
    num_rows: int = 0
    _layout: Layout | None = None
    _files: list[DataFile] = field(default_factory=list)
    # Columns of a stream in which nulls have been found.
    _nulls: set[str] = field(default_factory=set)

    def ready(self, table: Table) -> tuple[Staged | None, list[DataFile]]:
        """Return the schema changes that the rows need, and the rows' data files."""
        staged = self.stage(table)
        known = len(self._nulls)
        files = self._written(table, staged.metadata if staged else table.metadata)
        # Reading a stream is the only way to find its nulls.
        return (staged if len(self._nulls) == known else self.stage(table)), files

    def stage(self, table: Table) -> Staged | None:
        """Determine the schema changes that the rows need."""
        name = name_of(table)
        relaxed = nullable_by_data(table, self.data, kept=self.kept, known=self._nulls) if self.evolve else ()
        changes = require_compatible(table, self.data.schema, evolve=self.evolve, name=name, relaxed=relaxed)
        return stage_changes(table, changes) if changes else None

    def _written(self, table: Table, metadata: TableMetadata) -> list[DataFile]:
        """Return the rows' data files; write them unless existing files still fit this version of the table."""
        if self._layout is not None and _is_reusable(self._layout.metadata, metadata):
            return self._files
        if self._layout is not None and isinstance(self.data, pa.RecordBatchReader):
            name = name_of(table)
            msg = f"The schema of table '{name}' changed during a streaming write; a stream can be read only once."
            raise ConcurrencyConflictError(msg, hint="Restart the write.", table=name)
        self.discard()
        self._layout = Layout(metadata, table.io)
        if isinstance(self.data, pa.RecordBatchReader):
            layout_for = partial(self._layout_for, table) if self.evolve else None
            self._files = write_stream(self._layout, self.data, chunk_bytes=self.chunk_bytes, layout_for=layout_for)
        else:
            self._files = write_rows(self._layout, self.data)
        self.num_rows = sum(file.record_count for file in self._files)
        return self._files

    def _layout_for(self, table: Table, chunk: pa.Table) -> Layout | None:
        """Return a new layout, from this chunk of a stream on, if the chunk has nulls in more columns than before."""
        found = {change.column for change in nullable_by_data(table, chunk, kept=self.kept)}
        if found <= self._nulls or self._layout is None:
            return None
        self._nulls |= found
        staged = self.stage(table)
        self._layout = replace(self._layout, metadata=staged.metadata if staged else table.metadata)
        return self._layout

    def discard(self) -> None:
        """Delete the files."""
        if self._layout is not None:
            self._layout.discard()


def _is_reusable(written: TableMetadata, now: TableMetadata) -> bool:
    """Whether files written for one version of a table fit another: same spec and location, compatible columns."""
    same_layout = written.location == now.location and written.default_spec_id == now.default_spec_id
    return same_layout and (
        written.current_schema_id == now.current_schema_id or _columns_are_compatible(written.schema(), now.schema())
    )


def _columns_are_compatible(written: Schema, now: Schema) -> bool:
    for field_id in written.field_ids:
        if now.find_column_name(field_id) != written.find_column_name(field_id):
            return False
        before, after = written.find_field(field_id), now.find_field(field_id)
        if after.required and not before.required:
            return False
        kind = before.field_type
        if isinstance(kind, PrimitiveType) and kind != after.field_type and not widens(kind, after.field_type):
            return False
    return True


class Append:
    """Append rows."""

    def __init__(self, rows: NewRows, draft: SnapshotDraft) -> None:
        """Store the rows and the draft of their snapshot."""
        self._rows = rows
        self._draft = draft

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit."""
        staged, files = self._rows.ready(table)
        if not files:
            return None
        return self._draft.attempt(table, operation=Operation.APPEND, added=files, staged=staged)

    def discard(self, io: FileIO) -> None:
        """Delete the data files."""
        del io
        self._rows.discard()


class Replace:
    """Replace rows: all rows, those that match a filter, or the partitions of the new rows."""

    def __init__(
        self,
        rows: NewRows | None,
        draft: SnapshotDraft,
        *,
        row_filter: RowFilter | None = None,
        partitions: bool = False,
    ) -> None:
        """Store the rows, None for a delete; without a filter or partitions, all rows are replaced."""
        self._rows = rows
        self._draft = draft
        self._filter = row_filter
        self._partitions = partitions
        self._cached: _CachedRewrite | None = None

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit."""
        staged, files = self._rows.ready(table) if self._rows else (None, [])
        metadata = staged.metadata if staged else table.metadata
        rewrite = self._plan(table, metadata, files)
        if not files and not rewrite.removed:
            return None
        added = [*files, *rewrite.added]
        operation = Operation.OVERWRITE if added or self._rows else Operation.DELETE
        return self._draft.attempt(table, operation=operation, added=added, removed=rewrite.removed, staged=staged)

    def _plan(self, table: Table, metadata: TableMetadata, files: Sequence[DataFile]) -> Rewrite:
        branch = Branch.of(table, self._draft.branch)
        if self._partitions:
            # The last partition field may have been dropped since the write began.
            require_partitions(metadata.spec(), table=name_of(table))
            records = {record_key(file.partition) for file in files}
            self._discard_cached()
            layout = Layout(metadata, table.io)
            self._cached = _CachedRewrite(frozenset(), Rewrite(), layout)
            return without_partitions(branch, records, layout) if records else Rewrite()
        if self._filter is None or branch.filter(self._filter, metadata).always:
            return Rewrite(tuple(branch.files()))
        tasks = branch.tasks(self._filter)
        if self._cached is None or not self._cached.is_valid(read_set(tasks), metadata):
            self._discard_cached()
            layout = Layout(metadata, table.io)
            self._cached = _CachedRewrite(read_set(tasks), Rewrite(), layout)
            self._cached.rewrite = without_matching(branch, tasks, self._filter, layout)
        return self._cached.rewrite

    def _discard_cached(self) -> None:
        if self._cached is not None:
            self._cached.layout.discard()

    def discard(self, io: FileIO) -> None:
        """Delete the data files."""
        del io
        if self._rows is not None:
            self._rows.discard()
        self._discard_cached()


@dataclass
class _CachedRewrite:
    """Rewritten files and the files they replace; reusable while the table still contains exactly those."""

    read: ReadSet
    rewrite: Rewrite
    layout: Layout

    def is_valid(self, read: ReadSet, metadata: TableMetadata) -> bool:
        return self.read == read and _is_reusable(self.layout.metadata, metadata)


class Upsert:
    """Update rows by key and insert the others."""

    def __init__(
        self, rows: pa.Table, keys: Sequence[str], draft: SnapshotDraft, *, evolve: bool, kept: tuple[str, ...] = ()
    ) -> None:
        """Store rows with unique keys."""
        self._rows = NewRows(rows, evolve=evolve, kept=kept)
        self._data = rows
        self._keys = tuple(keys)
        self._draft = draft
        self._cached: _CachedRewrite | None = None

    def attempt(self, table: Table) -> CommitAttempt | None:
        """Build the commit."""
        if self._data.num_rows == 0:
            return None
        staged = self._rows.stage(table)
        metadata = staged.metadata if staged else table.metadata
        branch = Branch.of(table, self._draft.branch)
        tasks = branch.tasks(key_filter(self._data, self._keys))
        if self._cached is None or not self._cached.is_valid(read_set(tasks), metadata):
            self.discard(table.io)
            self._cached = _CachedRewrite(read_set(tasks), Rewrite(), Layout(metadata, table.io))
            self._cached.rewrite = upsert_rows(branch, tasks, self._data, self._keys, self._cached.layout)
        rewrite = self._cached.rewrite
        if not rewrite.removed and not rewrite.added:
            return None
        operation = Operation.OVERWRITE if rewrite.removed else Operation.APPEND
        return self._draft.attempt(
            table, operation=operation, added=rewrite.added, removed=rewrite.removed, staged=staged
        )

    def discard(self, io: FileIO) -> None:
        """Delete the data files."""
        del io
        if self._cached is not None:
            self._cached.layout.discard()
