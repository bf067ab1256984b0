"""Expected contents of a table's snapshots, timestamps and tags, compared with two engines."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError, ScanError, SnapshotNotFoundError
from floe_iceberg import SchemaChange, SchemaChangeKind
from floe_iceberg.commit.engine import engine_only
from floe_testing.oracles.shared_table import Change
from floe_testing.oracles.table_model import comparable, difference

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from floe_iceberg import Engine
    from floe_testing.oracles.shared_table import SharedTable
    from floe_testing.oracles.sql_model import Row

# Older than any file that an orphan sweep must keep because a running write may own it.
_LONG_AGO_SECONDS = 30 * 86_400


@dataclass(frozen=True)
class State:
    """The contents of a table at some time.

    Attributes:
        rows: The rows.
        columns: Column names with unique numbers; a column re-added under the same name gets a new number.
    """

    rows: list[Row]
    columns: dict[str, int]

    def shown(self, columns: dict[str, int]) -> list[Row]:
        """Return the rows in other columns: renamed columns keep their values, new columns are null."""
        names = {number: name for name, number in self.columns.items()}
        return [
            {name: row.get(names[number]) if number in names else None for name, number in columns.items()}
            for row in self.rows
        ]


class TableHistory:
    """Records the states of a table, and compares floe and Spark with them.

    Attributes:
        tags: Expected state of each tag.
    """

    def __init__(self, table: SharedTable) -> None:
        """Start with a newly created table."""
        self._table = table
        self._numbers = itertools.count()
        self._columns = {name: next(self._numbers) for name in table.columns}
        self._states: dict[int, State] = {}
        self._moments: list[tuple[int, int]] = []
        self._aged: set[str] = set()
        self._expired_ms = 0
        self._orphans = itertools.count()
        self.tags: dict[str, State] = {}

    # Recorded states

    def remember(self) -> None:
        """Record the state of the current snapshot, and the current time."""
        snapshot = self._table.manager.get_current_snapshot(self._table.table)
        if snapshot is not None:
            self._states.setdefault(snapshot.snapshot_id, self.state())
            self._moments.append((_now_ms(), snapshot.snapshot_id))

    def state(self) -> State:
        """Return the current state of main."""
        return State(self._table.full(self._table.rows), dict(self._columns))

    def kept(self) -> list[int]:
        """Return the recorded snapshots that still exist."""
        existing = {snapshot.snapshot_id for snapshot in self._table.manager.list_snapshots(self._table.table)}
        return [snapshot_id for snapshot_id in self._states if snapshot_id in existing]

    def ancestors(self) -> list[int]:
        """Return the recorded snapshots among the ancestors of main's head, including the head."""
        metadata = self._table.manager.load_table(self._table.table).metadata
        found, snapshot = [], metadata.current_snapshot()
        while snapshot is not None:
            found.append(snapshot.snapshot_id)
            parent = snapshot.parent_snapshot_id
            snapshot = metadata.snapshot_by_id(parent) if parent is not None else None
        return [snapshot_id for snapshot_id in found if snapshot_id in self._states]

    # Operations

    def roll_back(self, snapshot_id: int) -> Change:
        """Return a rollback of main to a recorded snapshot."""
        state = self._states[snapshot_id]
        table = self._table
        return Change(
            f"floe rollback to {snapshot_id}",
            lambda: table.manager.rollback(table.table, snapshot_id=snapshot_id),
            lambda _: state.shown(self._columns),
        )

    def tag(self, name: str, *, aged: bool) -> Change:
        """Return the creation of a tag, optionally with the minimum age of one millisecond."""
        table = self._table
        # Spark SQL supports only minutes.
        aged = aged and not engine_only(table.manager.load_table(table.table).metadata)

        def effect(rows: list[Row]) -> list[Row]:
            self.tags[name] = self._states[self.ancestors()[0]]
            self._aged |= {name} if aged else set()
            return rows

        options: dict[str, Any] = {"max_ref_age": 1} if aged else {}
        return Change(f"floe tag {name}", lambda: table.manager.create_tag(table.table, name, **options), effect)

    def expire(self, older_than: Any, engine: Engine) -> Change:
        """Return an expiry of all snapshots except the newest of each branch; expired tags are removed as well."""
        table = self._table

        def run() -> object:
            return table.manager.expire_snapshots(table.table, older_than=older_than, retain_last=1, engine=engine)

        def effect(rows: list[Row]) -> list[Row]:
            self._expired_ms = _now_ms()
            left = {ref.name for ref in table.manager.list_refs(table.table)}
            assert not left & self._aged, "a tag outlived its age"
            for name in self._aged:
                del self.tags[name]
            self._aged.clear()
            return rows

        return Change(f"floe expire {engine}", run, effect)

    def sweep(self, engine: Engine) -> Change:
        """Return an orphan sweep in a folder where all files are old and one is an orphan."""
        table = self._table
        folder = Path(table.manager.load_table(table.table).location().removeprefix("file:").replace("//", "/"))
        orphan = folder / "data" / f"orphan-{next(self._orphans)}.parquet"

        def run() -> object:
            orphan.parent.mkdir(exist_ok=True)
            orphan.write_bytes(b"left behind")
            then = time.time() - _LONG_AGO_SECONDS
            for path in folder.rglob("*"):
                os.utime(path, (then, then))
            return table.manager.sweep_orphans(table.table, dry_run=False, engine=engine)

        def effect(rows: list[Row]) -> list[Row]:
            assert not orphan.exists(), "an orphan survived the sweep"
            return rows

        return Change(f"floe sweep {engine}", run, effect)

    def add_column(self, name: str, kind: tuple[str, pa.DataType]) -> None:
        """Add a column of numbers; its name may be that of a dropped column."""
        self._evolve(SchemaChange(kind=SchemaChangeKind.ADD, column=name, type="long"))
        self._columns[name] = next(self._numbers)
        self._table.columns = {**self._table.columns, name: kind}

    def drop_column(self, name: str) -> None:
        """Drop a column."""
        self._evolve(SchemaChange(kind=SchemaChangeKind.DROP, column=name))
        del self._columns[name]
        self._table.columns = {other: kind for other, kind in self._table.columns.items() if other != name}

    def rename_column(self, name: str, new: str) -> None:
        """Rename a column."""
        self._evolve(SchemaChange(kind=SchemaChangeKind.RENAME, column=name, new_name=new))
        self._columns = {new if other == name else other: number for other, number in self._columns.items()}
        self._table.columns = {new if other == name else other: kind for other, kind in self._table.columns.items()}

    def _evolve(self, change: SchemaChange) -> None:
        self._table.manager.evolve_schema(self._table.table, [change], allow_incompatible_changes=True)

    # Comparisons

    def snapshot_agrees(self, snapshot_id: int, *, spark: bool = False) -> None:
        """Compare a snapshot in floe, and optionally in Spark, with its recorded state."""
        self._agrees(self._states[snapshot_id], f"VERSION AS OF {snapshot_id}", spark=spark, snapshot_id=snapshot_id)

    def tag_agrees(self, name: str, *, spark: bool = False) -> None:
        """Compare a tag with its recorded state."""
        self._agrees(self.tags[name], f"VERSION AS OF '{name}'", spark=spark, ref=name)

    def moment_agrees(self, number: int) -> None:
        """Compare the table as of an earlier step with its recorded state, unless an expiry removed that history."""
        millis, snapshot_id = self._moments[number % len(self._moments)]
        try:
            self._agrees(self._states[snapshot_id], "", as_of=millis)
        except SnapshotNotFoundError:
            assert millis < self._expired_ms, "time travel failed for a timestamp that no expiry removed"

    def increment_agrees(self, snapshot_id: int) -> None:
        """Compare an incremental scan since a snapshot of main with the rows added since then."""
        table = self._table
        try:
            found = table.manager.incremental_scan(table.table, from_snapshot=snapshot_id).to_pylist()
        except (CapabilityError, ScanError):
            return
        before = Counter(comparable(self._states[snapshot_id].shown(self._columns)))
        assert Counter(comparable(found)) == Counter(comparable(table.full(table.rows))) - before

    def _agrees(self, state: State, version: str, *, spark: bool = False, **options: Any) -> None:
        table = self._table
        expected = comparable(state.rows)
        if spark:
            found = comparable(table.sql(f"SELECT * FROM {table.name} {version}"))
            assert found == expected, f"Spark disagrees {version}: {difference(expected, found)}"
        try:
            found = comparable(table.manager.scan(table.table, **options).to_pylist())
        except CapabilityError:
            assert table.has_equality_deletes(), "floe refuses to read a table without equality deletes"
            return
        assert found == expected, f"floe disagrees with {options}: {difference(expected, found)}"


def in_columns(rows: Iterable[Row], names: dict[str, str]) -> list[Row]:
    """Return rows with renamed columns; columns without a new name are omitted."""
    return [{new: row.get(old) for old, new in names.items()} for row in rows]


def _now_ms() -> int:
    return int(time.time() * 1000)
