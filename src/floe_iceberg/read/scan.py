"""Table scans: in memory, streamed, of any version, or incremental."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import prune_columns
from pyiceberg.table import IncrementalAppendScan
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StructType

from floe_core.dataplane import ReadRequest
from floe_core.errors import CapabilityError, FloeStorageError, InvalidScanError, ScanError
from floe_iceberg.context import identifier_of
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import checked_io, checked_plan, explain, load_table
from floe_iceberg.read.predicates import EVERY_ROW, check_columns, parse_row_filter
from floe_iceberg.read.rows import RowScan, require_readable
from floe_iceberg.read.versions import ancestors, newest_first, resolve, snapshot_by_id, to_utc

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.options import FrameOptions, IncrementOptions, ScanOptions
    from floe_iceberg.read.predicates import RowFilter, RowPredicate
    from floe_iceberg.read.versions import TimestampLike, Version


def scan(context: ManagerContext, target: TableTarget, **options: Unpack[ScanOptions]) -> pa.Table:
    """Read rows into memory; see ``ScanOptions`` for the options.

    Raises:
        InvalidScanError: A column is unknown, the filter is invalid, or more than one version is given.
        SnapshotNotFoundError: The snapshot does not exist, or none is that old.
        RefNotFoundError: The branch or tag does not exist.
        CorruptFileError: A file of the table is damaged or missing; results are never partial.
    """
    query = _Query(**options)
    with context.operation("iceberg.scan", target, **query.attributes) as operation:
        plan = query.plan(load_table(context, target))
        rows = plan.read(query.limit)
        operation.set(snapshot_id=plan.snapshot_id, num_rows=rows.num_rows, num_files=len(plan.tasks))
        return rows


def scan_batches(context: ManagerContext, target: TableTarget, **options: Unpack[ScanOptions]) -> pa.RecordBatchReader:
    """Stream rows with one batch in memory at a time; options and errors are the same as for ``scan``."""
    query = _Query(**options)
    with context.operation("iceberg.scan", target, **query.attributes) as operation:
        plan = query.plan(load_table(context, target))
        operation.set(snapshot_id=plan.snapshot_id, num_files=len(plan.tasks), streamed=True)
        return pa.RecordBatchReader.from_batches(plan.arrow_schema, plan.stream(query.limit))


def incremental_scan(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    *,
    from_snapshot: int | None = None,
    to_snapshot: int | None = None,
    columns: Sequence[str] | None = None,
    row_filter: RowFilter | None = None,
) -> pa.Table:
    """Read the rows appended after one snapshot, up to and including another.

    Args:
        context: The manager's context.
        target: The table.
        from_snapshot: Rows of this snapshot and earlier ones are excluded; None starts with the table's first
            snapshot, which must not have expired.
        to_snapshot: Last snapshot to read; None for the current one.
        columns: Columns in the order of the result; None for all.
        row_filter: Predicate as text or expression.

    Raises:
        SnapshotNotFoundError: The snapshot does not exist.
        ScanError: The snapshots are not on the same branch history, the first has expired, or rows were changed or
            deleted between them.
    """
    with context.operation(
        "iceberg.incremental_scan",
        target,
        columns=columns,
        row_filter=row_filter,
        from_snapshot=from_snapshot,
        to_snapshot=to_snapshot,
    ) as operation:
        table = load_table(context, target)
        version = resolve(table, snapshot_id=to_snapshot)
        selection = _select(table, resolve(table), columns, row_filter)
        increment = _appends_between(table, from_snapshot, version.snapshot) if version.snapshot else []
        if version.snapshot is None or not increment:
            return selection.arrow_schema.empty_table()
        plan = _plan_increment(table, from_snapshot, version.snapshot, increment, selection)
        rows = plan.read(None)
        operation.set(snapshot_id=version.snapshot_id, num_rows=rows.num_rows, num_files=len(plan.tasks))
        return rows


def frame(context: ManagerContext, target: TableTarget, **options: Unpack[FrameOptions]) -> Any:  # noqa: ANN401 - the engine's own lazy frame
    """Return the engine's lazy frame over the table, such as a PySpark DataFrame.

    Options and errors are the same as for ``scan``.
    """
    query = _Query(**options)
    with context.operation("iceberg.frame", target, **query.attributes):
        try:
            table = load_table(context, target)
        except CapabilityError:
            # Only the engine can read this metadata; it checks the request itself.
            return context.plane().frame(query.unchecked(str(identifier_of(target))))
        version = query.version(table)
        if query.columns is not None:
            check_columns(query.columns, version.schema, table=name_of(table))
        request = ReadRequest(
            table=str(identifier_of(target)),
            columns=tuple(query.columns) if query.columns is not None else None,
            row_filter=_engine_filter(query.row_filter, version.schema, name_of(table)),
            # The time is resolved to a snapshot here, so both engines read the same snapshot.
            snapshot_id=version.snapshot_id if query.as_of is not None else query.snapshot_id,
            ref=query.ref,
            limit=query.limit,
        )
        return context.plane().frame(request)


def incremental_frame(context: ManagerContext, target: TableTarget, **options: Unpack[IncrementOptions]) -> Any:  # noqa: ANN401 - the engine's own lazy frame
    """Return the engine's lazy frame of the rows appended between two snapshots.

    Options and errors are the same as for ``incremental_scan``, except that ``from_snapshot`` is required.
    """
    start, columns = options.get("from_snapshot"), options.get("columns")
    with context.operation("iceberg.incremental_frame", target, **options):
        table = load_table(context, target)
        version = resolve(table, snapshot_id=options.get("to_snapshot"))
        # The engine silently omits rows that were changed in between.
        increment = _appends_between(table, start, version.snapshot) if version.snapshot else []
        request = ReadRequest(
            table=str(identifier_of(target)),
            columns=tuple(columns) if columns is not None else None,
            row_filter=_engine_filter(options.get("row_filter"), table.schema(), name_of(table)),
            start_snapshot_id=start if increment else None,
            snapshot_id=version.snapshot_id,
            limit=None if increment else 0,
        )
        return context.plane().frame(request)


def _engine_filter(row_filter: RowFilter | None, schema: Schema, table: str) -> RowPredicate | None:
    """Return the filter as parsed by floe, so both engines read the same rows."""
    return None if row_filter is None else parse_row_filter(row_filter, schema, table=table)


@dataclass(frozen=True)
class _Query:
    """A requested read."""

    columns: Sequence[str] | None = None
    row_filter: RowFilter | None = None
    snapshot_id: int | None = None
    as_of: TimestampLike | None = None
    ref: str | None = None
    limit: int | None = None

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes for logs and spans."""
        return {
            "columns": self.columns,
            "row_filter": self.row_filter,
            "limit": self.limit,
            "snapshot_id": self.snapshot_id,
        }

    def unchecked(self, table: str) -> ReadRequest:
        """Return the request without checks, for a table that only an engine can read."""
        if self.row_filter is not None and not isinstance(self.row_filter, str):
            msg = "For a table that only Spark can read, the row filter must be SQL text."
            raise InvalidScanError(msg, table=table)
        return ReadRequest(
            table=table,
            columns=tuple(self.columns) if self.columns is not None else None,
            row_filter=self.row_filter,
            snapshot_id=self.snapshot_id,
            as_of=to_utc(self.as_of) if self.as_of is not None else None,
            ref=self.ref,
            limit=self.limit,
        )

    def version(self, table: Table) -> Version:
        """Find the version of the table."""
        if self.limit is not None and self.limit < 0:
            msg = f"limit must be 0 or more, not {self.limit}."
            raise InvalidScanError(msg, table=name_of(table))
        return resolve(table, snapshot_id=self.snapshot_id, as_of=self.as_of, ref=self.ref)

    def plan(self, table: Table) -> Plan:
        """Find the files to read."""
        version = self.version(table)
        return _plan(table, version, _select(table, version, self.columns, self.row_filter))


