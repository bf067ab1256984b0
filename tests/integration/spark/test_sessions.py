"""Spark sessions: one per process, many catalogs, no visible secrets."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.dataplane import WriteKind
from floe_testing.spark import embedded_catalog

pytestmark = pytest.mark.spark


def test_two_catalogs_of_one_name_do_not_mix(spark_tables, spark_plane_for, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    catalog = embedded_catalog(other)
    plane = spark_plane_for(catalog)
    spark_tables.create("ns.t", pa.schema([("here", pa.int64())]))
    catalog.create_namespace("ns")
    catalog.create_table("ns.t", pa.schema([("there", pa.int64())]))
    assert spark_tables.plane.session.table("ns.t").columns == ["here"]
    assert plane.session.table("ns.t").columns == ["there"]
    plane.close()
    catalog.close()
    assert spark_tables.plane.session.table("ns.t").columns == ["here"]


def test_a_frame_of_another_session_can_be_written(spark_tables, spark_plane_for, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    catalog = embedded_catalog(other, "elsewhere")
    plane = spark_plane_for(catalog)
    catalog.create_namespace("ns")
    catalog.create_table("ns.source", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1, 2]}))
    spark_tables.create("ns.target", pa.schema([("id", pa.int64())]))
    frame = plane.session.table("elsewhere.ns.source").selectExpr("id * 10 AS id")
    spark_tables.write(WriteKind.APPEND, "ns.target", frame)
    assert [row["id"] for row in spark_tables.read("ns.target")] == [10, 20]
    plane.close()
    catalog.close()


def test_a_write_leaves_no_trace_in_the_users_session(spark_tables):
    session = spark_tables.plane.session
    spark_tables.create("ns.t", pa.schema([("id", pa.int64())]))
    spark_tables.write(WriteKind.APPEND, "ns.t", session.createDataFrame([(1,)], "id bigint"), operation="op")
    assert session.conf.get("spark.sql.iceberg.snapshot-property.floe.operation-id", None) is None
    assert session.sql("SHOW VIEWS IN global_temp").collect() == []


def test_secrets_of_a_catalog_are_masked_where_spark_shows_its_settings(spark_tables):
    session = spark_tables.plane.session
    for key in ("s3.secret-access-key", "credential", "token", "jdbc.password", "adls.connection-string"):
        session.conf.set(f"spark.sql.catalog.canary.{key}", "CANARY-SECRET")
    shown = {row["key"]: row["value"] for row in session.sql("SET").collect()}
    found = {key: value for key, value in shown.items() if key.startswith("spark.sql.catalog.canary.")}
    assert len(found) == 5
    assert "CANARY-SECRET" not in found.values()
    assert "CANARY" not in repr(spark_tables.plane)
