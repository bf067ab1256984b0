"""Unusual, similar, empty or duplicate column names work on both engines, or are rejected before the write."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import FloeStorageError, InvalidDataError
from floe_iceberg import SchemaChange, SchemaChangeKind

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

ODD = ["a/b", "a%b", "a b", " a", "100% of it", "%2F", "x%20y"]
ENGINES = ["arrow", "spark"]


def alike(names):
    return pa.table([pa.array([1])] * len(names), names=names)


@pytest.mark.parametrize("engine", ENGINES)
def test_odd_names_mean_themselves_as_columns_and_partitions(two_engines, engine):
    manager = two_engines.manager
    for number, name in enumerate(ODD):
        table = f"n.odd_{engine}_{number}"
        rows = pa.table({name: ["k/1", "k%2"], "v": [1, 2]})
        manager.create_table(table, rows.schema, partition_spec=[name])
        manager.append(table, rows, engine=engine)
        manager.upsert(table, pa.table({name: ["k%2"], "v": [20]}), keys=[name], engine=engine)
        expected = {("k/1", 1), ("k%2", 20)}
        assert {(row[name], row["v"]) for row in manager.scan(table).to_pylist()} == expected
        assert {tuple(row) for row in manager.frame(table).collect()} == expected


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["id", "ID"], "differ only in case"),
        (["straße", "STRASSE"], "differ only in case"),
        (["id", "id"], "duplicate column names: id"),
        (["id", ""], "Column 2 of the data has no name"),
        (["id", "  "], "Column 2 of the data has no name"),
    ],
    ids=["case", "folded", "twice", "empty", "blank"],
)
def test_names_that_cannot_be_told_apart_are_refused_before_anything_is_made(two_engines, engine, names, told):
    manager = two_engines.manager
    with pytest.raises(InvalidDataError, match=told):
        manager.create_table("n.alike", alike(names).schema)
    assert not manager.table_exists("n.alike")
    existing = f"n.there_{engine}"
    if not manager.table_exists(existing):
        manager.create_table(existing, pa.schema([("id", pa.int64())]))
        manager.append(existing, pa.table({"id": [1]}), engine=engine)
    before = manager.get_current_snapshot(existing).snapshot_id
    with pytest.raises(FloeStorageError, match=told) as refused:
        manager.append(existing, alike(names), engine=engine)
    assert refused.value.exit_code == 1
    assert manager.get_current_snapshot(existing).snapshot_id == before
    assert manager.load_table(existing).schema().column_names == ["id"]


def test_a_column_is_not_added_or_renamed_beside_its_like(two_engines):
    manager = two_engines.manager
    manager.create_table("n.evolving", pa.schema([("id", pa.int64()), ("s", pa.struct([("x", pa.int64())]))]))
    add = SchemaChange(kind=SchemaChangeKind.ADD, column="Id", type="long")
    nested = SchemaChange(kind=SchemaChangeKind.ADD, column="s.X", type="long")
    rename = SchemaChange(kind=SchemaChangeKind.RENAME, column="s", new_name="ID")
    for change in (add, nested, rename):
        with pytest.raises(FloeStorageError, match="differ only in case"):
            manager.evolve_schema("n.evolving", [change], allow_incompatible_changes=True)
    assert manager.load_table("n.evolving").schema().column_names == ["id", "s.x", "s"]
