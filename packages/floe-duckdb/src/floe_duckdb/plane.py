"""The DuckDB data plane: floe reads tables as Arrow data, DuckDB computes, and floe writes the result.

floe plans the reads, so row filters, versions and delete files behave as on the other engines. A relation over a table
holds its rows in memory: it can be read several times, and does not change when the table does. The data must fit into
the memory of one machine.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Never

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection, DuckDBPyRelation
from floe_core.dataplane import Figure, NullKeys
from floe_core.errors import CapabilityError, ConfigurationError
from floe_iceberg import IcebergTableManager
from floe_iceberg.formats.partitioning import column_path

from floe_duckdb.figures import figures, known, scope, shown
from floe_duckdb.relations import (
    NO_COLUMN,
    arrow_table,
    judged,
    numbered,
    relation,
    relation_of,
    same_but_for_case,
    visible,
)
from floe_duckdb.sql import all_of, condition, predicate_of, quoted, reason, text
from floe_duckdb.writes import write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from floe_core.dataplane import Aggregate, ColumnPath, ReadRequest, WriteRequest
    from pyiceberg.catalog import Catalog

_SPARK = "a project with compute.type spark"


def _left_to(engine: str, work: str) -> Callable[..., Never]:
    def refuse(*_: object, **__: object) -> Never:
        msg = f"DuckDB does not {work}."
        raise CapabilityError(msg, hint=f"Use {engine}.")

    return refuse


class DuckDBPlane:
    """A ``DataPlane`` in this process; each thread has its own connection to one in-memory database."""

    name = "duckdb"

    def __init__(self, catalog: Catalog, *, settings: Mapping[str, object] | None = None) -> None:
        """Set the connected catalog, and DuckDB's settings."""
        self._manager = IcebergTableManager(catalog)
        self._settings = {key: str(value) for key, value in (settings or {}).items()}
        self._lock = threading.Lock()
        self._database: DuckDBPyConnection | None = None
        self._threads = threading.local()

    @property
    def session(self) -> DuckDBPyConnection:
        """The connection of this thread.

        Raises:
            ConfigurationError: DuckDB rejects the settings.
        """
        with self._lock:
            if self._database is None:
                self._database, self._threads = _opened(self._settings), threading.local()
            if not hasattr(self._threads, "connection"):
                self._threads.connection = self._database.cursor()
        connection: DuckDBPyConnection = self._threads.connection
        return connection

    def close(self) -> None:
        """Close the database; the next use opens a new one."""
        with self._lock:
            database, self._database = self._database, None
        if database is not None:
            database.close()

    # Frames

    def accepts(self, data: object) -> bool:
        """Whether the data is a relation."""
        return isinstance(data, DuckDBPyRelation)

    def gives(self, kind: type) -> bool:
        """Whether a class is DuckDB's relation."""
        return kind is DuckDBPyRelation

    def columns(self, data: object) -> tuple[str, ...]:
        """Return the column names of a relation."""
        return tuple(name for name in relation_of(data).columns if name != NO_COLUMN)

    def empty_frame(self) -> DuckDBPyRelation:
        """Return a relation without rows; its placeholder column is omitted from all results."""
        return relation(self.session, pa.table({}))

    def arrow_schema(self, data: object) -> pa.Schema:
        """Return the Arrow schema of a relation."""
        return arrow_table(relation_of(data).limit(0)).schema

    def columns_with_nulls(self, data: object, columns: Sequence[str]) -> tuple[str, ...]:
        """Return those of the given columns that contain null."""
        found = relation_of(data).aggregate(", ".join(f"bool_or({quoted([name])} IS NULL)" for name in columns))
        return tuple(name for name, nulls in zip(columns, found.fetchall()[0], strict=True) if nulls)

    def guard_rows(self, data: object, row_filter: object, *, column: str, message: str) -> DuckDBPyRelation:
        """Return a relation of the same rows that raises an error when it is computed if a row does not pass."""
        rows = relation_of(data)
        name = quoted([column if column in rows.columns else column.partition(".")[0]])
        # Not as a filter: DuckDB may evaluate filters in any order, also on rows that another filter excludes.
        checked = f"CASE WHEN {condition(row_filter)} THEN {name} ELSE error({text(message)}) END"
        return rows.project(f"* REPLACE ({checked} AS {name})")

    def query(self, frames: Mapping[str, Any], text: Callable[[Mapping[str, str]], str]) -> DuckDBPyRelation:
        """Run a query over relations, and compute its rows immediately."""
        session, names = self.session, {table: f"floe_{uuid.uuid4().hex}" for table in frames}
        for table, frame in frames.items():
            session.register(names[table], visible(arrow_table(frame)))
        try:
            return relation(session, arrow_table(session.sql(text(names))))
        finally:
            for name in names.values():
                session.unregister(name)

    # Reads

    def read_arrow(self, request: ReadRequest) -> pa.Table:
        """Read rows as an Arrow table.

        Raises:
            InvalidScanError: A condition of a user does not fit the table or its values.
        """
        if not _conditions(request) and not any("." in name for name in request.columns or ()):
            return self._scan(request, request.columns, request.limit)
        with judged(request.table):
            return arrow_table(self.frame(request))

    def frame(self, request: ReadRequest) -> DuckDBPyRelation:
        """Return a relation over the current rows of the table."""
        conditions = _conditions(request)
        # A condition may use columns that were not requested.
        columns, limit = (None, None) if conditions else (request.columns, request.limit)
        found = self._scan(request, columns, limit)
        rows = self._over(found, request.table)
        if conditions:
            rows = rows.filter(all_of(map(condition, conditions)))
            rows = rows if request.limit is None else rows.limit(request.limit)
        if not request.columns:
            return rows
        paths = (column_path(found.schema, name) or [name] for name in request.columns)
        return rows.project(", ".join(map(quoted, paths)))

    def aggregate(self, request: ReadRequest, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
        """Compute figures by name in one pass over the rows of a read.

        Raises:
            InvalidScanError: DuckDB cannot evaluate a user's condition on the table.
        """
        with judged(request.table):
            return figures(self.frame(request), aggregates)

    def unmatched(
        self, aggregate: Aggregate, request: ReadRequest, other: ReadRequest, other_columns: Sequence[ColumnPath]
    ) -> Figure:
        """Count the rows whose values do not exist in another read.

        Raises:
            InvalidScanError: DuckDB cannot evaluate a user's condition on the table.
        """
        with judged(request.table):
            rows = self.frame(request).filter(all_of([*scope(aggregate), *known(aggregate.columns)]))
            example = shown(aggregate.columns, as_object=len(aggregate.columns) > 1)
            least = quoted(aggregate.columns[0]) if len(aggregate.columns) == 1 else example
            mine = rows.project(f"{numbered(aggregate.columns)}, {least} AS example").set_alias("mine")
            theirs = self.frame(other).project(numbered(other_columns)).set_alias("theirs")
            same = " AND ".join(f"mine.k{n} = theirs.k{n}" for n in range(len(other_columns)))
            found = mine.join(theirs, same, how="anti").aggregate("count(*), CAST(min(example) AS VARCHAR)")
            return Figure(*found.fetchall()[0])

    def repeated_keys(
        self, request: ReadRequest, keys: Sequence[ColumnPath], *, null_keys: NullKeys, limit: int
    ) -> list[tuple[Any, ...]]:
        """Return examples of duplicate keys in a read."""
        rows = self.frame(request)
        if null_keys is NullKeys.REFUSE:
            rows = rows.filter(all_of(known(keys)))
        names = ", ".join(f"k{number}" for number in range(len(keys)))
        counted = rows.project(numbered(keys)).aggregate(f"{names}, count(*) AS n", names)
        return counted.filter("n > 1").project(names).limit(limit).fetchall()

    def added_rows(self, before: ReadRequest, after: ReadRequest, columns: Sequence[str]) -> DuckDBPyRelation:
        """Return the rows of a read that an earlier read does not contain."""
        return self._of(after, columns).except_(self._of(before, columns))

    def rows_changed(
        self,
        before: ReadRequest,
        after: ReadRequest,
        columns: Sequence[str],
        *,
        keys: Sequence[ColumnPath] = (),
        keyed: object | None = None,
    ) -> bool:
        """Whether two reads differ in the given columns."""
        old, new = self._of(before, columns), self._of(after, columns)
        if keyed is not None:
            # Relations of different threads cannot be joined.
            wanted = relation(self.session, arrow_table(relation_of(keyed))).project(numbered(keys)).distinct()
            wanted = wanted.set_alias("theirs")
            same = " AND ".join(
                f"{quoted(['mine', *path])} IS NOT DISTINCT FROM theirs.k{n}" for n, path in enumerate(keys)
            )
            old, new = (one.set_alias("mine").join(wanted, same, how="semi") for one in (old, new))
        return any(one.except_(other).limit(1).fetchall() for one, other in ((old, new), (new, old)))

    def _scan(self, request: ReadRequest, columns: Sequence[str] | None, limit: int | None) -> pa.Table:
        row_filter = predicate_of(request.row_filter)
        if request.start_snapshot_id is not None:
            appended = self._manager.incremental_scan(
                request.table,
                from_snapshot=request.start_snapshot_id,
                to_snapshot=request.snapshot_id,
                columns=columns,
                row_filter=row_filter,
            )
            return appended if limit is None else appended.slice(0, limit)
        return self._manager.scan(
            request.table,
            columns=columns,
            row_filter=row_filter,
            snapshot_id=request.snapshot_id,
            as_of=request.as_of,
            ref=request.ref,
            limit=limit,
        )

    def _over(self, rows: pa.Table, table: str) -> DuckDBPyRelation:
        if same_but_for_case(rows.column_names):
            msg = f"Table '{table}' has columns that differ only in case, which DuckDB cannot distinguish."
            raise CapabilityError(msg, hint="Rename one, or use engine='arrow'.", table=table)
        return relation(self.session, rows)

    def _of(self, request: ReadRequest, columns: Sequence[str]) -> DuckDBPyRelation:
        """Read columns; missing columns are null, also for the filters of the read."""
        rows = self.frame(replace(request, row_filter=None, where=None))
        there = set(rows.columns)
        rows = rows.project(", ".join(f"{quoted([n]) if n in there else 'NULL'} AS {quoted([n])}" for n in columns))
        return rows.filter(all_of(condition(one) for one in (request.row_filter, request.where) if one is not None))

    # Writes

    def write(self, request: WriteRequest) -> None:
        """Execute one write in one commit.

        Raises:
            EngineError: DuckDB cannot compute a relation.
            InvalidDataError: The rows do not match the schema; ``nulls`` is true if a required column contains null.
        """
        write(self._manager, request)

    def await_quiet(self, operation_id: str, *, timeout_seconds: float = 60.0) -> None:
        """Return immediately: no write outlives its call."""

    rewrite_data_files = _left_to("engine='arrow'", "rewrite data files")
    rewrite_manifests = _left_to("engine='arrow'", "rewrite manifests")
    expire_snapshots = _left_to("engine='arrow'", "expire snapshots")
    remove_orphan_files = _left_to("engine='arrow'", "remove orphan files")
    rewrite_position_deletes = _left_to(_SPARK, "rewrite delete files")
    files_outside = _left_to(_SPARK, "list a table's files")
    set_ref = _left_to(_SPARK, "change branches and tags of tables of format version 3")
    remove_ref = fast_forward = roll_back = set_ref
    set_properties = _left_to(_SPARK, "change properties of tables of format version 3")
    change_columns = _left_to(_SPARK, "change columns of tables of format version 3")


def _conditions(request: ReadRequest) -> list[str]:
    return [given for given in (request.row_filter, request.where) if isinstance(given, str)]


def _opened(settings: Mapping[str, str]) -> DuckDBPyConnection:
    try:
        database = duckdb.connect(":memory:", config=dict(settings))
    except duckdb.Error as err:
        msg = f"DuckDB rejected compute.conf: {reason(str(err))}"
        raise ConfigurationError(msg, hint="Use settings of DuckDB, such as memory_limit or threads.") from err
    # Timestamps without a time zone are UTC, regardless of the machine's time zone.
    database.execute("SET GLOBAL TimeZone = 'UTC'")
    return database
