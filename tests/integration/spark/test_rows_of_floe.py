"""Rows and partitions written in process and read by Spark, and files in other formats."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError
from floe_iceberg import CommitStrategy, IcebergTableManager
from floe_iceberg.formats.partitioning import record_key
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark


@pytest.fixture
def manager(spark_tables):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("ns")
    return manager


def collected(spark_tables, query):
    return [tuple(row) for row in spark_tables.plane.session.sql(query).collect()]


def test_spark_reads_nested_rows_odd_names_and_long_texts(manager, spark_tables):
    inner = pa.struct([("a b", pa.int32()), ("l", pa.list_(pa.struct([("x-y", pa.string())])))])
    rows = pa.table(
        {
            "1st": [1, 2, 3],
            "a b": ["x" * 5000, None, "p/q"],
            "s.t": pa.array([{"a b": 1, "l": [{"x-y": "v"}, None]}, None, {"a b": None, "l": None}], inner),
            "ls": pa.array([None, [], [{"a b": 5, "l": []}]], pa.list_(inner)),
            "ms": pa.array([None, [], [("k", {"a b": 6, "l": None})]], pa.map_(pa.string(), inner)),
        }
    )
    manager.create_table(
        "ns.t", rows.schema, partition_spec=["truncate(3, a b)", "bucket(4, 1st)"], sort_order=["1st desc"]
    )
    manager.append("ns.t", rows.slice(0, 1))
    manager.append("ns.t", rows.slice(1), commit_strategy=CommitStrategy.MERGE)
    manager.upsert("ns.t", rows.slice(2), keys=["1st"])
    manager.compact_table("ns.t", "sort")
    found = spark_tables.plane.session.table("floe.ns.t").orderBy("`1st`").collect()
    assert [row["1st"] for row in found] == [1, 2, 3]
    assert [row["a b"] for row in found] == ["x" * 5000, None, "p/q"]
    assert [row["ls"] is None for row in found] == [True, False, False]
    assert [row["ms"] is None for row in found] == [True, False, False]
    assert found[1]["ls"] == []
    assert found[1]["ms"] == {}
    assert found[0]["s.t"]["l"][0]["x-y"] == "v"
    assert found[2]["ms"]["k"]["a b"] == 6
    assert collected(spark_tables, "SELECT count(*) FROM floe.ns.t WHERE `a b` >= 'w'") == [(1,)]
    # The second engine changes the rows of the first, and the first reads the result.
    spark_tables.plane.session.sql("DELETE FROM floe.ns.t WHERE `1st` = 1")
    assert manager.scan("ns.t", columns=["1st"]).sort_by("1st")["1st"].to_pylist() == [2, 3]
    assert_audited(manager, "ns.t")


VALUES = {
    "u": pa.array([uuid.UUID(int=7).bytes, uuid.UUID(int=2**127).bytes, None, uuid.UUID(int=7).bytes], pa.uuid()),
    "d": pa.array([0.1, -0.0, 0.0, math.nan]),
    "n": pa.array([Decimal("-1.25"), Decimal("9" * 36 + ".99"), None, Decimal("0.00")], pa.decimal128(38, 2)),
    "t": pa.array([-1, -62_167_219_200_000_001, 253_402_300_800_000_000, None], pa.timestamp("us", tz="UTC")),
    "day": pa.array([-1, -719_529, 2_932_897, 0], pa.date32()),
    "b": pa.array([b"\xff" * 20, b"", None, b"a"]),
    "i": pa.array([-1, 8 - 2**31, 2**31 - 1, None], pa.int32()),
    "s": pa.array(["🧊é", "", None, "a b/c"]),
}
TRANSFORMS = {
    "u": ["{}", "bucket(5, {})"],
    "d": ["{}"],
    "n": ["{}", "bucket(5, {})", "truncate(10, {})"],
    "t": ["{}", "bucket(5, {})", "year({})", "month({})", "day({})", "hour({})"],
    "day": ["{}", "bucket(5, {})", "year({})", "month({})", "day({})"],
    "b": ["{}", "bucket(5, {})", "truncate(2, {})"],
    "i": ["{}", "bucket(5, {})", "truncate(10, {})"],
    "s": ["{}", "bucket(5, {})", "truncate(1, {})"],
}


def partitions(manager, table):
    files = [task.file for task in manager.load_table(table).scan().plan_files()]
    return sorted((repr(record_key(file.partition)), file.record_count) for file in files)


def test_spark_puts_each_row_into_the_partition_that_floe_does(manager, spark_tables):
    """One table for each number of terms: the first transforms of all columns, the second ones, and so on."""
    rows = pa.table({"row": [1, 2, 3, 4], **VALUES})
    session = spark_tables.plane.session
    for number in range(max(map(len, TRANSFORMS.values()))):
        chosen = {column: terms[number] for column, terms in TRANSFORMS.items() if len(terms) > number}
        ours, theirs = f"ns.ours{number}", f"ns.theirs{number}"
        terms = [term.format(column) for column, term in chosen.items()]
        for name in (ours, theirs):
            manager.create_table(name, rows.schema, partition_spec=terms)
        manager.append(ours, rows)
        session.sql(f"INSERT INTO floe.{theirs} SELECT * FROM floe.{ours}")
        assert partitions(manager, ours) == partitions(manager, theirs), terms
        manager.overwrite_partitions(ours, rows)
        manager.overwrite_partitions(theirs, rows)
        assert manager.scan(ours).num_rows == manager.scan(theirs).num_rows == 4, terms
        session.table(f"floe.{ours}").writeTo(f"floe.{theirs}").overwritePartitions()
        assert collected(spark_tables, f"SELECT row FROM floe.{theirs} ORDER BY row") == [(1,), (2,), (3,), (4,)]
        assert_audited(manager, ours)


@pytest.mark.parametrize("kind", ["orc", "avro"])
def test_files_of_other_formats_are_read_or_refused_before_anything_is_written(manager, spark_tables, kind):
    session = spark_tables.plane.session
    session.sql(
        "CREATE TABLE floe.ns.t (id BIGINT, s STRING, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, INT>, f DOUBLE) "
        f"USING iceberg TBLPROPERTIES ('write.format.default'='{kind}')"
    )
    session.sql(
        "INSERT INTO floe.ns.t VALUES (1, 'a', NULL, map('k', 1), double('NaN')), (2, NULL, array(), NULL, 0.5)"
    )
    session.sql("ALTER TABLE floe.ns.t SET TBLPROPERTIES ('write.format.default'='parquet')")
    before = manager.load_table("ns.t").metadata.current_snapshot_id
    changes = {
        "upsert": lambda: manager.upsert("ns.t", pa.table({"id": [2], "s": ["b"]}), keys=["id"]),
        "delete": lambda: manager.delete("ns.t", "id = 1"),
        "compact": lambda: manager.compact_table("ns.t", "sort", sort_order=["id"]),
        "overwrite": lambda: manager.overwrite("ns.t", pa.table({"id": [9]}), overwrite_filter="s = 'a'"),
    }
    if kind == "avro":
        with pytest.raises(CapabilityError, match="AVRO"):
            manager.scan("ns.t")
        for change in changes.values():
            with pytest.raises(CapabilityError, match="AVRO"):
                change()
        assert manager.load_table("ns.t").metadata.current_snapshot_id == before
        assert not list(spark_tables.root.glob("warehouse/**/*.parquet"))
        assert manager.append("ns.t", pa.table({"id": [3]})).snapshot_id != before
        assert collected(spark_tables, "SELECT id FROM floe.ns.t ORDER BY id") == [(1,), (2,), (3,)]
        return
    found = manager.scan("ns.t").sort_by("id").to_pylist()
    assert [(row["id"], row["s"], row["l"], row["m"]) for row in found] == [
        (1, "a", None, [("k", 1)]),
        (2, None, [], None),
    ]
    for change in changes.values():
        change()
    assert collected(spark_tables, "SELECT id, s, l, m FROM floe.ns.t ORDER BY id") == [
        (2, "b", [], None),
        (9, None, None, None),
    ]
    assert_audited(manager, "ns.t")
