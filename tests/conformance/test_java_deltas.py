"""Row deltas written by Iceberg's Java library: floe reads them correctly, or rejects them before reading."""

from __future__ import annotations

import pytest

from floe_core.errors import CapabilityError
from floe_testing.audit import assert_audited
from floe_testing.java.comparison import JavaComparison

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

ROWS = [
    {"k": 1, "s": "a", "x": [{"y": None}, None]},
    {"k": 2, "s": "a", "x": []},
    {"k": 3, "s": None, "x": None},
    {"k": 4, "s": "b", "x": [{"y": 7}]},
]


@pytest.fixture(params=["2", "3"], ids=["v2", "v3"])
def java(two_engines, request):
    two_engines.sql(
        "CREATE TABLE floe.n.t (k bigint, s string, x array<struct<y: bigint>>) USING iceberg "
        f"PARTITIONED BY (truncate(1, s)) TBLPROPERTIES ('format-version' = '{request.param}')"
    )
    two_engines.sql("INSERT INTO floe.n.t VALUES (1, 'a', array()), (1, 'b', array()), (9, 'a', array())")
    java = two_engines.java("n.t")
    assert java.delete_positions("k = 9") == 1
    java.upsert(["k"], ROWS)
    return java


def by_floe(engines):
    return sorted(engines.manager.scan("n.t").to_pylist(), key=lambda row: row["k"])


def by_spark(engines):
    return engines.sql("SELECT * FROM floe.n.t ORDER BY k")


def read_or_refused(engines, expected):
    """A right answer or a refusal; a wrong answer is neither."""
    assert by_spark(engines) == expected
    try:
        assert by_floe(engines) == expected
    except CapabilityError as refusal:
        assert "equality delete" in str(refusal)  # noqa: PT017 - see above
    assert_audited(engines.manager, "n.t")
    judge = JavaComparison(engines.session, "floe.n.t")
    location = engines.manager.load_table("n.t").metadata_location
    judge.check_metadata(location)
    judge.check_entries(location)
    judge.check_tables(location)


def test_a_streaming_upsert_replaces_rows_of_every_partition(two_engines, java):
    read_or_refused(two_engines, ROWS)


@pytest.mark.parametrize("per_file", [True, False])
def test_rows_that_java_deletes_by_position_are_gone(two_engines, java, per_file):
    assert java.delete_positions("k = 1", per_file=per_file) == 1
    assert java.delete_positions("k = 2 OR k = 4", per_file=per_file) == 2
    read_or_refused(two_engines, [ROWS[2]])


def test_rows_that_java_deletes_by_value_are_gone(two_engines, java):
    java.delete_equal(["s"], [["a"], [None]])
    read_or_refused(two_engines, [ROWS[3]])
