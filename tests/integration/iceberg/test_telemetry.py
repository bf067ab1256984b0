"""Telemetry of table operations: spans with attributes, log events, metrics."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest
import structlog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from structlog.testing import capture_logs

from floe_core.errors import FloeStorageError, StorageFullError, TableNotFoundError
from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind

pytest_plugins = ["floe_testing.telemetry.fixtures"]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ADD = SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")


@pytest.fixture
def manager(tmp_path, tracing):
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("bronze")
    yield IcebergTableManager(catalog, tracer=tracing[0])
    catalog.close()


@pytest.fixture
def rows():
    return pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}, schema=SCHEMA)


@pytest.mark.req("RD-04", "FR-038")
def test_operations_leave_the_specified_spans_with_their_attributes(manager, rows, spans):
    manager.create_table("bronze.t", SCHEMA, partition_spec=["bucket(4, id)"])
    snapshot = manager.append("bronze.t", rows)
    manager.load_table("bronze.t")
    manager.scan("bronze.t", columns=["id"], row_filter="id > 1", limit=5)
    found = {}
    for span in spans():
        if span.parent is None:
            found[span.name] = {key.removeprefix("iceberg."): value for key, value in span.attributes.items()}
    created, appended = found["iceberg.create_table"], found["iceberg.append"]
    loaded, scanned = found["iceberg.load_table"], found["iceberg.scan"]
    assert (created["table"], created["schema_id"]) == ("bronze.t", 0)
    assert "bucket[4]" in created["partition_spec"]
    assert (appended["table"], appended["num_rows"]) == ("bronze.t", 3)
    assert (loaded["table"], scanned["table"]) == ("bronze.t", "bronze.t")
    assert appended["snapshot_id"] == loaded["snapshot_id"] == snapshot.snapshot_id
    assert (scanned["columns"], scanned["row_filter"], scanned["limit"]) == (("id",), "id > 1", 5)


@pytest.mark.req("FR-038")
def test_the_calls_of_a_write_to_the_catalog_are_below_it(manager, rows, spans):
    manager.create_table("bronze.t", SCHEMA)
    snapshot = manager.append("bronze.t", rows)
    by_id = {span.context.span_id: span for span in spans()}
    [commit] = [span for span in by_id.values() if span.name == "iceberg.commit_table"]
    assert by_id[commit.parent.span_id].name == "iceberg.append"
    assert commit.attributes["iceberg.snapshot_id"] == snapshot.snapshot_id
    loads = [span for span in by_id.values() if span.name == "iceberg.load_table"]
    assert {by_id[span.parent.span_id].name for span in loads} == {"iceberg.append"}


@pytest.mark.req("RD-05", "FR-037")
def test_loading_a_table_is_logged_with_its_snapshot(manager, rows):
    manager.create_table("bronze.t", SCHEMA)
    snapshot = manager.append("bronze.t", rows)
    with capture_logs() as logs:
        manager.load_table("bronze.t")
    assert [(line["event"], line["log_level"], line["table"]) for line in logs] == [
        ("loading_table", "info", "bronze.t"),
        ("table_loaded", "info", "bronze.t"),
        ("iceberg.load_table", "info", "bronze.t"),
    ]
    assert logs[1]["snapshot_id"] == snapshot.snapshot_id


@pytest.mark.req("RD-05", "FR-037")
def test_a_missing_table_is_logged_as_a_warning(manager):
    with capture_logs() as logs, pytest.raises(TableNotFoundError):
        manager.load_table("bronze.none")
    assert [(line["event"], line["log_level"]) for line in logs] == [
        ("loading_table", "info"),
        ("table_not_found", "warning"),
        ("iceberg.load_table", "warning"),
    ]


def changed(manager, rows):
    """A table with rows, for operations that need one."""
    manager.create_table("bronze.t", SCHEMA)
    return manager.append("bronze.t", rows)


TABLE_OPERATIONS = {
    "append": lambda m, rows: m.append("bronze.t", rows),
    "overwrite": lambda m, rows: m.overwrite("bronze.t", rows),
    "upsert": lambda m, rows: m.upsert("bronze.t", rows, keys=["id"]),
    "delete": lambda m, _: m.delete("bronze.t", "id = 1"),
    "scan": lambda m, _: m.scan("bronze.t"),
    "evolve_schema": lambda m, _: m.evolve_schema("bronze.t", [ADD]),
    "create_tag": lambda m, _: m.create_tag("bronze.t", "v1"),
    "create_branch": lambda m, _: m.create_branch("bronze.t", "audit"),
    "rollback": lambda m, _: m.rollback("bronze.t", m.get_current_snapshot("bronze.t").snapshot_id),
    "expire_snapshots": lambda m, _: m.expire_snapshots("bronze.t"),
    "compact_table": lambda m, _: m.compact_table("bronze.t", engine="arrow"),
    "drop_table": lambda m, _: m.drop_table("bronze.t"),
}


@pytest.mark.req("FR-037")
@pytest.mark.parametrize("name", TABLE_OPERATIONS)
def test_every_operation_on_a_table_is_an_event_with_its_outcome(manager, rows, name):
    changed(manager, rows)
    with capture_logs() as logs:
        TABLE_OPERATIONS[name](manager, rows)
    [event] = [line for line in logs if line["event"] == f"iceberg.{name}"]
    assert (event["log_level"], event["table"], event["outcome"]) == ("info", "bronze.t", "ok")
    assert event["took_ms"] > 0


NAMESPACE_OPERATIONS = {
    "create_namespace": ("silver.raw", lambda names: names.create("silver.raw", {"owner": "ops"})),
    "list_namespaces": ("bronze", lambda names: names.list_below("bronze")),
    "load_namespace_properties": ("bronze", lambda names: names.properties("bronze")),
    "update_namespace_properties": (
        "bronze",
        lambda names: names.update_properties("bronze", updates={"owner": "ops"}),
    ),
    "delete_namespace": ("bronze", lambda names: names.delete("bronze")),
}


@pytest.mark.req("FR-037")
@pytest.mark.parametrize("name", NAMESPACE_OPERATIONS)
def test_every_operation_on_a_namespace_is_an_event_of_the_managers_own_logger(manager, tracing, name):
    namespace, operation = NAMESPACE_OPERATIONS[name]
    logger = structlog.get_logger().bind(team="lake")
    with capture_logs() as logs:
        operation(IcebergTableManager(manager.catalog, tracer=tracing[0], logger=logger).namespaces)
    [event] = [line for line in logs if line["event"].endswith(f".{name}")]
    assert (event["log_level"], event["namespace"], event["outcome"]) == ("info", namespace, "ok")
    assert event["team"] == "lake"
    assert event["event"] in {span.name for span in tracing[1].get_finished_spans()}


TROUBLES = {
    "missing table": (
        lambda m, _: m.load_table("bronze.tt"),
        "Table 'bronze.tt' not found in catalog 'test'. Existing tables: bronze.t. Did you mean 'bronze.t'?",
    ),
    "table of a missing namespace": (
        lambda m, _: m.load_table("bronz.t"),
        (
            "Table 'bronz.t' not found in catalog 'test'. Namespace 'bronz' does not exist. "
            "Existing namespaces: bronze. Did you mean 'bronze'?"
        ),
    ),
    "missing namespace": (
        lambda m, _: m.create_table("bronz.t", SCHEMA),
        "Namespace 'bronz' not found in catalog 'test'. Existing namespaces: bronze. Did you mean 'bronze'?",
    ),
    "table that is there": (
        lambda m, _: m.create_table("bronze.t", SCHEMA),
        "Table 'bronze.t' already exists in catalog 'test'. Pass if_not_exists=True to use the existing table.",
    ),
    "type that does not fit": (
        lambda m, _: m.append("bronze.t", pa.table({"id": ["one"]})),
        "The data does not fit table 'bronze.t'.\n  id: table has long, data has string (incompatible types)",
    ),
}


@pytest.mark.req("RD-05", "FR-037")
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_message_gives_the_way_out_and_the_log_keeps_the_reason(manager, rows, trouble):
    cause, message = TROUBLES[trouble]
    changed(manager, rows)
    with capture_logs() as logs, pytest.raises(FloeStorageError) as caught:
        cause(manager, rows)
    assert str(caught.value) == message
    [event] = [line for line in logs if line.get("outcome") == "failed"]
    assert (event["log_level"], event["error"], event["reason"]) == (
        "warning",
        type(caught.value).__name__,
        str(caught.value),
    )


@pytest.mark.req("RD-05", "FR-037")
def test_what_a_full_disk_says_is_told_with_the_way_out_and_kept_as_the_cause(manager, rows, monkeypatch):
    changed(manager, rows)
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(PyArrowFileIO, "new_output", lambda *_: (_ for _ in ()).throw(full))
    with capture_logs() as logs, pytest.raises(StorageFullError) as caught:
        manager.append("bronze.t", rows)
    assert caught.value.hint == "Free space or raise the quota. The table was not changed."
    assert caught.value.__cause__ is full
    [event] = [line for line in logs if line.get("outcome") == "failed"]
    assert (event["event"], event["error"]) == ("iceberg.append", "StorageFullError")
    assert "No space left on device" in event["reason"]


def test_commits_and_what_they_wrote_are_counted(manager, rows, figures):
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows)
    manager.append("bronze.t", rows, operation_id="once")
    manager.append("bronze.t", rows, operation_id="once")
    manager.delete("bronze.t", "id = 1")
    assert figures("floe.commit.duration") == {("bronze.t", "ok", "arrow"): 3}
    assert figures("floe.rows.written")["bronze.t", "append"] == 6
    assert figures("floe.bytes.written")["bronze.t", "append"] > 0


def test_a_commit_that_lost_a_race_is_a_conflict(manager, rows, figures):
    table = manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows)
    nowhere = AssertRefSnapshotId(ref="main", snapshot_id=None)
    with pytest.raises(CommitFailedException):
        manager.catalog.commit_table(table, (nowhere,), (SetPropertiesUpdate(updates={"a": "b"}),))
    assert figures("floe.commit.conflicts") == {("bronze.t",): 1}
    assert figures("floe.commit.duration")["bronze.t", "conflict", "arrow"] == 1


@pytest.mark.spark
def test_a_commit_that_spark_makes_is_measured_and_named(spark_tables, rows, tracing, spans, figures):
    spark_tables.catalog.create_namespace("bronze")
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane, tracer=tracing[0])
    manager.create_table("bronze.t", SCHEMA)
    snapshot = manager.append("bronze.t", rows, engine="spark")
    assert figures("floe.commit.duration") == {("bronze.t", "ok", "spark"): 1}
    assert figures("floe.rows.written") == {("bronze.t", "append"): 3}
    [written] = [span for span in spans() if span.name == "iceberg.engine_write"]
    assert written.attributes["iceberg.snapshot_id"] == snapshot.snapshot_id
    assert written.attributes["iceberg.num_rows"] == 3
    assert written.attributes["iceberg.bytes"] == figures("floe.bytes.written")["bronze.t", "append"] > 0
