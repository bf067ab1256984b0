"""Nulls in required columns: columns become optional on every write path; nested fields do not."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from floe_core.errors import InvalidDataError
from floe_iceberg import Engine, IcebergTableManager, IcebergTableManagerConfig
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import files_of, open_catalog
from floe_testing.faults.races import losing_races

NAME = "bronze.t"
REQUIRED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "x", LongType(), required=True),
    NestedField(3, "y", StringType(), required=True),
)
NESTED = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(3, "s", StructType(NestedField(4, "a", LongType(), required=True)), required=False),
    NestedField(5, "l", ListType(6, LongType(), element_required=True), required=False),
    NestedField(7, "m", MapType(8, StringType(), 9, LongType(), value_required=True), required=False),
)
INNER = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.struct([("a", pa.int64())])),
        ("l", pa.list_(pa.int64())),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)


@pytest.fixture
def manager(tmp_path):
    catalog = open_catalog(tmp_path)
    # Minimal chunks, so that a stream of a few batches has several.
    yield IcebergTableManager(catalog, config=IcebergTableManagerConfig(stream_chunk_bytes=1024**2))
    catalog.close()


DOORS = {
    "append": lambda m, rows, **options: m.append(NAME, rows, **options),
    "append of a stream": lambda m, rows, **options: m.append(NAME, rows.to_reader(), **options),
    "overwrite": lambda m, rows, **options: m.overwrite(NAME, rows, **options),
    "overwrite by a stream": lambda m, rows, **options: m.overwrite(NAME, rows.to_reader(), **options),
    "overwrite by filter": lambda m, rows, **options: m.overwrite(NAME, rows, overwrite_filter="id = 2", **options),
    "upsert": lambda m, rows, **options: m.upsert(NAME, rows, keys=["id"], **options),
}


def rows(*values):
    columns = list(zip(*values, strict=True))
    types = (pa.int64(), pa.int64(), pa.string())
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], ["id", "x", "y"])


def required(manager):
    return [field.name for field in manager.load_table(NAME).schema().fields if field.required]


@pytest.mark.req("RD-03", "FR-020")
@pytest.mark.parametrize("door", DOORS)
def test_a_required_column_that_gets_nulls_becomes_optional(manager, door):
    manager.create_table(NAME, REQUIRED)
    manager.append(NAME, rows((1, 1, "a")))
    DOORS[door](manager, rows((2, None, "b")))
    assert required(manager) == ["id", "y"]
    assert {row["id"]: row["x"] for row in manager.scan(NAME).to_pylist()}[2] is None
    assert len(manager.list_snapshots(NAME)) == 2
    assert_audited(manager.load_table(NAME))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("options", [{"evolve_schema": False}, {"keep_required": ["x"]}], ids=["strict", "kept"])
def test_a_column_that_may_not_change_refuses_nulls(manager, door, options):
    manager.create_table(NAME, REQUIRED)
    manager.append(NAME, rows((1, 1, "a")))
    files = files_of(manager.load_table(NAME), ".parquet")
    with pytest.raises(InvalidDataError, match="'x' is required but contains 1 nulls"):
        DOORS[door](manager, rows((2, None, "b")), **options)
    assert required(manager) == ["id", "x", "y"]
    assert files_of(manager.load_table(NAME), ".parquet") == files


def chunks(*parts):
    """A stream whose parts are chunks of their own, by the size of their text."""
    tables = [rows(*part) for part in parts]
    return pa.RecordBatchReader.from_batches(tables[0].schema, [table.to_batches()[0] for table in tables])


def test_nulls_late_in_a_stream_change_the_files_from_there_on(manager):
    long = "t" * 1024**2
    manager.create_table(NAME, REQUIRED)
    stream = chunks([(1, 1, long)], [(2, None, long)], [(3, 3, long)], [(4, 4, None)], [(5, None, None)])
    manager.append(NAME, stream)
    assert required(manager) == ["id"]
    found = sorted((row["id"], row["x"], row["y"] is None) for row in manager.scan(NAME).to_pylist())
    assert found == [(1, 1, False), (2, None, False), (3, 3, False), (4, 4, True), (5, None, True)]
    assert len(manager.list_snapshots(NAME)) == 1
    table = manager.load_table(NAME)
    nullable = [[field.nullable for field in pq.read_schema(path)] for path in files_of(table, ".parquet")]
    assert sorted(nullable) == [[False, False, False], [False, True, False], [False, True, True]]
    assert_audited(table)


def test_a_stream_that_lost_a_race_keeps_what_it_learned(manager, tmp_path):
    manager.create_table(NAME, REQUIRED)
    manager.append(NAME, rows((1, 1, "a")))
    other = open_catalog(tmp_path)
    rival = IcebergTableManager(other)
    with losing_races(manager.catalog.inner.engine, lambda: rival.append(NAME, rows((9, 9, "z")))) as waiting:
        manager.append(NAME, rows((2, None, "b")).to_reader())
    assert not waiting
    other.close()
    assert sorted(manager.scan(NAME)["id"].to_pylist()) == [1, 2, 9]
    assert required(manager) == ["id", "y"]


def test_a_stream_that_fails_after_it_brought_nulls_leaves_nothing(manager):
    def batches():
        yield rows((1, 1, "t" * 1024**2)).to_batches()[0]
        yield rows((2, None, "t" * 1024**2)).to_batches()[0]
        msg = "the source went away"
        raise RuntimeError(msg)

    manager.create_table(NAME, REQUIRED)
    with pytest.raises(RuntimeError, match="went away"):
        manager.append(NAME, pa.RecordBatchReader.from_batches(rows((1, 1, "a")).schema, batches()))
    table = manager.load_table(NAME)
    assert table.current_snapshot() is None
    assert required(manager) == ["id", "x", "y"]
    assert not files_of(table, ".parquet")


GOOD = {"id": 1, "s": {"a": 1}, "l": [1], "m": [("k", 1)]}
INSIDE = {
    "field of a struct": {**GOOD, "id": 2, "s": {"a": None}},
    "element of a list": {**GOOD, "id": 2, "l": [1, None]},
    "value of a map": {**GOOD, "id": 2, "m": [("k", None)]},
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("place", INSIDE)
def test_null_for_something_required_inside_is_refused_at_every_door(manager, place, door):
    manager.create_table(NAME, NESTED)
    before = manager.append(NAME, pa.Table.from_pylist([GOOD], INNER))
    with pytest.raises(InvalidDataError, match="null"):
        DOORS[door](manager, pa.Table.from_pylist([INSIDE[place]], INNER))
    assert manager.get_current_snapshot(NAME).snapshot_id == before.snapshot_id


@pytest.fixture
def spark_manager(spark_tables):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    return manager


SPARK_DOORS = {
    "append": lambda m, rows: m.append(NAME, rows, engine=Engine.SPARK),
    "append of a stream": lambda m, rows: m.append(NAME, rows.to_reader(), engine=Engine.SPARK),
    "append of a frame": lambda m, rows: m.append(NAME, m.spark.createDataFrame(rows)),
    "upsert of a frame": lambda m, rows: m.upsert(NAME, m.spark.createDataFrame(rows), keys=["id"]),
}


@pytest.mark.live
@pytest.mark.spark
@pytest.mark.parametrize("door", SPARK_DOORS)
def test_nulls_are_taken_alike_on_spark(spark_manager, door):
    spark_manager.create_table(NAME, REQUIRED)
    SPARK_DOORS[door](spark_manager, rows((1, 1, "a"), (2, None, "b")))
    assert required(spark_manager) == ["id", "y"]
    assert sorted(spark_manager.scan(NAME)["id"].to_pylist()) == [1, 2]
    if door == "append of a frame":
        spark_manager.append(NAME, spark_manager.spark.sql("SELECT 3L AS id, 3L AS x, NULL AS y"))
        assert required(spark_manager) == ["id"]
    spark_manager.drop_table(NAME)
    spark_manager.create_table(NAME, NESTED)
    for place in INSIDE.values():
        with pytest.raises(InvalidDataError):
            SPARK_DOORS[door](spark_manager, pa.Table.from_pylist([place], INNER))
    assert spark_manager.scan(NAME).num_rows == 0
