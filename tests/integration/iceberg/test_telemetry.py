"""What operations on tables leave for those who watch: spans with attributes, log events, figures."""

from __future__ import annotations

import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate
from structlog.testing import capture_logs

from floe_core import metrics
from floe_core.errors import TableNotFoundError
from floe_iceberg import IcebergTableManager

pytest_plugins = ["floe_testing.table_fixtures"]

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


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


@pytest.fixture
def figures(monkeypatch):
    """Count in memory; gives the figures of a metric by the values of its attributes."""
    reader = InMemoryMetricReader()
    instruments = metrics.instruments_of(MeterProvider([reader]).get_meter("test"))
    monkeypatch.setattr(metrics, "_instruments", lambda: instruments)

    def read(name):
        data = reader.get_metrics_data()
        found = [metric for scope in data.resource_metrics[0].scope_metrics for metric in scope.metrics]
        return {
            tuple(point.attributes.values()): getattr(point, "value", None) or point.count
            for metric in found
            if metric.name == name
            for point in metric.data.data_points
        }

    return read


def test_commits_and_what_they_wrote_are_counted(manager, rows, figures):
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows)
    manager.append("bronze.t", rows, operation_id="once")
    manager.append("bronze.t", rows, operation_id="once")
    manager.delete("bronze.t", "id = 1")
    assert figures("floe.commit.duration") == {("bronze.t", "ok"): 3}
    assert figures("floe.rows.written")["bronze.t", "append"] == 6
    assert figures("floe.bytes.written")["bronze.t", "append"] > 0


def test_a_commit_that_lost_a_race_is_a_conflict(manager, rows, figures):
    table = manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows)
    nowhere = AssertRefSnapshotId(ref="main", snapshot_id=None)
    with pytest.raises(CommitFailedException):
        manager.catalog.commit_table(table, (nowhere,), (SetPropertiesUpdate(updates={"a": "b"}),))
    assert figures("floe.commit.conflicts") == {("bronze.t",): 1}
    assert figures("floe.commit.duration")["bronze.t", "conflict"] == 1
