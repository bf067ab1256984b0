"""A table that floe, Spark and Java change in turn or concurrently, with the list of rows it must contain."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floe_core.errors import CapabilityError, ConcurrencyConflictError
from floe_testing.audit import assert_audited
from floe_testing.faults.races import losing_races
from floe_testing.java.comparison import JavaComparison
from floe_testing.oracles.sql_model import Compare, filter_text, remaining, spark_text
from floe_testing.oracles.table_model import comparable, difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from floe_testing.oracles.sql_model import Predicate, Row
    from floe_testing.oracles.two_engines import TwoEngines

    Columns = dict[str, tuple[str, pa.DataType]]

_DELETION_VECTORS = 3


@dataclass(frozen=True)
class Change:
    """An operation and its effect on the rows."""

    name: str
    run: Callable[[], object]
    effect: Callable[[list[Row]], list[Row]]


class SharedTable:
    """A table with a key column ``k``, and the rows it must contain.

    Attributes:
        rows: Expected rows of main.
        columns: Type of each column in Spark and in Arrow.
        version: Format version.
    """

    def __init__(self, engines: TwoEngines, table: str, columns: Columns, version: int) -> None:
        """Use a table name; ``create`` creates the table."""
        self.engines = engines
        self.manager = engines.manager
        self.table = table
        self.name = f"floe.{table}"
        self.columns = columns
        self.version = version
        self.rows: list[Row] = []

    def create(self, spec: Sequence[str], properties: dict[str, str], rows: Sequence[Row]) -> None:
        """Create the table in Spark, and insert its first rows."""
        columns = ", ".join(f"{name} {kind}" for name, (kind, _) in self.columns.items())
        partitioned = f"PARTITIONED BY ({', '.join(spec)})" if spec else ""
        given = {"format-version": str(self.version), **properties}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg {partitioned} TBLPROPERTIES ({listed})")
        self.perform(self.spark_insert(rows))

    def sql(self, text: str) -> list[Row]:
        """Run a Spark SQL statement."""
        return self.engines.sql(text)

    def perform(self, change: Change, *rivals: Change, spared: int = 0) -> str:
        """Carry out an operation; each rival commits right before one of its commit attempts.

        Args:
            change: The operation.
            rivals: Concurrent changes by other writers; a rival whose turn never comes has no effect.
            spared: Number of the operation's first commits without a rival, such as acquiring the maintenance lease.

        Returns:
            The outcome as text.
        """
        landed: list[Change] = []
        states = [self._state()]

        def landing(rival: Change) -> Callable[[], None]:
            def act() -> None:
                rival.run()
                landed.append(rival)
                states.append(self._state())

            return act

        refused: Exception | None = None
        with losing_races(self.engines.catalog.engine, *[lambda: None] * spared, *map(landing, rivals)):
            try:
                change.run()
            except (CapabilityError, ConcurrencyConflictError) as err:
                refused = err
        for rival in landed:
            self.rows = rival.effect(self.rows)
        if refused is None:
            self.rows = change.effect(self.rows)
        else:
            self._check_refusal(refused, landed)
            assert self._state() == states[-1], "a refused operation changed the table"
        return f"{change.name} against {[rival.name for rival in landed]}: {refused or 'done'}"

    def agree(self) -> None:
        """Compare the rows in Spark and in floe with the model, and audit the files and compare them with Java."""
        expected = comparable(self.rows)
        spark = comparable(self.sql(f"SELECT * FROM {self.name}"))
        assert spark == expected, f"Spark disagrees with the model: {difference(expected, spark)}"
        self.floe_agrees(self.rows)
        assert_audited(self.manager, self.table)
        location = self.manager.load_table(self.table).metadata_location
        comparison = JavaComparison(self.engines.session, self.name)
        comparison.check_metadata(location)
        comparison.check_entries(location)

    def floe_agrees(self, rows: Iterable[Row], **version: Any) -> None:
        """Compare the rows in floe, on main or another version, with a model; equality deletes may be refused."""
        try:
            found = comparable(self.manager.scan(self.table, **version).to_pylist())
        except CapabilityError:
            assert self.has_equality_deletes(), "floe refuses to read a table without equality deletes"
            return
        expected = comparable(self.full(rows))
        assert found == expected, f"floe disagrees with the model: {difference(expected, found)}"

    def has_equality_deletes(self) -> bool:
        """Whether any snapshot has equality deletes."""
        return bool(self.sql(f"SELECT 1 FROM {self.name}.all_delete_files WHERE content = 2 LIMIT 1"))

    def full(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows with all columns; missing values are null."""
        return [{name: row.get(name) for name in self.columns} for row in rows]

    def frame(self, rows: Iterable[Row]) -> pa.Table:
        """Return rows as Arrow data."""
        schema = pa.schema([(name, kind) for name, (_, kind) in self.columns.items()])
        return pa.Table.from_pylist(self.full(rows), schema=schema)

    def values(self, rows: Iterable[Row]) -> str:
        """Return rows as a Spark SQL query."""
        listed = (
            ", ".join(f"CAST({spark_literal(row[name])} AS {kind})" for name, (kind, _) in self.columns.items())
            for row in self.full(rows)
        )
        return f"SELECT * FROM VALUES {', '.join(f'({cells})' for cells in listed)} AS v({', '.join(self.columns)})"

    def mode(self, operation: str, mode: str) -> None:
        """Set copy-on-write or merge-on-read for Spark's DELETE, UPDATE or MERGE."""
        self.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ('write.{operation}.mode' = '{mode}')")

    # Operations of other writers

    def rival(self, kind: str, rows: Sequence[Row], predicate: Predicate, key: int) -> Change:
        """Return a change by Spark or Java; tables without delete files use a plain DELETE."""
        whole_files = self.version == 1
        match kind:
            case "insert":
                return self.spark_insert(rows)
            case "delete":
                return self.spark_delete(predicate, "copy-on-write" if whole_files else "merge-on-read")
            case _ if whole_files:
                return self.spark_delete(Compare("k", "=", key), "copy-on-write")
            case "equality":
                return self.equality_delete([key])
            case _:
                return self.position_delete(Compare("k", "=", key), per_file=True)

    def spark_insert(self, rows: Sequence[Row]) -> Change:
        """Return an INSERT by Spark."""
        given = self.full(rows)
        text = f"INSERT INTO {self.name} {self.values(rows)}"
        return Change("spark insert", lambda: self.sql(text), lambda before: [*before, *given])

    def spark_delete(self, predicate: Predicate, mode: str) -> Change:
        """Return a DELETE by Spark."""

        def run() -> None:
            self.mode("delete", mode)
            self.sql(f"DELETE FROM {self.name} WHERE {spark_text(predicate)}")

        return Change(f"spark delete {mode} {filter_text(predicate)}", run, lambda rows: remaining(rows, predicate))

    def equality_delete(self, keys: Sequence[int]) -> Change:
        """Return a delete by key, committed through Java."""

        def run() -> None:
            if self.manager.get_current_snapshot(self.table) is not None:
                self.engines.java(self.table).delete_equal(["k"], [[key] for key in keys])

        return Change(f"java equality delete {keys}", run, lambda rows: [row for row in rows if row["k"] not in keys])

    def position_delete(self, predicate: Predicate, *, per_file: bool) -> Change:
        """Return a delete by position or deletion vector, committed through Java."""

        def run() -> None:
            if self.manager.get_current_snapshot(self.table) is not None:
                self.engines.java(self.table).delete_positions(spark_text(predicate), per_file=per_file)

        return Change(f"java position delete {filter_text(predicate)}", run, lambda rows: remaining(rows, predicate))

    def _state(self) -> tuple[object, ...]:
        """Return the parts of the table that an operation may change, without the maintenance lease."""
        metadata = self.manager.load_table(self.table).metadata
        refs = {ref.name: ref.snapshot_id for ref in self.manager.list_refs(self.table)}
        return refs, metadata.current_snapshot_id, metadata.current_schema_id, metadata.default_spec_id

    def _check_refusal(self, refused: Exception, landed: Sequence[Change]) -> None:
        if isinstance(refused, ConcurrencyConflictError):
            assert landed, "a conflict without another writer"
        else:
            reason = self.version >= _DELETION_VECTORS or self.has_equality_deletes()
            assert reason, f"floe refused a supported operation: {refused}"


def spark_literal(value: Any) -> str:
    """Format a value of any column as Spark SQL."""
    match value:
        case None:
            return "NULL"
        case list():
            return f"array({', '.join(spark_literal(item) for item in value)})"
        case dict():
            fields = ", ".join(f"'{name}', CAST({spark_literal(item)} AS bigint)" for name, item in value.items())
            return f"named_struct({fields})"
        case dt.datetime():
            return f"timestamp_ntz '{value.isoformat(sep=' ')}'"
        case float():
            return f"double('{value}')"
        case _:
            return spark_text(Compare("k", "=", value)).partition(" = ")[2]
