"""Writes in process: inputs, files, metrics and file sizes."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from sqlalchemy.exc import OperationalError

from floe_core.errors import CapabilityError, ConfigurationError, InvalidDataError, WriteError
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig, WriteMode


@pytest.fixture
def manager(tmp_path):
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    manager = IcebergTableManager(catalog, config=IcebergTableManagerConfig(stream_chunk_bytes=1024**2))
    manager.create_namespace("bronze")
    yield manager
    catalog.close()


@pytest.mark.req("FR-018")
@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "reader", "dicts", "batch"])
def test_every_kind_of_frame_is_written(manager, kind):
    table = pa.table({"id": [1, 2], "name": ["a", "b"]})
    frames = {
        "pandas": pd.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        "polars": pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        "lazy": pl.LazyFrame({"id": [1, 2], "name": ["a", "b"]}),
        "reader": table.to_reader(),
        "dicts": table.to_pylist(),
        "batch": table.to_batches()[0],
    }
    manager.create_table("bronze.t", table.schema)
    manager.append("bronze.t", frames[kind])
    assert manager.scan("bronze.t").to_pylist() == table.to_pylist()


def test_every_iceberg_type_survives(manager):
    rows = pa.table(
        {
            "b": [True, None],
            "i": pa.array([1, None], pa.int32()),
            "l": [2**62, None],
            "f": pa.array([1.5, math.nan], pa.float32()),
            "d": [-0.0, math.inf],
            "dec": pa.array([decimal.Decimal("1.23"), None], pa.decimal128(10, 2)),
            "big": pa.array([decimal.Decimal("12345678901234567890.12"), None], pa.decimal128(30, 2)),
            "date": [dt.date(2024, 2, 29), None],
            "time": [dt.time(23, 59, 59, 999999), None],
            "ts": [dt.datetime(1999, 12, 31, 23, 59, 59, 1), None],  # noqa: DTZ001
            "tz": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None], pa.timestamp("us", tz="UTC")),
            "s": ["ünï", None],
            "u": pa.array([uuid.uuid4().bytes, None], pa.uuid()),
            "fx": pa.array([b"abcd", None], pa.binary(4)),
            "bin": [b"\x00\xff", None],
            "list": [[1, None], None],
            "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
            "struct": [{"a": 1, "b": [{"c": "x"}]}, None],
        }
    )
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    found = manager.scan("bronze.t")
    assert repr(found.to_pylist()) == repr(rows.to_pylist())


def test_metrics_let_readers_prune(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.float64()), ("s", pa.string())]))
    manager.append("bronze.t", pa.table({"id": [1, 5], "x": [math.nan, 2.0], "s": ["a" * 40, None]}))
    (task,) = manager.load_table("bronze.t").scan().plan_files()
    file = task.file
    assert file.record_count == 2
    assert file.value_counts == {1: 2, 2: 2, 3: 2}
    assert file.null_value_counts == {1: 0, 2: 0, 3: 1}
    assert file.nan_value_counts == {2: 1}
    assert int.from_bytes(file.lower_bounds[1], "little") == 1
    assert int.from_bytes(file.upper_bounds[1], "little") == 5
    assert file.upper_bounds[3] == b"a" * 15 + b"b"
    assert list(manager.load_table("bronze.t").scan("id > 5").plan_files()) == []


def test_files_roll_at_the_target_size(manager):
    properties = {"write.target-file-size-bytes": "200000", "write.parquet.row-group-limit": "1000"}
    manager.create_table("bronze.t", pa.schema([("n", pa.binary())]), properties=properties)
    noise = pa.table({"n": [uuid.uuid4().bytes * 8 for _ in range(20_000)]})
    manager.append("bronze.t", noise)
    files = [task.file for task in manager.load_table("bronze.t").scan().plan_files()]
    assert len(files) > 1
    assert sum(file.record_count for file in files) == 20_000
    assert max(file.file_size_in_bytes for file in files) < 400_000


def test_row_groups_follow_the_tables_properties(manager):
    properties = {"write.parquet.row-group-size-bytes": "8000", "write.parquet.compression-codec": "snappy"}
    manager.create_table("bronze.t", pa.schema([("n", pa.int64())]), properties=properties)
    manager.append("bronze.t", pa.table({"n": range(5000)}))
    (task,) = manager.load_table("bronze.t").scan().plan_files()
    parquet = pq.ParquetFile(task.file.file_path.removeprefix("file://"))
    assert parquet.num_row_groups == 5
    assert parquet.metadata.row_group(0).column(0).compression == "SNAPPY"


def test_rows_are_sorted_by_the_tables_order(manager):
    schema = pa.schema([("p", pa.string()), ("n", pa.int64())])
    manager.create_table("bronze.t", schema, partition_spec=["p"], sort_order=["n desc nulls first"])
    manager.append("bronze.t", pa.table({"p": ["a", "a", "a", "b"], "n": [1, None, 3, 2]}))
    tasks = {task.file.partition[0]: task.file for task in manager.load_table("bronze.t").scan().plan_files()}
    assert tasks["a"].sort_order_id == manager.load_table("bronze.t").sort_order().order_id
    stored = pq.read_table(tasks["a"].file_path.removeprefix("file://"), partitioning=None)
    assert stored["n"].to_pylist() == [None, 3, 1]


def test_an_empty_append_leaves_no_snapshot(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    nothing = manager.append("bronze.t", pa.table({"id": pa.array([], pa.int64())}))
    assert nothing.operation == "none"
    assert manager.get_current_snapshot("bronze.t") is None


def test_overwriting_with_nothing_empties_the_table(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": [1]}))
    manager.overwrite("bronze.t", pa.table({"id": pa.array([], pa.int64())}))
    assert manager.scan("bronze.t").num_rows == 0


def test_partitions_of_an_older_spec_are_overwritten_row_by_row(manager):
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    manager.create_table("bronze.t", schema)
    manager.append("bronze.t", pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]}))
    with manager.load_table("bronze.t").update_spec() as update:
        update.add_identity("p")
    manager.append("bronze.t", pa.table({"id": [4], "p": ["a"]}))
    manager.overwrite_partitions("bronze.t", pa.table({"id": [9], "p": ["a"]}))
    assert sorted(manager.scan("bronze.t")["id"].to_pylist()) == [2, 9]


def test_an_upsert_that_changes_nothing_leaves_no_snapshot(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.float64())]))
    rows = pa.table({"id": [1, 2, None], "x": [math.nan, None, 1.0]})
    manager.append("bronze.t", rows)
    manager.upsert("bronze.t", rows.slice(0, 2), keys=["id"])
    assert len(manager.list_snapshots("bronze.t")) == 1


def test_an_upsert_touches_only_the_files_with_its_keys(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    for start in (0, 100, 200):
        manager.append("bronze.t", pa.table({"id": range(start, start + 10), "x": [0] * 10}))
    before = {task.file.file_path for task in manager.load_table("bronze.t").scan().plan_files()}
    manager.upsert("bronze.t", pa.table({"id": [105], "x": [1]}), keys=["id"])
    after = {task.file.file_path for task in manager.load_table("bronze.t").scan().plan_files()}
    assert len(before & after) == 2
    assert manager.scan("bronze.t").num_rows == 30


def test_a_delete_of_a_whole_partition_reads_no_data_file(manager, monkeypatch):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_spec=["p"])
    manager.append("bronze.t", pa.table({"id": [1, 2], "p": ["a", "b"]}))
    from floe_iceberg.write import copy_on_write

    monkeypatch.setattr(copy_on_write, "RowScan", None)
    manager.delete("bronze.t", "p = 'a'")
    monkeypatch.undo()
    assert manager.scan("bronze.t")["id"].to_pylist() == [2]


def test_reserved_snapshot_properties_are_refused(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    for key in ("operation", "floe.operation-id"):
        with pytest.raises(ConfigurationError, match=key):
            manager.append("bronze.t", pa.table({"id": [1]}), snapshot_properties={key: "x"})


def test_a_filter_only_goes_with_overwrite(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(ConfigurationError, match="overwrite_filter"):
        manager.write_data("bronze.t", pa.table({"id": [1]}), WriteMode.APPEND, overwrite_filter="id = 1")


def test_a_key_that_is_not_there_is_refused(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(ConfigurationError, match="nope"):
        manager.upsert("bronze.t", pa.table({"id": [1]}), keys=["nope"])


def test_orc_tables_are_left_to_spark(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]), properties={"write.format.default": "orc"})
    with pytest.raises(CapabilityError, match="orc"):
        manager.append("bronze.t", pa.table({"id": [1]}))


@pytest.mark.req("TM-15")
@pytest.mark.parametrize("terms", [None, ["month(ts)"], ["bucket(300, id)"]], ids=["plain", "months", "many"])
def test_a_stream_becomes_one_snapshot_and_one_file_a_partition(manager, terms):
    schema = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("text", pa.string())])
    manager.create_table("bronze.t", schema, partition_spec=terms)

    def batches():
        for start in range(0, 60_000, 1_000):
            ids = range(start, start + 1_000)
            yield pa.record_batch(
                {
                    "id": pa.array(ids),
                    "ts": pa.array([number * 86_400_000_000 // 100 for number in ids], pa.timestamp("us")),
                    "text": ["x" * 50] * 1_000,
                },
                schema=schema,
            )

    snapshot = manager.append("bronze.t", pa.RecordBatchReader.from_batches(schema, batches()))
    assert len(manager.list_snapshots("bronze.t")) == 1
    assert sorted(manager.scan("bronze.t", columns=["id"])["id"].to_pylist()) == list(range(60_000))
    files = int(snapshot.summary["added-data-files"])
    partitions = int(snapshot.summary.get("changed-partition-count", "1"))
    # With more partitions than open files, a partition gets a second file when it reappears.
    assert files == partitions if partitions < 128 else files < 4 * partitions


def test_a_stream_that_fails_half_way_leaves_nothing(manager):
    schema = pa.schema([("id", pa.int64()), ("text", pa.string())])
    manager.create_table("bronze.t", schema, partition_spec=["bucket(4, id)"])

    def batches():
        for start in range(0, 50_000, 10_000):
            yield pa.record_batch({"id": range(start, start + 10_000), "text": ["x" * 100] * 10_000}, schema=schema)
        msg = "the source is gone"
        raise RuntimeError(msg)

    with pytest.raises(RuntimeError, match="the source is gone"):
        manager.append("bronze.t", pa.RecordBatchReader.from_batches(schema, batches()))
    assert manager.get_current_snapshot("bronze.t") is None
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://"))
    assert list(folder.rglob("*.parquet")) == []


DENIED = PermissionError(13, "Permission denied", "/data/orders.csv")
NO_DATABASE = OperationalError("SELECT secret FROM orders", {}, Exception("connection refused\nby the source"))


@pytest.mark.req("API-13")
@pytest.mark.parametrize("write", ["append", "overwrite", "upsert"])
@pytest.mark.parametrize(
    ("failure", "says"),
    [(DENIED, "Permission denied"), (NO_DATABASE, "connection refused"), (NoSuchTableError("source.t"), "source.t")],
    ids=["file", "database", "table"],
)
def test_what_a_source_fails_with_is_not_blamed_on_the_table(manager, write, failure, says):
    def batches():
        yield pa.record_batch({"id": [2]})
        raise failure

    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": [1]}))
    options = {"keys": ["id"]} if write == "upsert" else {}
    reader = pa.RecordBatchReader.from_batches(pa.schema([("id", pa.int64())]), batches())
    with pytest.raises(WriteError, match="Reading the data to write failed") as caught:
        getattr(manager, write)("bronze.t", reader, **options)
    assert type(caught.value) is WriteError
    assert caught.value.__cause__ is failure
    assert says in caught.value.message
    assert "SELECT" not in caught.value.message
    assert manager.scan("bronze.t")["id"].to_pylist() == [1]


def test_a_stream_checks_required_columns_as_it_goes(manager):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    manager.create_table("bronze.t", schema)
    loose = pa.schema([("id", pa.int64())])
    reader = pa.RecordBatchReader.from_batches(
        loose, [pa.record_batch({"id": [1]}), pa.record_batch({"id": pa.array([None], pa.int64())})]
    )
    with pytest.raises(InvalidDataError, match="required"):
        manager.append("bronze.t", reader, evolve_schema=False)
    assert manager.get_current_snapshot("bronze.t") is None
