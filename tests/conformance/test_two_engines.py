"""Random, partly concurrent operations by floe, Spark and Java on one table, compared with a list of rows.

``FLOE_TORTURE_STEPS`` sets the length of the run and ``FLOE_TORTURE_SEED`` its seed. The seed of each table is the
first seed plus the table's number, so ``FLOE_TORTURE_STEPS=20`` with that seed repeats a single table.
"""

from __future__ import annotations

import datetime as dt
import itertools
import os
import random

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, note, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from floe_core.errors import ConcurrencyConflictError
from floe_iceberg import CommitStrategy, CompactionStrategy, Engine
from floe_testing.java.comparison import JavaComparison
from floe_testing.oracles.shared_table import Change, SharedTable, spark_literal
from floe_testing.oracles.sql_model import (
    Among,
    And,
    Compare,
    Not,
    Or,
    StartsWith,
    evaluate,
    filter_text,
    random_predicate,
    remaining,
    spark_text,
)
from floe_testing.oracles.table_history import TableHistory, in_columns
from floe_testing.oracles.table_model import upserted

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

STEPS_PER_TABLE = 20
STEPS = int(os.environ.get("FLOE_TORTURE_STEPS", "200"))
SEED = int(os.environ.get("FLOE_TORTURE_SEED", "100"))

VERSIONS = ["1", "2", "2", "2", "3"]
NAN = float("nan")
# A string longer than Parquet's statistics, and one that sorts just after its prefix.
LONG = "m" * 5000
TEXTS = [None, "", "a", "ab", "b'c", "mm", LONG, "ü"]
NUMBERS = [None, 0.0, -0.0, 1.5, -1.5, NAN, 1e300]
TIMES = [None, dt.datetime(1969, 12, 31, 23, 59, 59), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 12)]  # noqa: DTZ001 - without zone, as the column
LISTS = [None, [], [None], [{"y": None}], [{"y": 1}, {"y": 2}]]
KEYS = st.integers(min_value=0, max_value=6)

TYPES = {
    "k": ("bigint", pa.int64()),
    "i": ("int", pa.int32()),
    "s": ("string", pa.string()),
    "p": ("string", pa.string()),
    "f": ("double", pa.float64()),
    "t": ("timestamp_ntz", pa.timestamp("us")),
    "x": ("array<struct<y: bigint>>", pa.list_(pa.struct([("y", pa.int64())]))),
}
VALUES = {
    "k": KEYS,
    "i": st.sampled_from([None, -1, 0, 1, 2]),
    "s": st.sampled_from(TEXTS),
    "p": st.sampled_from([None, "", "x/y=z", "ü"]),
    "f": st.sampled_from(NUMBERS),
    "t": st.sampled_from(TIMES),
    "x": st.sampled_from(LISTS),
}
# Columns that are added and dropped: names are reused, and a renamed column has values under its new name.
ADDED = ("bigint", pa.int64())
PASSING = {f"{letter}{number}": st.sampled_from([None, 1, 2]) for letter in "cd" for number in range(3)}
VALUES |= PASSING

ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=5)
UNIQUE_ROWS = st.lists(st.fixed_dictionaries(VALUES), min_size=1, max_size=4, unique_by=lambda row: row["k"])
SPECS = st.sampled_from(
    [
        (),
        ("k",),
        ("p",),
        ("f",),
        ("bucket(3, k)",),
        ("truncate(1, s)",),
        ("days(t)",),
        ("years(t)", "i"),
        ("bucket(2, s)",),
    ]
)

LITERALS = {
    "k": [*range(7)],
    "i": [-1, 0, 1, 2],
    "s": ["", "a", "ab", "b'c", "mm", "mz"],
    "p": ["", "x/y=z", "ü"],
    "f": [0.0, -0.0, 1.5, -1.5],
    "t": [time for time in TIMES if time],
}
# Iceberg's Java skips files with the other zero, so Spark's filters contain no zeros.
SPARK_LITERALS = {**LITERALS, "f": [1.5, -1.5]}


