"""The Spark data plane, which executes the table manager's requests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from floe_core.errors import CapabilityError, CommitStateUnknownError, EngineUnavailableError
from floe_spark.plane.aggregates import compute_aggregates, count_unmatched, find_duplicate_keys, user_errors_translated
from floe_spark.plane.arrow_input import arrow_schema
from floe_spark.plane.definition import Definition
from floe_spark.plane.errors import translated
from floe_spark.plane.maintenance import Procedures
from floe_spark.plane.queries import guarded, query_frames, rows_added, rows_differ, version_rows
from floe_spark.plane.reader import read_frame
from floe_spark.plane.sql import quoted
from floe_spark.plane.writer import (
    PRIVATE_CONF,
    PartialFilesError,
    SparkWrite,
    operation_id_of,
    snapshot_conf,
    two_steps,
    writes_frame_directly,
)
from floe_spark.session.sessions import Operations, ensure_catalog, open_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import SparkSession

    from floe_core.dataplane import (
        Aggregate,
        ColumnPath,
        ColumnRequest,
        CompactionKind,
        Figure,
        MaintenanceFigures,
        NullKeys,
        ReadRequest,
        RefRequest,
        WriteRequest,
    )
    from floe_spark.session.sessions import SparkEngine
    from floe_spark.session.settings import SparkSettings


class SparkDataPlane:
    """A ``DataPlane`` for one catalog; Spark starts on first use."""

    def __init__(self, settings: SparkSettings, *, catalog_name: str, conf: Mapping[str, str]) -> None:
        """Store the settings without starting Spark; ``conf`` contains secrets and is never logged."""
        self._settings = settings
        self._catalog = catalog_name
        self._conf = {
            # A cached table would hide commits by other engines.
            f"spark.sql.catalog.{catalog_name}.cache-enabled": "false",
            "spark.sql.defaultCatalog": catalog_name,
            **conf,
        }
        self._lock = threading.RLock()
        self._engine: SparkEngine | None = None
        self._session: SparkSession | None = None
        self._private: Operations | None = None

    def __repr__(self) -> str:
        """Show the master and the catalog, without secrets."""
        return f"SparkDataPlane(master={self._settings.master!r}, catalog={self._catalog!r})"

    @property
    def name(self) -> str:
        """Name of the engine in logs."""
        return "spark"

    @property
    def engine(self) -> SparkEngine:
        """The running Spark, started on first use."""
        with self._lock:
            if self._engine is None:
                self._engine = open_engine(self._settings)
            return self._engine

    @property
    def session(self) -> SparkSession:
        """The session with access to the catalog, in which frames are created."""
        with self._lock:
            if self._session is None:
                self._session = self.engine.session_for(self._catalog, self._conf)
            return self._session

    @property
    def _operations(self) -> Operations:
        with self._lock:
            if self._private is None:
                self._private = Operations(self.engine, {**self._conf, **PRIVATE_CONF})
            return self._private

    def accepts(self, data: object) -> bool:
        """Whether the data is a PySpark DataFrame, classic or Connect."""
        return isinstance(data, DataFrame)

    def gives(self, kind: type) -> bool:
        """Whether a class is a PySpark DataFrame class, classic or Connect."""
        return issubclass(kind, DataFrame)

    def columns(self, data: object) -> tuple[str, ...]:
        """Return the column names of a PySpark DataFrame.

        Raises:
            TypeError: The data is not a PySpark DataFrame.
        """
        return tuple(_spark_frame(data).columns)

    def empty_frame(self) -> DataFrame:
        """Return a PySpark DataFrame without columns or rows."""
        return self.session.sql("select 1 as nothing where false").drop("nothing")

    def arrow_schema(self, data: object) -> pa.Schema:
        """Return the Arrow schema of a PySpark DataFrame.

        Raises:
            TypeError: The data is not a PySpark DataFrame.
        """
        frame = _spark_frame(data)
        try:
            return arrow_schema(frame.schema)
        except CapabilityError:
            # Spark can convert more types than floe maps, but that takes a job.
            return frame.limit(0).toArrow().schema

    def columns_with_nulls(self, data: object, columns: Sequence[str]) -> tuple[str, ...]:
        """Return which of the given columns contain nulls; this computes the frame.

        Raises:
            TypeError: The data is not a PySpark DataFrame.
        """
        found = _spark_frame(data).agg(*(sf.max(sf.col(quoted(name)).isNull()) for name in columns)).head()
        return tuple(name for name, nulls in zip(columns, found or (), strict=False) if nulls)

    def write(self, request: WriteRequest) -> None:
        """Execute a write, in a private session if its frame's session cannot be used.

        Raises:
            TableNotFoundError: The table does not exist.
            InvalidDataError: The data does not fit the table.
            ConcurrencyConflictError: Another writer committed first.
            CommitStateUnknownError: Spark does not know whether its commit succeeded.
            EngineUnavailableError: Spark is no longer running.
            EngineError: Spark reports another failure, such as an error in a user-defined function.
            CapabilityError: Spark does not support a column type, or the write requires a branch.
        """
        operation = operation_id_of(request)
        with translated(request.table, operation_id=operation, action="write to"):
            try:
                self._write(operation, request)
            except PartialFilesError:
                for step in two_steps(request):
                    self._write(operation, step)

    def _write(self, operation: str, request: WriteRequest) -> None:
        shares_files = self.engine.shares_files

        def action(session: SparkSession) -> None:
            with translated(request.table, operation_id=operation):
                SparkWrite(session, self._catalog, request, shares_files=shares_files).run()

        session = self._session_of(request)
        if session is None:
            self._operations.run_privately(operation, snapshot_conf(request), action)
        else:
            self._operations.run(operation, session, lambda: action(session))

    def _session_of(self, request: WriteRequest) -> SparkSession | None:
        """Return the session in which a frame can be written directly; None if the write needs a private one."""
        if not isinstance(request.data, DataFrame) or not writes_frame_directly(request):
            return None
        session = request.data.sparkSession
        return session if session is self.session or ensure_catalog(session, self._catalog, self._conf) else None

    def await_quiet(self, operation_id: str, *, timeout_seconds: float = 60.0) -> None:
        """Cancel an operation that may still be running, even if its process has died, and wait until it has ended.

        Raises:
            CommitStateUnknownError: It is still running after the timeout, or Spark does not respond.
        """
        try:
            with translated(operation_id):
                ended = self._operations.cancel_and_wait(operation_id, timeout_seconds=timeout_seconds)
        except EngineUnavailableError as err:
            msg = f"Spark does not respond, so it is unknown whether operation {operation_id} is still running."
            raise CommitStateUnknownError(msg, operation_id=operation_id, hint="Try again later.") from err
        if not ended:
            msg = f"Operation {operation_id} is still running in Spark after {timeout_seconds:g} s."
            raise CommitStateUnknownError(msg, operation_id=operation_id, hint="Try again later.")

    def frame(self, request: ReadRequest) -> DataFrame:
        """Return a lazy PySpark DataFrame over the table."""
        with translated(request.table):
            return read_frame(self.session, self._catalog, request)

    def query(self, frames: Mapping[str, DataFrame], text: Callable[[Mapping[str, str]], str]) -> DataFrame:
        """Run a query whose tables are frames.

        Args:
            frames: The frames that the query reads, by table.
            text: Builds the query from the view name of each table.
        """
        return query_frames(self.session, frames, text)

    def guard_rows(self, data: object, row_filter: object, *, column: str, message: str) -> DataFrame:
        """Return a frame with the same rows that fails if it is computed and a row does not match a filter."""
        return guarded(_spark_frame(data), row_filter, column=column, message=message)

    def aggregate(self, request: ReadRequest, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
        """Compute aggregates by name in one pass over the rows of a read.

        Raises:
            InvalidScanError: A user's condition is invalid for the table or its values; the message is only the reason.
        """
        with user_errors_translated(request.table):
            return compute_aggregates(read_frame(self.session, self._catalog, request), aggregates)

    def unmatched(
        self, aggregate: Aggregate, request: ReadRequest, other: ReadRequest, other_columns: Sequence[ColumnPath]
    ) -> Figure:
        """Count the rows whose values in an aggregate's columns do not exist in columns of another read.

        Raises:
            InvalidScanError: A user's condition is invalid for the table or its values; the message is only the reason.
        """
        with user_errors_translated(request.table):
            rows, other_rows = (read_frame(self.session, self._catalog, one) for one in (request, other))
            return count_unmatched(rows, aggregate, other_rows, other_columns)

    def repeated_keys(
        self, request: ReadRequest, keys: Sequence[ColumnPath], *, null_keys: NullKeys, limit: int
    ) -> list[tuple[Any, ...]]:
        """Return examples of keys shared by several rows of a read; keys with null only count if null matches null."""
        with translated(request.table):
            return find_duplicate_keys(self.frame(request), keys, null_keys=null_keys, limit=limit)

    def added_rows(self, before: ReadRequest, after: ReadRequest, columns: Sequence[str]) -> DataFrame:
        """Return the rows of one read that an earlier read does not contain; duplicates count individually."""
        with translated(after.table):
            return rows_added(self._version_rows(before, columns), self._version_rows(after, columns))

    def rows_changed(
        self,
        before: ReadRequest,
        after: ReadRequest,
        columns: Sequence[str],
        *,
        keys: Sequence[ColumnPath] = (),
        keyed: object | None = None,
    ) -> bool:
        """Whether two reads differ in the given columns; duplicates count individually."""
        with translated(after.table):
            return rows_differ(
                self._version_rows(before, columns),
                self._version_rows(after, columns),
                keys=keys,
                keyed=_spark_frame(keyed) if keyed is not None else None,
            )

    def _version_rows(self, request: ReadRequest, columns: Sequence[str]) -> DataFrame:
        return version_rows(self.session, self._catalog, request, columns)

    def read_arrow(self, request: ReadRequest) -> pa.Table:
        """Read rows as an Arrow table.

        Raises:
            InvalidScanError: A user's condition does not fit the table or its values; the message is the reason alone.
        """
        with user_errors_translated(request.table):
            return read_frame(self.session, self._catalog, request).toArrow()

    def rewrite_data_files(
        self,
        table: str,
        *,
        kind: CompactionKind,
        order: Sequence[str] = (),
        row_filter: object | None = None,
        options: Mapping[str, str] | None = None,
    ) -> MaintenanceFigures:
        """Rewrite data files into fewer, larger or sorted ones."""
        with translated(table):
            return self._procedures.rewrite_data_files(
                table, kind=kind, order=order, row_filter=row_filter, options=options
            )

    def rewrite_position_deletes(self, table: str) -> MaintenanceFigures:
        """Rewrite position delete files, dropping deletes that no longer apply to any row."""
        with translated(table):
            return self._procedures.rewrite_position_deletes(table)

    def rewrite_manifests(self, table: str) -> MaintenanceFigures:
        """Rewrite manifests into fewer, better clustered ones."""
        with translated(table):
            return self._procedures.rewrite_manifests(table)

    def files_outside(self, table: str, *, prefixes: Sequence[str], limit: int = 1000) -> tuple[str, ...]:
        """Return files of all snapshots that are outside the prefixes or have an ambiguous path."""
        with translated(table):
            return self._procedures.files_outside(table, prefixes=prefixes, limit=limit)

    def expire_snapshots(
        self, table: str, *, older_than: datetime, retain_last: int, snapshot_ids: Sequence[int] = ()
    ) -> MaintenanceFigures:
        """Expire snapshots, and delete the files that only they referenced."""
        with translated(table):
            return self._procedures.expire_snapshots(
                table, older_than=older_than, retain_last=retain_last, snapshot_ids=snapshot_ids
            )

    def remove_orphan_files(
        self, table: str, *, older_than: datetime, location: str | None = None, dry_run: bool = True
    ) -> MaintenanceFigures:
        """Find files that no snapshot references; delete them unless ``dry_run`` is set."""
        with translated(table):
            return self._procedures.remove_orphan_files(
                table, older_than=older_than, location=location, dry_run=dry_run
            )

    def set_ref(self, table: str, ref: RefRequest) -> None:
        """Create or replace a branch or tag."""
        with translated(table):
            self._definition.set_ref(table, ref)

    def remove_ref(self, table: str, name: str, *, kind: str) -> None:
        """Remove a branch or tag."""
        with translated(table):
            self._definition.remove_ref(table, name, kind=kind)

    def fast_forward(self, table: str, branch: str, *, to: str) -> None:
        """Move a branch forward to the head of a descendant branch."""
        with translated(table):
            self._definition.fast_forward(table, branch, to=to)

    def roll_back(self, table: str, snapshot_id: int) -> None:
        """Roll main back to an earlier snapshot."""
        with translated(table):
            self._definition.roll_back(table, snapshot_id)

    def set_properties(self, table: str, *, updates: Mapping[str, str], removals: Sequence[str] = ()) -> None:
        """Set and remove properties of a table."""
        with translated(table):
            self._definition.set_properties(table, updates=updates, removals=removals)

    def change_columns(self, table: str, changes: Sequence[ColumnRequest]) -> None:
        """Apply changes to a table's columns in order."""
        with translated(table):
            self._definition.change_columns(table, changes)

    def close(self) -> None:
        """Stop the Spark that this plane started, unless the process still uses it."""
        with self._lock:
            engine, self._engine, self._session, self._private = self._engine, None, None, None
        if engine is not None:
            engine.release()

    @property
    def _procedures(self) -> Procedures:
        return Procedures(self.session, self._catalog)

    @property
    def _definition(self) -> Definition:
        return Definition(self.session, self._catalog)


def _spark_frame(data: object) -> DataFrame:
    if isinstance(data, DataFrame):
        return data
    msg = f"{type(data).__name__} is not a PySpark DataFrame"
    raise TypeError(msg)
