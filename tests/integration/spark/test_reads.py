"""Reads of any version, and errors for missing versions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.dataplane import ReadRequest
from floe_core.errors import CapabilityError, RefNotFoundError, SnapshotNotFoundError, TableNotFoundError

pytestmark = pytest.mark.spark


@pytest.fixture
def history(spark_tables):
    """A table with three appends; the middle one is tagged, the first one branched."""
    table = spark_tables.create("ns.t", pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for number in (1, 2, 3):
        table.append(pa.table({"id": [number], "name": [f"n{number}"]}))
    ids = [snapshot.snapshot_id for snapshot in table.snapshots()]
    table.manage_snapshots().create_tag(ids[1], "release/1.0").create_branch(ids[0], "2024").commit()
    return ids


def ids_of(found):
    return [row["id"] for row in found]


@pytest.mark.req("FR-022", "FR-023")
def test_columns_rows_and_limit(spark_tables, history):
    assert spark_tables.read("ns.t", columns=("name",), row_filter="id > 1") == [{"name": "n2"}, {"name": "n3"}]
    assert len(spark_tables.read("ns.t", limit=2)) == 2
    assert spark_tables.read("ns.t", limit=0) == []


@pytest.mark.req("FR-021")
def test_versions(spark_tables, history):
    assert ids_of(spark_tables.read("ns.t", snapshot_id=history[0])) == [1]
    assert ids_of(spark_tables.read("ns.t", ref="release/1.0")) == [1, 2]
    assert ids_of(spark_tables.read("ns.t", ref="2024")) == [1]
    assert ids_of(spark_tables.read("ns.t", ref="main")) == [1, 2, 3]


@pytest.mark.req("FR-021")
def test_a_moment_is_read_to_the_millisecond(spark_tables, history):
    second = spark_tables.catalog.load_table("ns.t").snapshots()[1]
    moment = datetime.fromtimestamp(second.timestamp_ms / 1000, tz=UTC)
    assert ids_of(spark_tables.read("ns.t", as_of=moment)) == [1, 2]
    before = moment - timedelta(milliseconds=1)
    assert ids_of(spark_tables.read("ns.t", as_of=before)) == [1]


def test_an_increment_holds_what_was_appended_between(spark_tables, history):
    assert ids_of(spark_tables.read("ns.t", start_snapshot_id=history[0])) == [2, 3]
    assert ids_of(spark_tables.read("ns.t", start_snapshot_id=history[0], snapshot_id=history[1])) == [2]
    with pytest.raises(CapabilityError, match="incremental"):
        spark_tables.read("ns.t", start_snapshot_id=history[0], ref="main")


def test_a_missing_version_is_named(spark_tables, history):
    with pytest.raises(RefNotFoundError):
        spark_tables.read("ns.t", ref="nope")
    with pytest.raises(SnapshotNotFoundError):
        spark_tables.read("ns.t", snapshot_id=42)
    with pytest.raises(SnapshotNotFoundError):
        spark_tables.read("ns.t", as_of=datetime(2000, 1, 1, tzinfo=UTC))
    with pytest.raises(TableNotFoundError):
        spark_tables.read("ns.missing")


def test_a_struct_field_is_read_by_its_path_and_a_dotted_column_by_its_name(spark_tables):
    schema = pa.schema([("a", pa.struct([("b", pa.int64())])), ("c.d", pa.int64())])
    spark_tables.create("ns.s", schema).append(pa.table({"a": [{"b": 1}], "c.d": [2]}, schema=schema))
    assert spark_tables.read("ns.s", columns=("a.b", "c.d")) == [{"b": 1, "c.d": 2}]


def test_frames_are_lazy_and_join_with_the_users_own(spark_tables, history):
    frame = spark_tables.plane.frame(ReadRequest("ns.t"))
    assert spark_tables.plane.accepts(frame)
    assert not spark_tables.plane.accepts(pa.table({}))
    own = spark_tables.plane.session.createDataFrame([(1, "x"), (9, "y")], "id bigint, extra string")
    assert frame.join(own, "id").toArrow().to_pylist() == [{"id": 1, "name": "n1", "extra": "x"}]
    assert spark_tables.plane.arrow_schema(frame).names == ["id", "name"]
    with pytest.raises(TypeError):
        spark_tables.plane.arrow_schema([1])


EVERY_TYPE = (
    "b boolean, i8 tinyint, i16 smallint, i32 int, i64 bigint not null, f32 float, f64 double, d decimal(12, 3), "
    "s string, x binary, day date, at timestamp, local timestamp_ntz, "
    "l array<struct<a: int, b: array<string>>>, m map<string, decimal(5, 2)>, st struct<p: date, q: struct<r: double>>"
)


def test_the_schema_of_a_frame_is_what_spark_would_hand_over(spark_tables):
    frame = spark_tables.plane.session.createDataFrame([], EVERY_TYPE)
    strict = frame.selectExpr(
        "*", "array(1, 2) as no_nulls", "map('a', 1) as no_null_values", "named_struct('k', 1) as k"
    )
    found = spark_tables.plane.arrow_schema(strict)
    assert found.equals(strict.limit(0).toArrow().schema), found
    assert not found.field("i64").nullable
    assert not found.field("no_nulls").type.value_field.nullable


def test_a_type_only_spark_knows_is_asked_for(spark_tables):
    frame = spark_tables.plane.session.sql("SELECT INTERVAL '1' DAY AS pause")
    assert spark_tables.plane.arrow_schema(frame) == pa.schema([pa.field("pause", pa.duration("us"), nullable=False)])


def test_the_catalog_is_the_sessions_default(spark_tables, history):
    assert spark_tables.plane.session.sql("SELECT count(*) AS n FROM ns.t").collect()[0]["n"] == 3


def test_what_the_other_engine_commits_is_seen_at_once(spark_tables, history):
    assert len(spark_tables.read("ns.t")) == 3
    spark_tables.catalog.load_table("ns.t").append(pa.table({"id": [4], "name": ["n4"]}))
    assert len(spark_tables.read("ns.t")) == 4
