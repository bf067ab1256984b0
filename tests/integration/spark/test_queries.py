"""SQL queries over frames."""

from __future__ import annotations

import pytest

from floe_spark.plane.queries import query_frames

pytestmark = pytest.mark.spark


def test_a_query_reads_the_frames_it_is_given_after_it_returned(spark_tables):
    session = spark_tables.plane.session
    frames = {
        "silver.a": session.createDataFrame([(1, "x"), (2, "y")], "id long, name string"),
        "silver.b": session.createDataFrame([(2,)], "id long"),
    }
    text = "select a.name from {a} a join {b} b on a.id = b.id"
    joined = query_frames(session, frames, lambda names: text.format(a=names["silver.a"], b=names["silver.b"]))
    other = query_frames(session, {"silver.b": frames["silver.a"]}, lambda names: f"select * from {names['silver.b']}")
    assert [row.name for row in joined.collect()] == ["y"]
    assert other.count() == 2
    assert [row.name for row in joined.collect()] == ["y"]


def test_a_query_that_reads_nothing_runs_on_the_session(spark_tables):
    assert [
        row.one for row in query_frames(spark_tables.plane.session, {}, lambda _names: "select 1 as one").collect()
    ] == [1]