def _predicates(literals, wanted=lambda _: True):
    """Predicates that are wanted; filtered by Hypothesis, an unwanted one would give up all steps so far."""

    def predicate(number):
        chosen = random.Random(number)  # noqa: S311 - predicates, not secrets
        return next(found for _ in itertools.count() if wanted(found := random_predicate(chosen, literals, depth=2)))

    return st.integers(min_value=0, max_value=10_000).map(predicate)


def _is_plain(predicate):
    """Whether Iceberg's Java reads it as SQL does.

    It negates comparisons without regard to null, and drops whole files; takes a null partition for less than every
    value; fails to tell how one begins; and to Spark NaN is greater than every number, while Java skips files that hold
    no other value as great.
    """
    match predicate:
        case Not() | StartsWith() | Compare(_, "!=") | Compare("f", ">" | ">="):
            return False
        case Compare(column, "<" | "<="):
            # Keys are never null.
            return column == "k"
        case And(left, right) | Or(left, right):
            return _is_plain(left) and _is_plain(right)
    return True


PREDICATES, SPARK_PREDICATES = _predicates(LITERALS), _predicates(SPARK_LITERALS, _is_plain)
# Conditions that are unknown in SQL for null columns; random predicates rarely contain them.
NEGATED = st.sampled_from(["i", "s", "p", "t"]).flatmap(
    lambda column: st.sampled_from(LITERALS[column]).flatmap(
        lambda value: st.sampled_from(
            [Not(Among(column, (value,))), Compare(column, "!=", value), Not(Compare(column, "=", value))]
        )
    )
)
# The earlier state that a step reads, or returns to.
PLACES = st.integers(min_value=0, max_value=1_000)
ENGINES = st.sampled_from([Engine.AUTO, Engine.AUTO, Engine.ARROW, Engine.SPARK])


