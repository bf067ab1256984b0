"""Entry points for writes and deletes: choose the engine, commit, and describe the result."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Unpack

import pyarrow as pa
from pyiceberg.table.refs import MAIN_BRANCH

from floe_core.dataplane import OPERATION_ID_PROPERTY, WriteKind
from floe_core.errors import CapabilityError, ConfigurationError, FloeStorageError, MissingDependencyError
from floe_core.failed_writes import failing_as_writes
from floe_core.observing.metrics import count_written
from floe_iceberg.commit.engine import engine_only, required_plane
from floe_iceberg.commit.protocol import Outcome, WriteScope, commit, describe, new_operation_id
from floe_iceberg.commit.snapshot import SnapshotDraft
from floe_iceberg.commit.summaries import summary_of
from floe_iceberg.context import identifier_of
from floe_iceberg.formats.arrow_types import is_plain, is_stream, normalized, to_arrow
from floe_iceberg.formats.partitioning import column_path, require_partitions
from floe_iceberg.models import CommitStrategy, Engine, NullKeys, SnapshotInfo, WriteMode
from floe_iceberg.names import name_of
from floe_iceberg.read.predicates import parse_row_filter
from floe_iceberg.table.files.delete_files import has_equality_deletes, plane_for_equality_deletes
from floe_iceberg.table.keys.row_keys import recorded_keys, recorded_null_keys
from floe_iceberg.write.engine import EngineWrite, write_on_engine
from floe_iceberg.write.prepared import Append, NewRows, Replace, Upsert
from floe_iceberg.write.upsert import require_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from floe_core.dataplane import DataPlane
    from floe_core.telemetry import Operation
    from floe_iceberg.context import ManagerContext, TableTarget
    from floe_iceberg.options import ModeOptions
    from floe_iceberg.read.predicates import RowFilter, RowPredicate

_RESERVED = {"operation", OPERATION_ID_PROPERTY}
_SPANS = {
    WriteMode.APPEND: "iceberg.append",
    WriteMode.OVERWRITE: "iceberg.overwrite",
    WriteMode.OVERWRITE_PARTITIONS: "iceberg.overwrite_partitions",
    WriteMode.UPSERT: "iceberg.upsert",
}


@dataclass(frozen=True)
class WriteSettings:
    """Settings of a write.

    Attributes:
        commit_strategy: How an append treats manifests; the manager's default when None.
        snapshot_properties: Properties to add to the snapshot summary.
        evolve_schema: Whether to evolve the table's schema to fit the data.
        keep_required: Columns that stay required even if the data contains nulls; keys always stay required.
        operation_id: Makes the write idempotent: a second call with the same id changes nothing.
        branch: Target branch, main by default.
        engine: The engine that writes the rows; the manager's default when None.
        null_keys: How an upsert treats null in a key; when None, the table's recorded setting, else refuse.
    """

    commit_strategy: CommitStrategy | None = None
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    evolve_schema: bool = True
    keep_required: Sequence[str] = ()
    operation_id: str | None = None
    branch: str | None = None
    engine: Engine | None = None
    null_keys: NullKeys | None = None

    @classmethod
    def of(cls, **options: Unpack[ModeOptions]) -> WriteSettings:
        """Create settings from keyword options; None means the default."""
        return cls(**{key: value for key, value in options.items() if value is not None})  # type: ignore[arg-type]


def write_data(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    data: object,
    *,
    mode: WriteMode = WriteMode.APPEND,
    keys: Sequence[str] | None = None,
    overwrite_filter: RowFilter | None = None,
    options: WriteSettings | None = None,
) -> SnapshotInfo:
    """Write data to a table, exactly once.

    Args:
        context: The manager's context.
        target: The table.
        data: PyArrow table or reader, pandas, Polars or PySpark DataFrame, or a list of dicts.
        mode: How the write treats existing rows.
        keys: Key columns of an upsert; the table's own keys by default.
        overwrite_filter: Rows that an overwrite replaces; all by default.
        options: Settings of the write.

    Returns:
        The new snapshot, or the current one if nothing had to change.

    Raises:
        TableNotFoundError: The table does not exist.
        SchemaEvolutionError: The data does not fit the table; the error lists each column.
        WriteError: The write failed. Every error raised here is also an instance of this type.
        InvalidDataError: A value cannot be written, or an upsert has several rows for one key or null in a key
            while ``null_keys`` is not match.
        ConcurrencyConflictError: Other writers committed first on every attempt; nothing was written.
        CommitStateUnknownError: It is unknown whether the write landed; no files were deleted.
    """
    given = options or WriteSettings()
    return describe(
        write_table(context, target, data, mode=mode, keys=keys, overwrite_filter=overwrite_filter, options=given)
    )


def write_table(  # noqa: PLR0913 - options by keyword
    context: ManagerContext,
    target: TableTarget,
    data: object,
    *,
    mode: WriteMode,
    options: WriteSettings,
    keys: Sequence[str] | None = None,
    overwrite_filter: RowFilter | None = None,
    loaded: Table | None = None,
) -> Outcome:
    """Write data like ``write_data``, and return the table as well.

    Args:
        context: The manager's context.
        target: The table.
        data: The data to write.
        mode: How the write treats existing rows.
        options: Settings of the write.
        keys: Key columns of an upsert.
        overwrite_filter: Rows that an overwrite replaces.
        loaded: The table, if the caller has just loaded it.
    """
    mode = WriteMode(mode)
    if overwrite_filter is not None and mode is not WriteMode.OVERWRITE:
        msg = f"overwrite_filter is not supported in mode {mode.value}."
        raise ConfigurationError(msg, hint="Use mode overwrite.")
    if options.null_keys is not None and mode is not WriteMode.UPSERT:
        msg = f"null_keys is not supported in mode {mode.value}."
        raise ConfigurationError(msg, hint="Use mode upsert.")
    scope = _scope(options)
    with (
        failing_as_writes(),
        context.operation(_SPANS[mode], target, mode=mode.value, operation_id=scope.operation_id) as operation,
    ):
        write = _Write(context, target, options, scope, loaded)
        row_level = mode is WriteMode.UPSERT or overwrite_filter is not None
        if write.goes_to_engine(data, mode, row_level=row_level):
            outcome = write.on_engine(data, mode, keys, overwrite_filter)
        else:
            outcome = write.in_process(data, mode, keys, overwrite_filter)
        _report(operation, outcome, write.num_rows, kind=mode.value)
        return outcome


def delete(
    context: ManagerContext, target: TableTarget, row_filter: RowFilter, *, options: WriteSettings | None = None
) -> SnapshotInfo:
    """Delete the rows that match a filter; rows for which it is null stay.

    Returns:
        The new snapshot, or the current one if no row matched.
    """
    options = options or WriteSettings()
    scope = _scope(options)
    with (
        failing_as_writes(),
        context.operation("iceberg.delete", target, operation_id=scope.operation_id) as operation,
    ):
        write = _Write(context, target, options, scope)
        outcome = write.delete(row_filter)
        _report(operation, outcome, None, kind="delete")
        return describe(outcome)


def _scope(options: WriteSettings) -> WriteScope:
    if reserved := sorted(_RESERVED & set(options.snapshot_properties)):
        msg = f"snapshot_properties must not set reserved properties: {', '.join(reserved)}."
        raise ConfigurationError(msg, hint="To set the operation id, pass operation_id.")
    given = options.operation_id is not None
    return WriteScope(options.operation_id or new_operation_id(), options.branch, may_be_repeated=given)


def _report(operation: Operation, outcome: Outcome, num_rows: int | None, *, kind: str) -> None:
    metadata = outcome.table.metadata
    if outcome.snapshot is not None and not outcome.repeated:
        count_written(name_of(outcome.table), kind, summary_of(outcome.snapshot))
    operation.set(
        num_rows=num_rows,
        snapshot_id=outcome.snapshot.snapshot_id if outcome.snapshot else None,
        schema_id=metadata.current_schema_id,
        partition_spec=str(metadata.spec()),
        repeated=outcome.repeated or None,
    )


class _Write:
    """One write in progress."""

    def __init__(
        self,
        context: ManagerContext,
        target: TableTarget,
        options: WriteSettings,
        scope: WriteScope,
        loaded: Table | None = None,
    ) -> None:
        self._context = context
        self._target = target
        self._loaded = loaded
        self._options = options
        self._scope = scope
        self._engine = Engine(options.engine or context.config.engine)
        self.num_rows: int | None = None

    @cached_property
    def _table(self) -> Table:
        """The table as it was when the write began."""
        return self._loaded or self._context.load(self._target)

    def goes_to_engine(self, data: object, mode: WriteMode, *, row_level: bool) -> bool:
        """Choose the engine, and log the choice and its reason.

        Raises:
            CapabilityError: The table needs an engine that is unavailable or excluded; nothing was written.
        """
        if is_engine_frame(self._context, data):
            if self._engine is Engine.ARROW:
                msg = f"The arrow engine cannot write a frame of the engine '{self._context.plane().name}'."
                raise CapabilityError(msg, hint="Omit engine, or pass the frame's rows as an Arrow table.")
            return True
        if self._engine is Engine.SPARK or self._needs_engine(row_level=row_level):
            return True
        if self._engine is Engine.ARROW:
            return False
        size = data.nbytes if isinstance(data, pa.Table) else 0
        large = mode is WriteMode.UPSERT and size > self._context.config.spark_threshold_bytes
        plane = _available_engine(self._context) if large else None
        reason = "a large upsert" if plane else "no engine available" if large else f"{mode.value} runs in process"
        engine = plane.name if plane else Engine.ARROW.value
        self._context.logger.debug("engine chosen", engine=engine, reason=reason, bytes=size)
        return plane is not None

    def _needs_engine(self, *, row_level: bool) -> bool:
        """Whether only an engine can do the write; raise CapabilityError if there is none."""
        table = self._table
        if engine_only(table.metadata):
            required_plane(self._context, table, self._engine)
            return True
        ref = table.metadata.refs.get(self._scope.branch or MAIN_BRANCH)
        head = table.metadata.snapshot_by_id(ref.snapshot_id) if row_level and ref else None
        if has_equality_deletes(table, head):
            plane_for_equality_deletes(self._context, table, self._engine)
            return True
        return False

    def in_process(
        self, data: object, mode: WriteMode, keys: Sequence[str] | None, overwrite_filter: RowFilter | None
    ) -> Outcome:
        """Write with Arrow in this process."""
        frame = to_arrow(data)
        if mode is WriteMode.UPSERT:
            return self._upsert(frame, keys)
        config = self._context.config
        rows = NewRows(
            frame,
            evolve=self._options.evolve_schema,
            kept=tuple(self._options.keep_required),
            chunk_bytes=config.stream_chunk_bytes,
        )
        if mode is WriteMode.APPEND:
            outcome = self._commit(Append(rows, self._draft()))
        elif mode is WriteMode.OVERWRITE_PARTITIONS:
            require_partitions(self._table.spec(), table=name_of(self._table))
            outcome = self._commit(Replace(rows, self._draft(), partitions=True))
        else:
            row_filter = self._parsed(overwrite_filter) if overwrite_filter is not None else None
            outcome = self._commit(Replace(rows, self._draft(), row_filter=row_filter))
        self.num_rows = rows.num_rows
        return outcome

    def _upsert(self, frame: pa.Table | pa.RecordBatchReader, keys: Sequence[str] | None) -> Outcome:
        table = normalized(frame.read_all() if isinstance(frame, pa.RecordBatchReader) else frame)
        keys = self._keys(keys, table.schema)
        require_keys(table, keys, table=str(identifier_of(self._target)), null_keys=self._null_keys())
        self.num_rows = table.num_rows
        kept = tuple(self._options.keep_required)
        return self._commit(Upsert(table, keys, self._draft(), evolve=self._options.evolve_schema, kept=kept))

    def delete(self, row_filter: RowFilter) -> Outcome:
        """Delete rows; use the engine only if it is requested or required."""
        parsed = self._parsed(row_filter)
        if self._engine is Engine.SPARK or self._needs_engine(row_level=True):
            return self._on_engine(EngineWrite(WriteKind.DELETE, row_filter=parsed))
        return self._commit(Replace(None, self._draft(), row_filter=parsed))

    def on_engine(
        self, data: object, mode: WriteMode, keys: Sequence[str] | None, overwrite_filter: RowFilter | None
    ) -> Outcome:
        """Write with the data plane."""
        kind = WriteKind(mode.value)
        replaced = None
        if overwrite_filter is not None:
            # The engine runs the filter as floe parsed it, so both engines replace the same rows.
            replaced = self._parsed(overwrite_filter)
            kind = WriteKind.OVERWRITE_FILTER
        plane = self._context.plane()
        arrow = None if plane.accepts(data) else to_arrow(data)
        schema = plane.arrow_schema(data) if arrow is None else arrow.schema
        if mode is WriteMode.OVERWRITE_PARTITIONS:
            require_partitions(self._table.spec(), table=name_of(self._table))
        chosen = tuple(self._keys(keys, schema)) if mode is WriteMode.UPSERT else ()
        self.num_rows = arrow.num_rows if isinstance(arrow, pa.Table) else None
        frame = data if arrow is None else arrow
        null_keys = self._null_keys() if chosen else NullKeys.REFUSE
        # Null in these keys fails the write, and a failed write must not change the schema.
        kept = (*self._options.keep_required, *(chosen if null_keys is NullKeys.REFUSE else ()))
        return self._on_engine(EngineWrite(kind, frame, schema, chosen, null_keys, replaced, kept))

    def _on_engine(self, write: EngineWrite) -> Outcome:
        properties = self._properties()
        return write_on_engine(
            self._context,
            self._target,
            write,
            self._scope,
            properties,
            evolve=self._options.evolve_schema,
            loaded=self._table,
        )

    def _commit(self, prepared: Append | Replace | Upsert) -> Outcome:
        return commit(self._context, self._target, prepared, self._scope, loaded=self._table)

    def _draft(self) -> SnapshotDraft:
        strategy = CommitStrategy(self._options.commit_strategy or self._context.config.commit_strategy)
        return SnapshotDraft(self._properties(), self._scope.branch, merge=strategy is CommitStrategy.MERGE)

    def _properties(self) -> dict[str, str]:
        given = {key: str(value) for key, value in self._options.snapshot_properties.items()}
        return {**given, OPERATION_ID_PROPERTY: self._scope.operation_id}

    def _parsed(self, row_filter: RowFilter) -> RowPredicate:
        table = self._table
        return parse_row_filter(row_filter, table.schema(), table=name_of(table))

    def _null_keys(self) -> NullKeys:
        return NullKeys(self._options.null_keys or recorded_null_keys(self._table))

    def _keys(self, keys: Sequence[str] | None, data: pa.Schema) -> list[str]:
        table = self._table
        chosen = list(keys or ()) if not isinstance(keys, str) else [keys]
        chosen = chosen or list(recorded_keys(table))
        name = name_of(table)
        if not chosen:
            msg = f"The upsert into '{name}' has no keys."
            raise ConfigurationError(msg, hint="Pass keys=[…], or record them with set_keys.", table=name)
        missing = [key for key in chosen if column_path(data, key) is None or not _has(table.schema(), key)]
        if missing:
            msg = f"Upsert keys missing from the data or table '{name}': {', '.join(missing)}."
            raise ConfigurationError(msg, hint=f"Columns of the data: {', '.join(data.names)}.", table=name)
        return chosen


def _has(schema: Schema, column: str) -> bool:
    return column in schema.column_names


def is_engine_frame(context: ManagerContext, data: object) -> bool:
    """Whether data is a frame of the engine; data of PyArrow, pandas and Polars is recognized without an engine."""
    if is_plain(data):
        return False
    try:
        return context.plane().accepts(data)
    except MissingDependencyError:
        return False
    except FloeStorageError:
        # Engines' frames have columns. A stream needs no engine, and other data is rejected by its type.
        if is_stream(data) or not hasattr(type(data), "columns"):
            return False
        raise


def _available_engine(context: ManagerContext) -> DataPlane | None:
    try:
        return context.plane()
    except FloeStorageError:
        return None
