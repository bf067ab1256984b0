"""Reads as PySpark frames."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import InvalidScanError, RefNotFoundError, SnapshotNotFoundError
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.embedded_tables import context_on

pytestmark = pytest.mark.spark

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


@pytest.fixture
def spark_context(spark_tables):
    return context_on(spark_tables.catalog, plane=lambda: spark_tables.plane)


@pytest.fixture
def events(spark_tables):
    table = spark_tables.create(NAME, SCHEMA)
    for number in range(3):
        table.append(pa.table({"id": [number], "city": ["Oslo"]}, schema=SCHEMA))
    return table


def ids(frame):
    return sorted(row["id"] for row in frame.collect())


def test_a_frame_reads_columns_rows_and_versions(spark_context, events):
    newest, second, first = refs.list_snapshots(spark_context, NAME)
    refs.create_tag(spark_context, NAME, "v1", snapshot_id=first.snapshot_id)
    assert ids(scan.frame(spark_context, NAME)) == [0, 1, 2]
    assert scan.frame(spark_context, NAME, columns=["id"], row_filter="id != 1").columns == ["id"]
    assert ids(scan.frame(spark_context, NAME, row_filter="id != 1")) == [0, 2]
    assert ids(scan.frame(spark_context, NAME, snapshot_id=second.snapshot_id)) == [0, 1]
    # Exact to the millisecond, which Spark's TIMESTAMP AS OF does not guarantee.
    assert ids(scan.frame(spark_context, NAME, as_of=newest.timestamp_ms - 1)) == [0, 1]
    assert ids(scan.frame(spark_context, NAME, ref="v1")) == [0]
    assert scan.frame(spark_context, NAME, limit=2).count() == 2


def test_a_frame_of_what_is_not_there_is_refused_before_spark_is_asked(spark_context, events):
    with pytest.raises(SnapshotNotFoundError):
        scan.frame(spark_context, NAME, snapshot_id=1)
    with pytest.raises(RefNotFoundError):
        scan.frame(spark_context, NAME, ref="nothing")
    with pytest.raises(InvalidScanError, match="Did you mean 'city'"):
        scan.frame(spark_context, NAME, columns=["cty"])