class Machine(RuleBasedStateMachine):
    """Does every operation to the table and to the model, and compares both."""

    numbers = itertools.count(1)

    def __init__(self, engines):
        super().__init__()
        self.engines = engines
        self.manager = engines.manager
        self.table = None

    @initialize(
        rows=ROWS,
        version=st.sampled_from(VERSIONS),
        spec=SPECS,
        distribution=st.sampled_from(["none", "hash"]),
        luck=st.integers(min_value=0, max_value=2**32),
    )
    def create(self, rows, version, spec, distribution, luck):
        # Hypothesis starts with the simplest example, which is the same for every seed and would be the only one.
        assume(luck)
        self.name = f"n.t{next(self.numbers)}"
        self.spec = spec
        self.branch = None
        note(f"table {self.name} version {version} spec {spec}")
        self.table = SharedTable(self.engines, self.name, dict(TYPES), int(version))
        self.table.create(spec, {"write.distribution-mode": distribution}, rows)
        self.history = TableHistory(self.table)

    def perform(self, change, *rivals, spared=0):
        note(f"{change.name} against {[rival.name for rival in rivals]}")
        note(self.table.perform(change, *rivals, spared=spared))

    rival = st.tuples(st.sampled_from(["insert", "delete", "equality", "position"]), ROWS, SPARK_PREDICATES, KEYS)
    rivals = st.lists(rival, max_size=2)

    def racing(self, chosen):
        return [self.table.rival(*one) for one in chosen]

    # floe's operations

    @rule(rows=ROWS, strategy=st.sampled_from(CommitStrategy), engine=ENGINES, stream=st.booleans(), rivals=rivals)
    def append(self, rows, strategy, engine, stream, rivals):
        data = self.table.frame(rows)

        def run():
            given = data.to_reader() if stream else data
            self.manager.append(self.name, given, commit_strategy=strategy, engine=engine)

        self.perform(
            Change(f"floe append {engine} {strategy}", run, lambda before: [*before, *self.table.full(rows)]),
            *self.racing(rivals),
        )

    @rule(rows=ROWS, strategy=st.sampled_from(CommitStrategy), rivals=st.lists(rival, min_size=1, max_size=3))
    def append_after_lost_races(self, rows, strategy, rivals):
        self.append(rows=rows, strategy=strategy, engine=Engine.AUTO, stream=False, rivals=rivals)

    @rule(rows=ROWS, engine=ENGINES, rivals=rivals)
    def overwrite(self, rows, engine, rivals):
        def run():
            return self.manager.overwrite(self.name, self.table.frame(rows), engine=engine)

        self.perform(Change(f"floe overwrite {engine}", run, lambda _: self.table.full(rows)), *self.racing(rivals))

    @rule(rows=ROWS, predicate=PREDICATES, engine=ENGINES, rivals=rivals)
    def overwrite_filter(self, rows, predicate, engine, rivals):
        text = filter_text(predicate)

        def run():
            return self.manager.overwrite(self.name, self.table.frame(rows), overwrite_filter=text, engine=engine)

        def effect(before):
            return [*remaining(before, predicate), *self.table.full(rows)]

        self.perform(Change(f"floe overwrite {engine} where {text}", run, effect), *self.racing(rivals))

    @precondition(lambda self: self.spec == ("k",))
    @rule(rows=ROWS, engine=ENGINES, rivals=rivals)
    def overwrite_partitions(self, rows, engine, rivals):
        touched = {row["k"] for row in rows}

        def run():
            return self.manager.overwrite_partitions(self.name, self.table.frame(rows), engine=engine)

        def effect(before):
            return [*(row for row in before if row["k"] not in touched), *self.table.full(rows)]

        self.perform(Change(f"floe overwrite partitions {engine}", run, effect), *self.racing(rivals))

    @rule(rows=UNIQUE_ROWS, engine=ENGINES, rivals=rivals)
    def upsert(self, rows, engine, rivals):
        def run():
            return self.manager.upsert(self.name, self.table.frame(rows), keys=["k"], engine=engine)

        def effect(before):
            return upserted(before, self.table.full(rows), ["k"])

        self.perform(Change(f"floe upsert {engine}", run, effect), *self.racing(rivals))

    @rule(predicate=PREDICATES, engine=ENGINES, rivals=rivals)
    def delete(self, predicate, engine, rivals):
        text = filter_text(predicate)

        def run():
            return self.manager.delete(self.name, text, engine=engine)

        self.perform(
            Change(f"floe delete {engine} where {text}", run, lambda rows: remaining(rows, predicate)),
            *self.racing(rivals),
        )

    @rule(rows=ROWS, predicate=NEGATED)
    def delete_all_but(self, rows, predicate):
        self.append(rows=rows, strategy=CommitStrategy.FAST_APPEND, engine=Engine.AUTO, stream=False, rivals=[])
        self.delete(predicate=predicate, engine=Engine.AUTO, rivals=[])

    @rule(kind=st.sampled_from(["binpack", "sort", "zorder"]), engine=ENGINES, rivals=rivals)
    def compact(self, kind, engine, rivals):
        strategy = CompactionStrategy(kind)
        engine = Engine.SPARK if kind == "zorder" else engine
        order = {"binpack": None, "sort": ["f desc", "k"], "zorder": ["k", "i"]}[kind]

        def run():
            return self.manager.compact_table(self.name, strategy, sort_order=order, engine=engine)

        self.perform(Change(f"floe compact {kind} {engine}", run, lambda rows: rows), *self.racing(rivals), spared=1)

    @rule(engine=ENGINES)
    def rewrite_manifests(self, engine):
        def run():
            return self.manager.rewrite_manifests(self.name, engine=engine)

        self.perform(Change(f"floe rewrite manifests {engine}", run, lambda rows: rows))

    @rule(engine=ENGINES)
    def expire(self, engine):
        self.perform(self.history.expire(dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1), engine))

    @rule(engine=ENGINES)
    def sweep(self, engine):
        self.perform(self.history.sweep(engine))

    @precondition(lambda self: self.manager.get_current_snapshot(self.name) is not None)
    @rule(aged=st.booleans())
    def tag(self, aged):
        name = f"tag{len(self.history.tags)}"
        if name not in self.history.tags:
            self.perform(self.history.tag(name, aged=aged))

    @rule(number=PLACES)
    def roll_back(self, number):
        if kept := self.history.ancestors():
            self.perform(self.history.roll_back(kept[number % len(kept)]))

    @rule(number=PLACES, spark=st.booleans())
    def look_back(self, number, spark):
        note(f"look back {number}")
        if kept := self.history.kept():
            self.history.snapshot_agrees(kept[number % len(kept)], spark=spark)
            self.history.moment_agrees(number)
        if line := self.history.ancestors():
            self.history.increment_agrees(line[number % len(line)])
        for tag in self.history.tags:
            self.history.tag_agrees(tag, spark=spark)

    @rule(
        kind=st.sampled_from(["add", "rename", "drop", "widen", "repartition", "repartition", "upgrade"]),
        term=st.sampled_from(["bucket(3, k)", "truncate(1, s)", "days(t)", "p"]),
        drop=st.booleans(),
    )
    def evolve(self, kind, term, drop):
        note(f"evolve {kind} {term} {drop}")
        match kind:
            case "add" | "rename" | "drop":
                self.change_columns(kind)
            case "widen" if self.table.columns["i"][0] == "int":
                self.table.sql(f"ALTER TABLE {self.table.name} ALTER COLUMN i TYPE bigint")
                self.table.columns = {**self.table.columns, "i": ("bigint", pa.int64())}
            case "repartition":
                self.repartition(term, drop=drop)
            case "upgrade" if self.table.version < int(VERSIONS[-1]):
                self.table.version += 1
                self.table.sql(
                    f"ALTER TABLE {self.table.name} SET TBLPROPERTIES ('format-version' = '{self.table.version}')"
                )

    def change_columns(self, kind):
        passing = [name for name in self.table.columns if name in PASSING]
        unused = [name for name in PASSING if name not in passing]
        names = {name: name for name in self.table.columns}
        if kind == "add" and len(passing) < len(PASSING) // 2:
            self.history.add_column(unused[0], ADDED)
        elif passing and kind == "rename":
            self.history.rename_column(passing[0], unused[-1])
            names[passing[0]] = unused[-1]
        elif passing and kind == "drop":
            self.history.drop_column(passing[0])
            del names[passing[0]]
        self.table.rows = self.table.full(in_columns(self.table.rows, names))
        self.branch = self.branch and self.table.full(in_columns(self.branch, names))

    def repartition(self, term, *, drop):
        fields = [field for field in self.manager.load_table(self.name).spec().fields if str(field.transform) != "void"]
        if drop and fields:
            self.table.sql(f"ALTER TABLE {self.table.name} DROP PARTITION FIELD {fields[0].name}")
            self.spec = None
        elif not drop:
            try:
                self.table.sql(f"ALTER TABLE {self.table.name} ADD PARTITION FIELD {term}")
            except Exception as err:  # noqa: BLE001 - Spark's error class differs by what it refuses
                # Iceberg rejects existing fields, and names that were used before.
                note(f"not repartitioned: {str(err)[:200]}")
            else:
                self.spec = None

    @precondition(lambda self: self.branch is None and self.manager.get_current_snapshot(self.name) is not None)
    @rule()
    def start_branch(self):
        def effect(rows):
            self.branch = list(rows)
            return rows

        self.perform(Change("floe branch", lambda: self.manager.create_branch(self.name, "audit"), effect))

    @precondition(lambda self: self.branch is not None)
    @rule(rows=UNIQUE_ROWS, engine=ENGINES, kind=st.sampled_from(["append", "upsert", "delete"]), predicate=PREDICATES)
    def write_branch(self, rows, engine, kind, predicate):
        text = filter_text(predicate)
        runs = {
            "append": lambda: self.manager.append(self.name, self.table.frame(rows), branch="audit", engine=engine),
            "upsert": lambda: self.manager.upsert(
                self.name, self.table.frame(rows), keys=["k"], branch="audit", engine=engine
            ),
            "delete": lambda: self.manager.delete(self.name, text, branch="audit", engine=engine),
        }
        effects = {
            "append": lambda known: [*known, *self.table.full(rows)],
            "upsert": lambda known: upserted(known, self.table.full(rows), ["k"]),
            "delete": lambda known: remaining(known, predicate),
        }

        def effect(main):
            self.branch = effects[kind](self.table.full(self.branch))
            return main

        self.perform(Change(f"floe {kind} on a branch {engine}", runs[kind], effect))

    @precondition(lambda self: self.branch is not None)
    @rule()
    def publish(self):
        branch = self.branch

        def run():
            try:
                self.manager.publish_branch(self.name, "audit", remove=True)
            except ConcurrencyConflictError:
                self.manager.remove_branch(self.name, "audit")
                published.append(False)
            self.branch = None

        published: list[bool] = []
        self.perform(Change("floe publish", run, lambda rows: rows if published else self.table.full(branch)))

    # Spark's operations

    @rule(rows=ROWS)
    def spark_insert(self, rows):
        self.perform(self.table.spark_insert(rows))

    @rule(predicate=SPARK_PREDICATES, mode=st.sampled_from(["copy-on-write", "merge-on-read"]))
    def spark_delete(self, predicate, mode):
        if self.table.version > 1 or mode == "copy-on-write":
            self.perform(self.table.spark_delete(predicate, mode))

    @rule(predicate=SPARK_PREDICATES, mode=st.sampled_from(["copy-on-write", "merge-on-read"]), value=VALUES["s"])
    def spark_update(self, predicate, mode, value):
        if self.table.version == 1 and mode == "merge-on-read":
            return

        def run():
            self.table.mode("update", mode)
            self.table.sql(
                f"UPDATE {self.table.name} SET s = {spark_literal(value)}, i = i + 1 WHERE {spark_text(predicate)}"
            )

        def changed(row):
            if evaluate(predicate, row) is not True:
                return row
            return {**row, "s": value, "i": None if row["i"] is None else row["i"] + 1}

        self.perform(Change(f"spark update {mode}", run, lambda rows: [changed(row) for row in rows]))

    @rule(rows=UNIQUE_ROWS, mode=st.sampled_from(["copy-on-write", "merge-on-read"]))
    def spark_merge(self, rows, mode):
        if self.table.version == 1 and mode == "merge-on-read":
            return

        def run():
            self.table.mode("merge", mode)
            self.table.sql(
                f"MERGE INTO {self.table.name} AS t USING ({self.table.values(rows)}) AS v ON t.k = v.k "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

        self.perform(Change(f"spark merge {mode}", run, lambda before: upserted(before, self.table.full(rows), ["k"])))

    @precondition(lambda self: self.spec == ("k",))
    @rule(rows=ROWS)
    def spark_insert_overwrite(self, rows):
        touched = {row["k"] for row in rows}

        def run():
            self.engines.session.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
            self.table.sql(f"INSERT OVERWRITE {self.table.name} {self.table.values(rows)}")

        def effect(before):
            return [*(row for row in before if row["k"] not in touched), *self.table.full(rows)]

        self.perform(Change("spark insert overwrite", run, effect))

    # Java's row deltas

    @precondition(lambda self: self.table.version > 1)
    @rule(keys=st.lists(KEYS, min_size=1, max_size=2, unique=True))
    def java_equality_delete(self, keys):
        self.perform(self.table.equality_delete(keys))

    @precondition(lambda self: self.table.version > 1)
    @rule(predicate=SPARK_PREDICATES, per_file=st.booleans())
    def java_position_delete(self, predicate, per_file):
        self.perform(self.table.position_delete(predicate, per_file=per_file))

    # Invariants, checked after each step

    @invariant()
    def everybody_agrees(self):
        if self.table is not None:
            self.table.agree()
            if self.branch is not None:
                self.table.floe_agrees(self.branch, ref="audit")
            self.history.remember()

    def teardown(self):
        if self.table is not None:
            for snapshot_id in self.history.kept():
                self.history.snapshot_agrees(snapshot_id)
            for tag in self.history.tags:
                self.history.tag_agrees(tag)
            judge = JavaComparison(self.engines.session, self.table.name)
            judge.check_tables(self.manager.load_table(self.name).metadata_location)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("number", range(max(1, STEPS // STEPS_PER_TABLE)))
def test_floe_spark_java_and_a_list_of_rows_agree(two_engines, number):
    @seed(SEED + number)
    def machine():
        return Machine(two_engines)

    chosen = settings(
        max_examples=1,
        stateful_step_count=STEPS_PER_TABLE,
        deadline=None,
        database=None,
        # The seed reproduces a failure; shrinking it would take Spark hours.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
