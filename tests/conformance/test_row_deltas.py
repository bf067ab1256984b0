"""The row deltas that other tests use, verified with Spark."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from floe_testing.java.deltas import add_deletion_vectors, add_equality_deletes, add_position_deletes

pytestmark = pytest.mark.spark

TABLE = "floe.bronze.t"


def filled(session, version, *, partitioned=False):
    session.sql("CREATE NAMESPACE IF NOT EXISTS floe.bronze")
    session.sql(
        f"CREATE TABLE {TABLE} (id BIGINT, p STRING) USING iceberg {'PARTITIONED BY (p)' if partitioned else ''} "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    session.sql(f"INSERT INTO {TABLE} SELECT /*+ COALESCE(1) */ id, IF(id < 4, 'a', 'b') FROM range(8) ORDER BY id")


def ids(session):
    return [row.id for row in session.sql(f"SELECT id FROM {TABLE} ORDER BY id").collect()]


def data_files(session):
    return [row.file_path for row in session.sql(f"SELECT file_path FROM {TABLE}.data_files ORDER BY 1").collect()]


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_position_deletes_hide_rows_by_place(spark_session, partitioned):
    filled(spark_session, 2, partitioned=partitioned)
    first = data_files(spark_session)[0]
    add_position_deletes(spark_session, TABLE, {first: [0, 2]})
    assert ids(spark_session) == [1, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("partitioned", [False, True], ids=["unpartitioned", "partitioned"])
def test_equality_deletes_hide_earlier_rows_only(spark_session, partitioned):
    filled(spark_session, 2, partitioned=partitioned)
    snapshot_id = add_equality_deletes(spark_session, TABLE, ["id"], [[1], [6]])
    assert ids(spark_session) == [0, 2, 3, 4, 5, 7]
    spark_session.sql(f"INSERT INTO {TABLE} VALUES (6, 'b')")
    assert ids(spark_session) == [0, 2, 3, 4, 5, 6, 7]
    made = spark_session.sql(f"SELECT summary FROM {TABLE}.snapshots WHERE snapshot_id = {snapshot_id}").first()
    assert int(made.summary["added-equality-deletes"]) >= 2


def test_equality_deletes_take_values_of_every_common_type(spark_tables, spark_session):
    values = {
        "i": (1, "INT"),
        "s": ("a'b", "STRING"),
        "d": (dt.date(1969, 12, 31), "DATE"),
        "t": (dt.datetime.fromisoformat("1969-12-31T23:59:59.999999"), "TIMESTAMP_NTZ"),
        "z": (dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC), "TIMESTAMP"),
        "m": (Decimal("12.30"), "DECIMAL(9,2)"),
        "b": (b"\x00\xff", "BINARY"),
        "f": (1.5, "DOUBLE"),
        "n": (None, "BIGINT"),
    }
    spark_session.sql("CREATE NAMESPACE IF NOT EXISTS floe.bronze")
    columns = ", ".join(f"{name} {kind}" for name, (_, kind) in values.items())
    spark_session.sql(f"CREATE TABLE {TABLE} ({columns}) USING iceberg TBLPROPERTIES ('format-version'='2')")
    row = {name: value for name, (value, _) in values.items()}
    other = {**row, "n": 5}
    schema = spark_tables.catalog.load_table("bronze.t").schema().as_arrow()
    from floe_core.dataplane import WriteKind

    spark_tables.write(WriteKind.APPEND, "bronze.t", pa.Table.from_pylist([row, other], schema))
    add_equality_deletes(spark_session, TABLE, list(values), [list(row.values())])
    assert [found.n for found in spark_session.table(TABLE).collect()] == [5]


def test_deletion_vectors_of_one_file_are_merged(spark_session):
    filled(spark_session, 3)
    (file,) = data_files(spark_session)
    add_deletion_vectors(spark_session, TABLE, {file: [0]})
    add_deletion_vectors(spark_session, TABLE, {file: [1, 7]})
    assert ids(spark_session) == [2, 3, 4, 5, 6]
    kinds = spark_session.sql(f"SELECT file_format, record_count FROM {TABLE}.delete_files").collect()
    assert [(kind.file_format, kind.record_count) for kind in kinds] == [("PUFFIN", 3)]
