"""Compaction: rewrites the same rows into fewer, larger or better sorted files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from floe_core.dataplane import OPERATION_ID_PROPERTY, CompactionKind
from floe_core.errors import CapabilityError, ConcurrencyConflictError, ConfigurationError
from floe_iceberg.commit.engine import engine_only, required_plane
from floe_iceberg.commit.protocol import WriteScope, commit, new_operation_id
from floe_iceberg.commit.snapshot import SnapshotDraft
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.maintenance.engines import plane_for
from floe_iceberg.maintenance.lease import maintenance_lease
from floe_iceberg.maintenance.rewrite import PreparedReplace, Rewriter, discard, live_tasks
from floe_iceberg.models import CompactionResult, Engine
from floe_iceberg.names import name_of
from floe_iceberg.read.integrity import load_table
from floe_iceberg.read.predicates import check_columns, parse_row_filter
from floe_iceberg.table.files.delete_files import (
    dangling_deletes,
    data_files,
    has_equality_deletes,
    plane_for_equality_deletes,
)
from floe_iceberg.table.files.groups import FileGroup, plan_groups
from floe_iceberg.table.specs import sort_order as parsed_sort_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.sorting import SortOrder

    from floe_core.dataplane import DataPlane
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.read.predicates import RowFilter, RowPredicate

_TARGET_PROPERTY = "write.target-file-size-bytes"
_DEFAULT_TARGET = 512 * 1024 * 1024
# Each pass retries the files that writers changed; a table that changes faster is left for the next compaction.
_MAX_PASSES = 5


@dataclass(frozen=True)
class _Job:
    """A requested compaction."""

    kind: CompactionKind
    target_size: int
    row_filter: RowFilter | None
    terms: tuple[str, ...]
    order: SortOrder | None
    expression: RowPredicate


@dataclass(frozen=True)
class _Files:
    """The live files of a snapshot; its summary if only the engine can list the files."""

    snapshot_id: int | None
    tasks: list[FileScanTask]
    summary: Mapping[str, str] | None = None

    @property
    def count(self) -> int:
        return len(self.tasks) if self.summary is None else int(self.summary.get("total-data-files", 0))

    @property
    def size(self) -> int:
        if self.summary is not None:
            return int(self.summary.get("total-files-size", 0))
        return sum(task.file.file_size_in_bytes for task in self.tasks)


@dataclass
class _Progress:
    """Totals of the files that have been replaced so far."""

    rewritten_files: int = 0
    added_files: int = 0
    rewritten_bytes: int = 0
    added_bytes: int = 0
    snapshot_id: int | None = None


def compact_table(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    strategy: CompactionKind | str = CompactionKind.BINPACK,
    *,
    target_file_size: int | None = None,
    row_filter: RowFilter | None = None,
    sort_order: Sequence[str] | None = None,
    engine: Engine | str | None = None,
) -> CompactionResult:
    """Rewrite data files of main; the rows do not change, and old files stay until their snapshots expire.

    Writers can continue during the compaction: their rows are kept, and files that they change are retried.

    Args:
        context: The manager's context.
        target: The table.
        strategy: BINPACK merges small files, and applies and removes delete files; SORT also sorts the rows; ZORDER
            clusters by several columns and needs Spark.
        target_file_size: Target file size in bytes; by default the table's ``write.target-file-size-bytes``.
        row_filter: Only rewrite files that may contain matching rows.
        sort_order: Terms such as ``ts desc`` for SORT, by default the table's sort order; columns for ZORDER.
        engine: The engine to use; None for the manager's setting, auto chooses by size.

    Raises:
        MaintenanceInProgressError: Another maintenance run holds the table's lease.
        ConfigurationError: No sort order is given, and the table has none.
        ConcurrencyConflictError: Writers changed every file before it could be replaced.
    """
    kind = CompactionKind(strategy)
    with context.operation("iceberg.compact_table", target, strategy=kind.value) as operation:
        table = load_table(context, target)
        job = _job(table, kind, target_file_size, row_filter, sort_order)
        plane = _required_plane(context, table, engine, job)
        by_engine = plane is not None or Engine(engine or context.config.engine) is Engine.SPARK
        before = _files(table, by_engine=by_engine)
        if plane is None:
            plane = _plane_by_size(context, engine, before)
        progress = _Progress()
        if plane is not None or job.row_filter is not None or _has_work(table, job, before.tasks):
            with maintenance_lease(context, target, f"compact_table ({kind.value})"):
                progress = (
                    _by_engine(context, target, plane, job) if plane else _in_process(context, target, job, before)
                )
        result = _result(kind, before, progress, load_table(context, target), by_engine=by_engine)
        operation.set(engine=plane.name if plane else "arrow", **result.model_dump(exclude={"strategy"}))
        return result


def _job(
    table: Table,
    kind: CompactionKind,
    target_file_size: int | None,
    row_filter: RowFilter | None,
    terms: Sequence[str] | None,
) -> _Job:
    size = target_file_size or int(table.metadata.properties.get(_TARGET_PROPERTY, _DEFAULT_TARGET))
    if size < 1:
        msg = f"target_file_size must be at least 1 byte, not {size}."
        raise ConfigurationError(msg, table=name_of(table))
    given = tuple([terms] if isinstance(terms, str) else terms or ())
    order: SortOrder | None = None
    if kind is CompactionKind.SORT:
        order = parsed_sort_order(list(given), table.schema()) if given else table.sort_order()
        if order.is_unsorted:
            msg = f"Table '{name_of(table)}' has no sort order."
            raise ConfigurationError(msg, hint='Pass sort_order=["column desc", …].', table=name_of(table))
    if kind is CompactionKind.ZORDER:
        if not given:
            msg = "Z-order needs columns to cluster by."
            raise ConfigurationError(msg, hint='Pass sort_order=["a", "b"].', table=name_of(table))
        check_columns(given, table.schema(), table=name_of(table), role="sort order")
    expression = parse_row_filter(row_filter, table.schema(), table=name_of(table))
    return _Job(kind, size, row_filter, given, order, expression)


def _required_plane(context: ManagerContext, table: Table, engine: Engine | str | None, job: _Job) -> DataPlane | None:
    """Return the engine if the compaction requires it; None if floe can do it in process."""
    if engine_only(table.metadata):
        return required_plane(context, table, engine)
    if has_equality_deletes(table, table.metadata.current_snapshot()):
        return plane_for_equality_deletes(context, table, engine)
    if job.kind is not CompactionKind.ZORDER:
        return None
    if Engine(engine or context.config.engine) is Engine.ARROW:
        msg = "Z-order needs the Spark engine."
        raise CapabilityError(msg, hint="Remove engine=arrow.", table=name_of(table))
    return context.plane()


def _plane_by_size(context: ManagerContext, engine: Engine | str | None, files: _Files) -> DataPlane | None:
    return plane_for(context, engine, size=files.size, limit=context.config.spark_threshold_bytes, what="bytes")


def _files(table: Table, *, by_engine: bool) -> _Files:
    current = table.metadata.current_snapshot()
    number = current.snapshot_id if current else None
    try:
        counted = engine_only(table.metadata) or has_equality_deletes(table, current)
        return _Files(number, data_files(table) if counted else live_tasks(table))
    except CapabilityError:
        if not by_engine or current is None or current.summary is None:
            raise
        return _Files(number, [], current.summary.additional_properties)


def _groups(table: Table, job: _Job, tasks: list[FileScanTask]) -> list[FileGroup]:
    return plan_groups(
        tasks, kind=job.kind, target_size=job.target_size, current_spec_id=table.metadata.default_spec_id
    )


def _has_work(table: Table, job: _Job, tasks: list[FileScanTask]) -> bool:
    return bool(_groups(table, job, tasks) or dangling_deletes(table, tasks))


def _in_process(context: ManagerContext, target: TableTarget, job: _Job, before: _Files) -> _Progress:
    progress = _Progress()
    finished: set[str] = set()
    for number in range(_MAX_PASSES):
        table = load_table(context, target)
        unchanged = job.row_filter is None and table.metadata.current_snapshot_id == before.snapshot_id
        tasks = before.tasks if unchanged else live_tasks(table, job.expression)
        groups = _groups(table, job, [task for task in tasks if task.file.file_path not in finished])
        # The first pass may only have delete files to remove.
        if (number and not groups) or not _pass(context, target, table, job, groups, progress, finished):
            return progress
    if progress.snapshot_id is None:
        msg = f"Writers to table '{name_of(table)}' changed its files faster than they could be compacted."
        hint = "Try again when fewer writers are active, or pass a row filter for partitions without writers."
        raise ConcurrencyConflictError(msg, hint=hint, table=name_of(table))
    return progress


def _pass(  # noqa: PLR0913, PLR0917 - one step of the loop above
    context: ManagerContext,
    target: TableTarget,
    table: Table,
    job: _Job,
    groups: list[FileGroup],
    progress: _Progress,
    finished: set[str],
) -> bool:
    """Rewrite and replace groups; return True if some could not be replaced and need another pass."""
    rewriter = Rewriter(table, job.order, job.target_size, context.config.stream_chunk_bytes // 2)
    rewritten = rewriter.rewrite(groups)
    operation_id = new_operation_id()
    draft = SnapshotDraft({OPERATION_ID_PROPERTY: operation_id})
    prepared = PreparedReplace(rewritten, table.metadata.current_snapshot_id, draft)
    outcome = commit(context, target, prepared, WriteScope(operation_id, may_be_repeated=False))
    replaced = prepared.replaced if outcome.snapshot is not None else []
    skipped = [entry for entry in rewritten if entry not in replaced]
    for entry in skipped:
        discard(table.io, entry)
    for entry in replaced:
        progress.rewritten_files += len(entry.group.tasks)
        progress.rewritten_bytes += entry.group.size
        progress.added_files += len(entry.added)
        progress.added_bytes += sum(file.file_size_in_bytes for file in entry.added)
        finished.update(file.file_path for file in entry.added)
    if outcome.snapshot is not None:
        progress.snapshot_id = outcome.snapshot.snapshot_id
    return bool(skipped)


def _by_engine(context: ManagerContext, target: TableTarget, plane: DataPlane, job: _Job) -> _Progress:
    options = {
        "target-file-size-bytes": str(job.target_size),
        "min-input-files": "2",
        "delete-file-threshold": "1",
        "remove-dangling-deletes": "true",
    }
    if job.kind is not CompactionKind.BINPACK:
        options["rewrite-all"] = "true"
    rows = None if job.row_filter is None else job.expression
    before = load_table(context, target).metadata.current_snapshot_id
    result = plane.rewrite_data_files(
        str(identifier_of(target)), kind=job.kind, order=job.terms, row_filter=rows, options=options
    )
    table = load_table(context, target)
    if not engine_only(table.metadata) and _position_deletes(table):
        # The remaining delete files refer to rows or files that no longer exist.
        plane.rewrite_position_deletes(str(identifier_of(target)))
        table = load_table(context, target)
    after = table.metadata.current_snapshot_id
    return _Progress(
        rewritten_files=result.rewritten_files,
        added_files=result.added_files,
        rewritten_bytes=result.rewritten_bytes,
        added_bytes=result.added_bytes,
        snapshot_id=after if after != before and result.rewritten_files else None,
    )


def _position_deletes(table: Table) -> bool:
    current = table.metadata.current_snapshot()
    summary = summary_of(current)
    return summary.get("total-position-deletes", "0") != "0"


def _result(
    kind: CompactionKind, before: _Files, progress: _Progress, table: Table, *, by_engine: bool
) -> CompactionResult:
    current = table.metadata.current_snapshot()
    ours = current is not None and (current.snapshot_id, current.parent_snapshot_id) == (
        progress.snapshot_id,
        before.snapshot_id,
    )
    if ours and progress.added_bytes:
        files = before.count - progress.rewritten_files + progress.added_files
        size = before.size - progress.rewritten_bytes + progress.added_bytes
    else:
        unchanged = table.metadata.current_snapshot_id == before.snapshot_id
        after = before if unchanged else _files(table, by_engine=by_engine)
        files, size = after.count, after.size
    return CompactionResult(
        strategy=kind,
        files_before=before.count,
        files_after=files,
        bytes_before=before.size,
        bytes_after=size,
        rewritten_files=progress.rewritten_files,
        added_files=progress.added_files,
        snapshot_id=progress.snapshot_id,
    )
