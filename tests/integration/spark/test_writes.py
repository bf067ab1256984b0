"""Effects of each kind of write on existing rows and on the table's history."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType

from floe_core.dataplane import OPERATION_ID_PROPERTY, WriteKind, WriteRequest
from floe_core.errors import CapabilityError, EngineError, InvalidDataError, TableNotFoundError
from floe_iceberg import Engine, IcebergTableManager

pytestmark = pytest.mark.spark

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])


def rows(*pairs):
    return pa.table({"id": [p[0] for p in pairs], "name": [p[1] for p in pairs]}, schema=ROWS)


def operations(tables, name):
    return [
        s.summary.additional_properties.get(OPERATION_ID_PROPERTY) for s in tables.catalog.load_table(name).snapshots()
    ]


def as_pairs(found):
    return [(row["id"], row["name"]) for row in found]


@pytest.mark.req("FR-018", "TM-04")
@pytest.mark.parametrize("shape", ["table", "batch", "reader", "frame"])
def test_an_append_adds_rows_and_carries_its_properties(spark_tables, shape):
    spark_tables.create("ns.t", ROWS)
    data = {
        "table": lambda: rows((1, "a"), (2, None)),
        "batch": lambda: rows((1, "a"), (2, None)).to_batches()[0],
        "reader": lambda: rows((1, "a"), (2, None)).to_reader(),
        "frame": lambda: spark_tables.plane.session.createDataFrame([(1, "a"), (2, None)], "id bigint, name string"),
    }[shape]()
    properties = {OPERATION_ID_PROPERTY: "op-1", "lineage.run": "r 7"}
    spark_tables.plane.write(WriteRequest("ns.t", WriteKind.APPEND, data=data, snapshot_properties=properties))
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (2, None)]
    summary = spark_tables.catalog.load_table("ns.t").current_snapshot().summary.additional_properties
    assert (summary[OPERATION_ID_PROPERTY], summary["lineage.run"]) == ("op-1", "r 7")


@pytest.mark.req("FR-019")
def test_an_overwrite_replaces_every_row_in_one_snapshot(spark_tables):
    spark_tables.create("ns.t", ROWS).append(rows((1, "old"), (2, "old")))
    spark_tables.write(WriteKind.OVERWRITE, "ns.t", rows((3, "new")), operation="op")
    assert as_pairs(spark_tables.read("ns.t")) == [(3, "new")]
    assert operations(spark_tables, "ns.t") == [None, "op"]


@pytest.mark.req("FR-019", "TM-05")
def test_an_overwrite_by_partition_filter_is_one_snapshot(spark_tables):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"))
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
    spark_tables.create("ns.t", schema, partition_spec=spec).append(rows((1, "a"), (2, "b")))
    spark_tables.write(WriteKind.OVERWRITE_FILTER, "ns.t", rows((9, "b")), row_filter="name = 'b'", operation="op")
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (9, "b")]
    assert operations(spark_tables, "ns.t") == [None, "op"]


@pytest.mark.req("TM-05")
def test_an_overwrite_of_parts_of_files_needs_a_branch(spark_tables):
    table = spark_tables.create("ns.t", ROWS)
    table.append(rows((1, "a"), (2, "b"), (3, "c")))
    with pytest.raises(CapabilityError, match="branch"):
        spark_tables.write(WriteKind.OVERWRITE_FILTER, "ns.t", rows((9, "z")), row_filter="id >= 2")
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (2, "b"), (3, "c")]
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "work").commit()
    spark_tables.write(
        WriteKind.OVERWRITE_FILTER, "ns.t", rows((9, "z")), row_filter="id >= 2", branch="work", operation="op"
    )
    assert as_pairs(spark_tables.read("ns.t", ref="work")) == [(1, "a"), (9, "z")]
    assert operations(spark_tables, "ns.t")[-1] == "op"
    assert len(spark_tables.read("ns.t")) == 3


@pytest.mark.req("FR-019", "TM-05", "FR-013")
def test_dynamic_partitions_replace_only_the_partitions_of_the_data(spark_tables):
    schema = Schema(NestedField(1, "at", TimestampType()), NestedField(2, "name", StringType()))
    spec = PartitionSpec(PartitionField(1, 1000, DayTransform(), "day"))
    spark_tables.create("ns.t", schema, partition_spec=spec)
    session = spark_tables.plane.session

    def frame(*days):
        text = ", ".join(f"(TIMESTAMP_NTZ '2024-01-{day:02} 10:00:00', '{name}')" for day, name in days)
        return session.sql(f"SELECT * FROM VALUES {text} AS t(at, name)")

    spark_tables.write(WriteKind.APPEND, "ns.t", frame((1, "old"), (2, "old")))
    spark_tables.write(WriteKind.OVERWRITE_PARTITIONS, "ns.t", frame((2, "new")), operation="op")
    assert sorted((row["at"].day, row["name"]) for row in spark_tables.read("ns.t")) == [(1, "old"), (2, "new")]


@pytest.mark.req("TM-06")
@pytest.mark.parametrize("shape", ["arrow", "frame"])
def test_an_upsert_updates_what_it_finds_and_inserts_the_rest(spark_tables, shape):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a"), (2, "b"), (None, "n")))
    data = rows((2, "B"), (3, "c"))
    if shape == "frame":
        data = spark_tables.plane.session.createDataFrame([(2, "B"), (3, "c")], "id bigint, name string")
    spark_tables.write(WriteKind.UPSERT, "ns.t", data, keys=("id",), operation="op")
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (2, "B"), (3, "c"), (None, "n")]
    assert operations(spark_tables, "ns.t")[-1] == "op"


@pytest.mark.req("TM-06")
def test_an_upsert_leaves_columns_it_does_not_bring(spark_tables):
    schema = pa.schema([*ROWS, pa.field("note", pa.string())])
    spark_tables.create("ns.t", schema).append(pa.table({"id": [1], "name": ["a"], "note": ["keep"]}, schema=schema))
    spark_tables.write(WriteKind.UPSERT, "ns.t", rows((1, "A"), (2, "b")), keys=("id",))
    assert spark_tables.read("ns.t") == [
        {"id": 1, "name": "A", "note": "keep"},
        {"id": 2, "name": "b", "note": None},
    ]


@pytest.mark.req("TM-06")
def test_an_upsert_from_the_same_table_reads_it_once(spark_tables):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a"), (2, "b")))
    source = spark_tables.plane.session.table("ns.t").selectExpr("id + 1 AS id", "upper(name) AS name")
    spark_tables.write(WriteKind.UPSERT, "ns.t", source, keys=("id",))
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (2, "A"), (3, "B")]


@pytest.mark.req("FR-019")
@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.OVERWRITE, WriteKind.OVERWRITE_PARTITIONS])
def test_a_table_can_be_written_from_itself(spark_tables, kind):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a"), (2, "b")))
    source = spark_tables.plane.session.table("ns.t").selectExpr("id + 10 AS id", "upper(name) AS name")
    spark_tables.write(kind, "ns.t", source)
    kept = [(1, "a"), (2, "b")] if kind is WriteKind.APPEND else []
    assert as_pairs(spark_tables.read("ns.t")) == sorted([*kept, (11, "A"), (12, "B")], key=repr)


@pytest.mark.req("TM-06")
@pytest.mark.parametrize("key", [1, 7], ids=["known", "new"])
def test_an_upsert_refuses_a_repeated_key(spark_tables, key):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a")))
    with pytest.raises(InvalidDataError, match="several rows with the same key, for example"):
        spark_tables.write(WriteKind.UPSERT, "ns.t", rows((key, "x"), (key, "y")), keys=("id",))
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a")]


def test_an_upsert_refuses_null_in_a_key(spark_tables):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a")))
    with pytest.raises(InvalidDataError, match=r"nulls in key columns: id \(2 rows\)"):
        spark_tables.write(WriteKind.UPSERT, "ns.t", rows((1, "b"), (None, "x"), (None, "x")), keys=("id",))
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a")]


def test_an_upsert_notes_the_rows_it_brought(spark_tables):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a"), (2, "b")))
    spark_tables.write(WriteKind.UPSERT, "ns.t", rows((2, "B"), (3, "C")), keys=("id",))
    summary = spark_tables.catalog.load_table("ns.t").current_snapshot().summary
    assert summary.additional_properties["floe.source-rows"] == "2"
    spark_tables.write(WriteKind.DELETE, "ns.t", row_filter="id = 1")
    summary = spark_tables.catalog.load_table("ns.t").current_snapshot().summary
    assert "floe.source-rows" not in summary.additional_properties


@pytest.mark.parametrize("keys", [(), ("nope",)])
def test_an_upsert_needs_keys_of_the_data(spark_tables, keys):
    spark_tables.create("ns.t", ROWS)
    with pytest.raises(InvalidDataError, match="key columns"):
        spark_tables.write(WriteKind.UPSERT, "ns.t", rows((1, "x")), keys=keys)


def test_a_delete_removes_the_rows_that_match(spark_tables):
    spark_tables.create("ns.t", ROWS).append(rows((1, "a"), (2, "b"), (3, None)))
    spark_tables.write(WriteKind.DELETE, "ns.t", row_filter="name = 'b'", operation="op")
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a"), (3, None)]
    assert operations(spark_tables, "ns.t")[-1] == "op"
    with pytest.raises(InvalidDataError, match="row filter"):
        spark_tables.write(WriteKind.DELETE, "ns.t")


@pytest.mark.parametrize("branch", ["audit", "floe.operation.0a1b.0", "a/b-c", "2024"])
@pytest.mark.parametrize("kind", [WriteKind.APPEND, WriteKind.UPSERT])
def test_a_write_to_a_branch_leaves_main(spark_tables, branch, kind):
    table = spark_tables.create("ns.t", ROWS)
    table.append(rows((1, "a")))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, branch).commit()
    spark_tables.write(kind, "ns.t", rows((2, "b")), branch=branch, keys=("id",) if kind is WriteKind.UPSERT else ())
    assert as_pairs(spark_tables.read("ns.t", ref=branch)) == [(1, "a"), (2, "b")]
    assert as_pairs(spark_tables.read("ns.t")) == [(1, "a")]


@pytest.mark.req("FR-020")
def test_absent_optional_columns_become_null(spark_tables):
    spark_tables.create("ns.t", ROWS)
    spark_tables.write(WriteKind.APPEND, "ns.t", pa.table({"id": pa.array([1], pa.int64())}))
    assert as_pairs(spark_tables.read("ns.t")) == [(1, None)]


@pytest.mark.parametrize(
    "data",
    [
        pa.table({"name": ["a"]}),
        pa.table({"id": pa.array([None], pa.int64())}),
        pa.table({"id": [1], "unknown": [2]}),
        pa.table({"id": ["not a number"]}),
        pa.table({"id": pa.array([2**63], pa.uint64())}),
        "text",
    ],
    ids=["absent", "null", "unknown", "type", "overflow", "no table at all"],
)
def test_data_that_does_not_fit_is_refused_and_the_table_stays(spark_tables, data):
    required = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "name", StringType()))
    spark_tables.create("ns.t", required)
    with pytest.raises(InvalidDataError):
        spark_tables.write(WriteKind.APPEND, "ns.t", data)
    assert spark_tables.catalog.load_table("ns.t").current_snapshot() is None


def test_odd_names_are_ordinary_names(spark_tables):
    names = ["Upper", "upper", "two words", "dot.ted", "ü—日本", "`tick`", "it's", "1st"]
    schema = pa.schema([pa.field(name, pa.int64()) for name in names])
    spark_tables.create("a.b.c.odd-table", schema)
    data = pa.table({name: pa.array([number, number + 10]) for number, name in enumerate(names)})
    spark_tables.write(WriteKind.APPEND, "a.b.c.odd-table", data)
    changed = data.slice(0, 1).set_column(0, "Upper", pa.array([99]))
    spark_tables.write(WriteKind.UPSERT, "a.b.c.odd-table", changed, keys=("dot.ted", "`tick`"))
    found = spark_tables.catalog.load_table("a.b.c.odd-table").scan().to_arrow().sort_by("upper")
    assert found.column("Upper").to_pylist() == [99, 10]
    assert found.select(names[1:]).to_pylist() == data.select(names[1:]).to_pylist()


def test_a_missing_table_is_named(spark_tables):
    with pytest.raises(TableNotFoundError, match=r"nowhere\.t"):
        spark_tables.write(WriteKind.APPEND, "nowhere.t", rows((1, "a")))


@pytest.mark.req("TM-14")
def test_concurrent_writes_keep_their_own_operation_ids(spark_tables):
    table = spark_tables.create("ns.t", ROWS)
    table.append(rows((0, "start")))
    head = table.current_snapshot().snapshot_id
    for number in range(4):
        table.manage_snapshots().create_branch(head, f"b{number}").commit()
    failures = []

    def upsert(number):
        try:
            data = rows((number + 1, "x"))
            spark_tables.write(
                WriteKind.UPSERT, "ns.t", data, keys=("id",), branch=f"b{number}", operation=f"op-{number}"
            )
        except Exception as err:  # noqa: BLE001 - reported below
            failures.append(err)

    threads = [threading.Thread(target=upsert, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    metadata = spark_tables.catalog.load_table("ns.t").metadata
    for number in range(4):
        head = metadata.snapshot_by_id(metadata.refs[f"b{number}"].snapshot_id)
        assert head.summary.additional_properties[OPERATION_ID_PROPERTY] == f"op-{number}"


def test_an_operation_id_can_be_used_again(spark_tables):
    spark_tables.create("ns.t", ROWS)
    for number in range(3):
        spark_tables.write(WriteKind.APPEND, "ns.t", rows((number, "x")), operation="same")
        spark_tables.plane.await_quiet("same")
    assert operations(spark_tables, "ns.t") == ["same"] * 3


def test_a_stream_that_loses_a_race_is_written_whole_the_second_time(spark_tables, monkeypatch):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("races")
    manager.create_table("races.streams", pa.schema([("id", pa.int64()), ("amount", pa.int64())]))
    manager.append("races.streams", pa.table({"id": [1], "amount": [1]}))
    write, raced = spark_tables.plane.write, []

    def slow(request):
        write(request)
        if not raced:
            raced.append(manager.append("races.streams", pa.table({"id": [9], "amount": [9]})))

    monkeypatch.setattr(spark_tables.plane, "write", slow)
    stream = pa.table({"id": [1, 2], "amount": [10, 20]}).to_reader()
    manager.upsert("races.streams", stream, keys=["id"], engine=Engine.SPARK)
    found = manager.scan("races.streams").to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(1, 10), (2, 20), (9, 9)]


def test_binary_of_a_frame_goes_into_a_fixed_column_if_each_value_has_its_length(spark_tables):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("ns")
    manager.create_table("ns.codes", pa.schema([("id", pa.int64()), ("code", pa.binary(2))]))
    manager.append("ns.codes", pa.table({"id": [1], "code": pa.array([b"ab"], pa.binary(2))}))
    manager.upsert("ns.codes", manager.frame("ns.codes").selectExpr("id + 1 as id", "code"), keys=["id"])
    assert [row["code"] for row in manager.scan("ns.codes").to_pylist()] == [b"ab", b"ab"]
    with pytest.raises(EngineError, match="length"):
        manager.append("ns.codes", spark_tables.plane.session.sql("select 3L as id, X'616263' as code"))
    assert manager.scan("ns.codes").num_rows == 2
