"""Random operations on a table, compared with a model in Python."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import CommitStrategy, IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_testing.audit import assert_audited

KEYS = st.integers(min_value=0, max_value=9)
VALUES = st.one_of(st.none(), st.integers(min_value=-5, max_value=5))
ROWS = st.lists(st.tuples(KEYS, VALUES), max_size=6)
UNIQUE_ROWS = st.lists(st.tuples(KEYS, VALUES), max_size=6, unique_by=lambda row: row[0])
SPECS = st.sampled_from([None, ["k"], ["bucket(3, k)"], ["truncate(4, v)"]])


@dataclass
class Model:
    """What the table should hold."""

    columns: list[str] = field(default_factory=lambda: ["k", "v"])
    rows: list[dict] = field(default_factory=list)

    def with_rows(self, rows):
        return Model(list(self.columns), [{**dict.fromkeys(self.columns), **row} for row in rows])


class Tables(RuleBasedStateMachine):
    """Every operation is done to the table and to the model; then both are compared."""

    versions = Bundle("versions")

    @initialize(spec=SPECS)
    def create(self, spec):
        self.root = Path(tempfile.mkdtemp(prefix="floe-machine-"))
        self.catalog = SqlCatalog("m", uri=f"sqlite:///{self.root}/c.db", warehouse=f"file://{self.root}/w")
        self.catalog.create_namespace("n")
        self.manager = IcebergTableManager(self.catalog)
        schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
        self.manager.create_table("n.t", schema, partition_spec=spec)
        self.partitioned_by_key = spec == ["k"]
        self.model = Model()
        self.seen = {}

    def teardown(self):
        # A single audit at the end covers all snapshots.
        assert_audited(self.manager, "n.t")
        self.catalog.close()
        shutil.rmtree(self.root)

    def data(self, rows):
        return pa.table(
            {"k": pa.array([row[0] for row in rows], pa.int64()), "v": pa.array([row[1] for row in rows], pa.int64())}
        )

    def dicts(self, rows):
        return [{"k": k, "v": v} for k, v in rows]

    def done(self, rows):
        self.model = self.model.with_rows(rows)
        snapshot = self.manager.get_current_snapshot("n.t")
        if snapshot is not None:
            self.seen[snapshot.snapshot_id] = self.model
            return snapshot.snapshot_id
        return None

    @rule(target=versions, rows=ROWS, strategy=st.sampled_from(CommitStrategy))
    def append(self, rows, strategy):
        self.manager.append("n.t", self.data(rows), commit_strategy=strategy)
        return self.done([*self.model.rows, *self.dicts(rows)])

    @rule(target=versions, rows=ROWS)
    def append_stream(self, rows):
        self.manager.append("n.t", self.data(rows).to_reader())
        return self.done([*self.model.rows, *self.dicts(rows)])

    @rule(target=versions, rows=ROWS)
    def overwrite(self, rows):
        self.manager.overwrite("n.t", self.data(rows))
        return self.done(self.dicts(rows))

    @rule(target=versions, rows=ROWS, limit=KEYS)
    def overwrite_where(self, rows, limit):
        self.manager.overwrite("n.t", self.data(rows), overwrite_filter=f"k >= {limit}")
        kept = [row for row in self.model.rows if row["k"] < limit]
        return self.done([*kept, *self.dicts(rows)])

    @precondition(lambda self: self.partitioned_by_key)
    @rule(target=versions, rows=ROWS)
    def overwrite_partitions(self, rows):
        self.manager.overwrite_partitions("n.t", self.data(rows))
        touched = {k for k, _ in rows}
        kept = [row for row in self.model.rows if row["k"] not in touched]
        return self.done([*kept, *self.dicts(rows)])

    @rule(target=versions, rows=UNIQUE_ROWS)
    def upsert(self, rows):
        self.manager.upsert("n.t", self.data(rows), keys=["k"])
        given = dict(rows)
        updated = [{**row, "v": given[row["k"]]} if row["k"] in given else row for row in self.model.rows]
        present = {row["k"] for row in self.model.rows}
        added = [row for row in self.dicts(rows) if row["k"] not in present]
        return self.done([*updated, *added])

    @rule(target=versions, limit=st.integers(min_value=-5, max_value=5))
    def delete(self, limit):
        self.manager.delete("n.t", f"v < {limit}")
        return self.done([row for row in self.model.rows if row["v"] is None or row["v"] >= limit])

    @precondition(lambda self: len(self.model.columns) < 5)
    @rule(target=versions)
    def evolve(self):
        name = f"c{len(self.model.columns)}"
        self.manager.evolve_schema("n.t", [SchemaChange(kind=SchemaChangeKind.ADD, column=name, type="string")])
        self.model = Model([*self.model.columns, name], self.model.rows)
        return self.done(self.model.rows)

    @precondition(lambda self: "c2" in self.model.columns)
    @rule(target=versions, rows=ROWS)
    def append_to_new_column(self, rows):
        data = self.data(rows).append_column("c2", pa.array(["x"] * len(rows), pa.string()))
        self.manager.append("n.t", data)
        return self.done([*self.model.rows, *({**row, "c2": "x"} for row in self.dicts(rows))])

    @rule(version=versions)
    def travel(self, version):
        if version is None or version not in self.seen:
            return
        then = self.seen[version]
        found = self.manager.scan("n.t", snapshot_id=version, columns=["k", "v"]).to_pylist()
        assert self.sorted(found) == self.sorted([{"k": row["k"], "v": row["v"]} for row in then.rows])

    @rule(target=versions, version=versions)
    def rollback(self, version):
        line = {snapshot.snapshot_id for snapshot in self.line()}
        if version is None or version not in line:
            return None
        self.manager.rollback("n.t", version)
        self.model = self.model.with_rows(self.seen[version].rows)
        return version

    def line(self):
        from floe_iceberg.read.versions import ref_history

        return ref_history(self.manager.load_table("n.t").metadata)

    @staticmethod
    def sorted(rows):
        return sorted(rows, key=lambda row: [(value is not None, str(value)) for _, value in sorted(row.items())])

    @invariant()
    def table_and_model_agree(self):
        if not hasattr(self, "manager"):
            return
        found = self.manager.scan("n.t").to_pylist()
        assert self.sorted(found) == self.sorted(
            [{**dict.fromkeys(self.model.columns), **row} for row in self.model.rows]
        )
        snapshot = self.manager.get_current_snapshot("n.t")
        if snapshot is not None:
            assert int(snapshot.summary["total-records"]) == len(found)


Tables.TestCase.settings = settings(
    max_examples=15,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestTables = pytest.mark.req("TM-05", "TM-06", "FR-018", "FR-019", "FR-021")(Tables.TestCase)