@dataclass(frozen=True)
class Selection:
    """The projection and filter of a read, and the Arrow schema of its result."""

    projection: Schema
    row_filter: RowPredicate
    arrow_schema: pa.Schema

    def with_filtered(self, schema: Schema) -> Schema:
        """Return the projection with the columns of the filter added."""
        missing = {column.field_id for column in self.row_filter.columns} - self.projection.field_ids
        return prune_columns(schema, {*_leaf_ids(self.projection), *missing}) if missing else self.projection

    def passing(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows for which the filter is true."""
        for batch in batches:
            if self.row_filter.always:
                yield batch
                continue
            mask = self.row_filter.passing(batch)
            found = batch if mask.true_count == batch.num_rows else batch.filter(mask)
            if found.num_rows:
                yield found


def _leaf_ids(schema: Schema) -> set[int]:
    """Return the field ids to keep in a projection; nested fields imply their parents."""
    return {number for number in schema.field_ids if not isinstance(schema.find_type(number), StructType)}


@dataclass(frozen=True)
class Plan:
    """The files of one read."""

    table: Table
    metadata: TableMetadata
    io: FileIO
    snapshot: Snapshot | None
    selection: Selection
    tasks: list[FileScanTask]

    @property
    def snapshot_id(self) -> int | None:
        """Id of the snapshot to read; None for an empty table."""
        return self.snapshot.snapshot_id if self.snapshot else None

    @property
    def arrow_schema(self) -> pa.Schema:
        """Schema of the rows."""
        return self.selection.arrow_schema

    def read(self, limit: int | None) -> pa.Table:
        """Read into memory: all files in parallel, or, with a limit, one after the other until it is reached."""
        if limit is not None:
            return pa.Table.from_batches(self.stream(limit), schema=self.arrow_schema)
        return pa.Table.from_batches(self._guarded(self._in_parallel), schema=self.arrow_schema)

    def stream(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Read file by file, batch by batch."""
        if limit == 0:
            return
        remaining = limit
        for batch in self._guarded(self._sequential):
            if remaining is not None and batch.num_rows >= remaining:
                yield batch.slice(0, remaining)
                return
            yield batch
            remaining = None if remaining is None else remaining - batch.num_rows

    def _in_parallel(self) -> Iterator[pa.RecordBatch]:
        for tasks, selection in self._parts():
            yield from selection.passing(self._scanner(selection).to_record_batches(tasks))

    def _sequential(self) -> Iterator[pa.RecordBatch]:
        for tasks, selection in self._parts():
            yield from selection.passing(self._scanner(selection).file_batches(tasks))

    def _parts(self) -> Iterator[tuple[list[FileScanTask], Selection]]:
        """Split the files: if every row of a file matches, the filter columns are not read."""
        require_readable(self.tasks, table=name_of(self.table))
        if self.selection.row_filter.always:
            yield self.tasks, self.selection
            return
        pruner = self.selection.row_filter.pruner(self.metadata)
        for whole, tasks in groupby(self.tasks, key=lambda task: pruner.matches_all(task.file)):
            yield list(tasks), replace(self.selection, row_filter=EVERY_ROW) if whole else self.selection

    def _scanner(self, selection: Selection) -> RowScan:
        schema = selection.with_filtered(self.metadata.schema())
        return RowScan(self.metadata, self.io, schema, selection.row_filter.pushed_down)

    def _guarded(self, batches: Callable[[], Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        try:
            for batch in batches():
                yield as_schema(batch, self.arrow_schema)
        except Exception as err:
            raise explain(err, self.table, self.snapshot, self.tasks) from err


def as_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch to the columns, order and plain types of a schema."""
    if batch.schema.names != schema.names:
        batch = batch.select(schema.names)
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def plain_arrow_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of results, with ``string`` instead of ``large_string`` for all files."""
    return pa.schema(
        [_plain_field(field) for field in schema_to_pyarrow(schema, include_field_ids=False)],
    )


def _plain_field(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type)).remove_metadata()


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_field(kind.key_field), _plain_field(kind.item_field))
    if pa.types.is_struct(kind):
        return pa.struct([_plain_field(field) for field in kind])
    return kind


def _select(table: Table, version: Version, columns: Sequence[str] | None, row_filter: RowFilter | None) -> Selection:
    name = name_of(table)
    expression = parse_row_filter(row_filter, version.schema, table=name)
    if columns is None:
        return Selection(version.schema, expression, plain_arrow_schema(version.schema))
    if isinstance(columns, str) or not columns:
        msg = f"columns must be a list of at least one column, not {columns!r}."
        raise InvalidScanError(msg, table=name)
    check_columns(columns, version.schema, table=name)
    projection = version.schema.select(*columns)
    arrow = plain_arrow_schema(projection)
    # A dotted name selects a struct field, unless the column name itself contains the dot.
    order = dict.fromkeys(column if column in arrow.names else column.split(".")[0] for column in columns)
    return Selection(projection, expression, pa.schema([arrow.field(column) for column in order]))


def _plan(table: Table, version: Version, selection: Selection) -> Plan:
    snapshot = version.snapshot
    # Filters are bound to the metadata's current schema, so an old version needs its own schema there.
    metadata = table.metadata.model_copy(update={"current_schema_id": version.schema.schema_id})
    if snapshot is None:
        return Plan(table, metadata, table.io, None, selection, [])
    try:
        io, tasks = checked_plan(table, metadata, snapshot, selection.row_filter)
    except Exception as err:
        raise _equality_deletes(err, table) or explain(err, table, snapshot) from err
    return Plan(table, metadata, io, snapshot, selection, tasks)


def _plan_increment(
    table: Table, start: int | None, end: Snapshot, increment: list[Snapshot], selection: Selection
) -> Plan:
    try:
        io = checked_io(table, increment)
        planner = IncrementalAppendScan(
            table.metadata,
            io,
            from_snapshot_id=start,
            to_snapshot_id=end.snapshot_id,
        )
        pruner = selection.row_filter.pruner(table.metadata)
        tasks = [task for task in planner.plan_files() if pruner.may_match(task.file)]
    except Exception as err:
        raise explain(err, table, end) from err
    return Plan(table, table.metadata, io, end, selection, tasks)


def _equality_deletes(err: Exception, table: Table) -> FloeStorageError | None:
    if "equality deletes" not in str(err):
        return None
    msg = f"Table '{name_of(table)}' has equality delete files, which only the Spark engine can read."
    hint = "Read it as a frame, or compact it once: floe tables compact --engine spark."
    return CapabilityError(msg, hint=hint, table=name_of(table))


def _appends_between(table: Table, start: int | None, end: Snapshot) -> list[Snapshot]:
    history = list(ancestors(table.metadata, end.snapshot_id))
    if start is not None:
        snapshot_by_id(table, start)
        ids = [snapshot.snapshot_id for snapshot in history]
        if start not in ids:
            order = [snapshot.snapshot_id for snapshot in newest_first(table.metadata)]
            later = order.index(start) < order.index(end.snapshot_id)
            msg = f"Snapshot {start} is not an ancestor of snapshot {end.snapshot_id} of table '{name_of(table)}'."
            hint = "Swap the two." if later else "They are on different branches; read each with scan."
            raise ScanError(msg, hint=hint, table=name_of(table))
        history = history[: ids.index(start)]
    elif history and (expired := history[-1].parent_snapshot_id) is not None:
        msg = f"The history of table '{name_of(table)}' starts with snapshot {expired}, which has expired."
        hint = f"Pass from_snapshot={history[-1].snapshot_id} or later, or read the whole table with scan."
        raise ScanError(msg, hint=hint, table=name_of(table))
    # A replace (compaction) changes files, not rows.
    row_preserving = {Operation.APPEND, Operation.REPLACE}
    changed = [s for s in history if s.summary is not None and s.summary.operation not in row_preserving]
    if changed:
        listed = ", ".join(f"{s.snapshot_id} ({s.summary.operation.value})" for s in changed if s.summary)
        msg = f"Rows of table '{name_of(table)}' were changed or deleted in between by: {listed}."
        hint = "An incremental read only supports appends; read the whole later snapshot with scan."
        raise ScanError(msg, hint=hint, table=name_of(table))
    return history
