"""Expressions, relationships and row count changes on Spark, compared with a model in Python."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, InvalidScanError, RefNotFoundError
from floe_core.schemas import CheckConfig
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.evaluation import CheckedRows, evaluate, require_evaluated

pytestmark = pytest.mark.spark

NAN = float("nan")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("owner", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("weight", pa.float64()),
        ("unit name", pa.string()),
        ("part", pa.string()),
        ("item", pa.struct([("size", pa.int64())])),
    ]
)
ROWS = [
    {"id": 1, "owner": 10, "price": Decimal("1.50"), "weight": 1.0, "unit name": "it's", "part": "a"},
    {"id": 2, "owner": 11, "price": Decimal("-0.01"), "weight": NAN, "unit name": "kg", "part": "a"},
    {"id": 2, "owner": None, "price": None, "weight": -0.0, "unit name": None, "part": "b"},
    {"id": None, "owner": 99, "price": Decimal("3.00"), "weight": None, "unit name": "kg", "part": "b"},
]
ROWS = [row | {"item": {"size": number}} for number, row in enumerate(ROWS)]
OWNERS = pa.table({"id": pa.array([10, 11, 11, None], pa.int64()), "part": ["a", "b", "b", None]})
PART_A = "part = 'a'"


def expressions():
    """Give conditions with what they are in Python: true, false, or None for unknown."""

    def compare(value, truth):
        return None if value is None else truth(value)

    return {
        "price >= 0": lambda row: compare(row["price"], lambda value: value >= 0),
        "price >= -0.01": lambda row: compare(row["price"], lambda value: value >= Decimal("-0.01")),
        # In Spark, NaN is greater than every number.
        "weight <= 1": lambda row: compare(row["weight"], lambda value: not math.isnan(value) and value <= 1),
        "weight >= 0": lambda row: compare(row["weight"], lambda value: math.isnan(value) or value >= 0),
        "`unit name` in ('kg', 'it''s')": lambda row: compare(row["unit name"], lambda value: value in {"kg", "it's"}),
        "`UNIT NAME` <> 'kg' -- no weights": lambda row: compare(row["unit name"], lambda value: value != "kg"),
        "item.size > 0": lambda row: compare(row["item"]["size"], lambda value: value > 0),
        "id is not null": lambda row: row["id"] is not None,
        "false": lambda row: False,
    }


@pytest.fixture
def shop(tables):
    """Give orders and the owners that they name."""
    tables.create_namespace("bronze")
    tables.create_namespace("silver")
    tables.create_table("bronze.orders", SCHEMA)
    tables.append("bronze.orders", pa.Table.from_pylist(ROWS, schema=SCHEMA))
    tables.create_table("silver.owners", OWNERS.schema)
    tables.append("silver.owners", OWNERS)
    return tables


@pytest.fixture
def evaluated(shop):
    """Evaluate checks of the orders, and give how each ended."""

    def run(*settings, table="bronze.orders", **of):
        checks = expand_checks([CheckConfig.model_validate(one) for one in settings], table=table)
        outcomes = evaluate(shop, checks, CheckedRows(table, **of))
        return [(one.passed, str(one.error) if one.error else dict(one.figures)) for one in outcomes]

    return run


def found_bad(outcome):
    passed, figures = outcome
    assert passed == (figures["failing_rows"] == 0)
    return figures["failing_rows"]


@pytest.mark.parametrize("rows", [None, PART_A], ids=["table", "partition"])
def test_a_row_fails_an_expression_that_is_false_and_not_one_that_is_null(evaluated, rows):
    chosen = [row for row in ROWS if rows is None or row["part"] == "a"]
    wheres = {None: lambda row: True, "owner > 10": lambda row: row["owner"] is not None and row["owner"] > 10}
    model, settings = [], []
    for text, truth in expressions().items():
        for where, holds in wheres.items():
            model.append(sum(holds(row) and truth(row) is False for row in chosen))
            settings.append({"type": "expression", "expression": text, "where": where, "name": f"c{len(settings)}"})
    assert [found_bad(one) for one in evaluated(*settings, rows=rows)] == model
    whole = [one | {"scope": "table"} for one in settings]
    assert [found_bad(one) for one in evaluated(*whole[:1], rows=PART_A)] == [1]


def test_the_example_of_an_expression_shows_the_columns_it_names(evaluated):
    [(passed, figures)] = evaluated({"type": "expression", "expression": "PRICE >= 0 or `unit name` = 'g'"})
    assert not passed
    assert figures["failing_rows"] == 1
    assert json.loads(figures["example"]) == {"price": -0.01, "unit name": "kg"}


def test_one_expression_that_cannot_be_evaluated_leaves_the_others_alone(evaluated, shop):
    mistakes = {
        "nowhere > 1": "'nowhere', which table 'bronze.orders' does not have",
        "id + 1": "Cannot evaluate the check 'c1'",
        "1 / (owner - 10) > 0": "Division by zero",
        "cast(`unit name` as int) > 0": "CAST_INVALID_INPUT",
        "no_such_function(id)": "no_such_function",
    }
    settings = [
        {"type": "expression", "expression": text, "name": f"c{number}"} for number, text in enumerate(mistakes)
    ]
    *wrong, right = evaluated(*settings, {"type": "not_null", "column": "id"})
    for (passed, told), reason in zip(wrong, mistakes.values(), strict=True):
        assert not passed
        assert reason in told
    assert right == (False, {"failing_rows": 1})
    checks = expand_checks([CheckConfig.model_validate(settings[1])], table="bronze.orders")
    with pytest.raises(InvalidScanError, match="Cannot evaluate the check 'c1'"):
        require_evaluated(evaluate(shop, checks, CheckedRows("bronze.orders")))
    with pytest.raises(ConfigurationError, match="a subquery"):
        evaluated({"type": "expression", "expression": "id in (select id from silver.owners)"})


def relationship(*columns, to="silver.owners", to_columns=(), **settings):
    name = "_".join(["r", *columns, *to_columns, str(len(settings))])
    return {
        "type": "relationship",
        "columns": list(columns),
        "to": to,
        "to_columns": list(to_columns),
        "name": name,
        **settings,
    }


def test_every_value_that_is_not_null_is_found_in_the_other_table(evaluated):
    owners = OWNERS.to_pylist()

    def missing(columns, others, rows=ROWS):
        there = {tuple(owner[name] for name in others) for owner in owners}
        keys = [tuple(row[name] for name in columns) for row in rows]
        return sum(None not in key and key not in there for key in keys)

    part_a = [row for row in ROWS if row["part"] == "a"]
    found = evaluated(
        relationship("owner", to_columns=["id"]),
        relationship("owner", "part", to_columns=["id", "part"]),
        relationship("part"),
        relationship("owner", to_columns=["id"], where="owner < 50"),
    )
    assert [found_bad(one) for one in found] == [
        missing(["owner"], ["id"]),
        missing(["owner", "part"], ["id", "part"]),
        missing(["part"], ["part"]),
        0,
    ]
    assert found[0][1]["example"] == "99"
    assert json.loads(found[1][1]["example"]) == {"owner": 11, "part": "a"}
    scoped = evaluated(
        relationship("owner", "part", to_columns=["id", "part"]),
        relationship("owner", "part", to_columns=["id", "part"], scope="table"),
        rows=PART_A,
    )
    assert [found_bad(one) for one in scoped] == [
        missing(["owner", "part"], ["id", "part"], part_a),
        missing(["owner", "part"], ["id", "part"]),
    ]


def test_a_relationship_to_itself_sees_the_rows_that_wait(evaluated, shop):
    shop.create_branch("bronze.orders", "audit.x")
    more = [{"id": 99, "owner": 1, "price": None, "weight": None, "unit name": None, "part": "a", "item": None}]
    shop.append("bronze.orders", pa.Table.from_pylist(more, schema=SCHEMA), branch="audit.x")
    itself = relationship("owner", to="bronze.orders", to_columns=["id"])
    # On main, 10, 11 and 99 are not ids; on the branch, 99 is, and so is the new row's owner.
    assert [found_bad(one) for one in evaluated(itself)] == [3]
    assert [found_bad(one) for one in evaluated(itself, ref="audit.x")] == [2]


def test_a_relationship_that_cannot_be_is_told_apart_from_missing_rows(evaluated, shop):
    assert evaluated(relationship("owner", to="gold.owners")) == [(False, {"missing_table": "gold.owners"})]
    [(passed, told)] = evaluated(relationship("part", to_columns=["id"]))
    assert not passed
    assert "compares part (string) with silver.owners.id (long)" in told
    [(_, told)] = evaluated(relationship("owner", to_columns=["ids"]))
    assert "'ids', which table 'silver.owners' does not have" in told
    [(_, told)] = evaluated(relationship("owners", to_columns=["id"]))
    assert "'owners', which table 'bronze.orders' does not have" in told
    named = {"table": "silver.owners", "named": lambda name: f"silver.{name.partition('.')[2]}"}
    assert evaluated(relationship("id", to="other.owners"), **named) == [(True, {"failing_rows": 0})]
    shop.overwrite("silver.owners", OWNERS.slice(0, 0))
    assert [found_bad(one) for one in evaluated(relationship("owner", to_columns=["id"]))] == [3]
    assert [found_bad(one) for one in evaluated(relationship("id"), table="silver.owners")] == [0]


def change(**bounds):
    return {"type": "row_count_change", "name": "_".join(bounds), **bounds}


def test_the_number_of_rows_is_compared_with_main_on_a_branch_and_with_the_write_before_on_main(evaluated, shop):
    first = {"num_rows": 4, "rows_before": 0, "note": "no previous rows to compare with"}
    assert evaluated(change(min_ratio=0.5)) == [(True, first)]
    shop.create_branch("bronze.orders", "audit.x")
    shop.append("bronze.orders", pa.Table.from_pylist(ROWS[:2], schema=SCHEMA), branch="audit.x")
    bounds = [change(min_ratio=1.5), change(max_ratio=1.4), change(min_change=2, max_change=2), change(max_change=1)]
    figures = {"num_rows": 6, "rows_before": 4, "ratio": 1.5}
    assert evaluated(*bounds, ref="audit.x") == [(passed, figures) for passed in (True, False, True, False)]
    # Only rows of the partition count, and only those that a predicate selects.
    doubled = {"num_rows": 4, "rows_before": 2, "ratio": 2.0}
    assert evaluated(change(max_ratio=1.5), ref="audit.x", rows=PART_A) == [(False, doubled)]
    priced = change(max_ratio=1.5) | {"where": "price > 0"}
    assert evaluated(priced, ref="audit.x") == [(True, {"num_rows": 3, "rows_before": 2, "ratio": 1.5})]
    shop.publish_branch("bronze.orders", "audit.x", remove=True)
    assert evaluated(change(max_ratio=1.4)) == [(False, figures)]
    # A compaction changes no rows, so it is not a version to compare with.
    shop.compact_table("bronze.orders")
    assert evaluated(change(max_ratio=1.4)) == [(False, figures)]
    shop.overwrite("bronze.orders", pa.Table.from_pylist(ROWS[:1], schema=SCHEMA))
    fewer = {"num_rows": 1, "rows_before": 6, "ratio": 0.1667}
    assert evaluated(change(min_ratio=0.2)) == [(False, fewer)]


def test_partitions_are_compared_with_what_was_there_before_their_own_last_write(evaluated, shop):
    def write(part, count, key):
        rows = pa.Table.from_pylist([row | {"part": part} for row in ROWS[:1] * count], schema=SCHEMA)
        properties = {"dagster.partition-key": key}
        shop.overwrite("bronze.orders", rows, overwrite_filter=f"part = '{part}'", snapshot_properties=properties)

    write("a", 3, "first")
    write("b", 5, "second")
    scoped = change(max_ratio=1.2)
    assert evaluated(scoped, rows=PART_A, partitions=("first",)) == [
        (False, {"num_rows": 3, "rows_before": 2, "ratio": 1.5})
    ]
    assert evaluated(scoped | {"scope": "table"}, rows=PART_A, partitions=("second",)) == [
        (False, {"num_rows": 8, "rows_before": 5, "ratio": 1.6})
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_how_old_a_table_is_comes_from_its_newest_change_or_a_column(evaluated, shop, zone, monkeypatch):
    plane = shop.context.plane()
    original = plane.frame

    def in_another_zone(request):
        frame = original(request)
        frame.sparkSession.conf.set("spark.sql.session.timeZone", zone)
        return frame

    monkeypatch.setattr(plane, "frame", in_another_zone)
    try:
        ages_are_found(evaluated, shop)
    finally:
        plane.session.conf.set("spark.sql.session.timeZone", "UTC")


def ages_are_found(evaluated, shop):
    [(passed, figures)] = evaluated({"type": "freshness", "max_age": "1h"})
    assert passed
    assert 0 <= figures["age_hours"] < 0.2
    shop.create_table("bronze.empty", SCHEMA)
    assert evaluated({"type": "freshness", "max_age": "1h"}, table="bronze.empty") == [(False, {"snapshots": 0})]
    now = datetime.now(UTC)
    ages = pa.table(
        {
            "zoned": pa.array([now - timedelta(hours=5)], pa.timestamp("us", tz="UTC")),
            "plain": pa.array([(now - timedelta(hours=5)).replace(tzinfo=None)], pa.timestamp("us")),
            "day": pa.array([(now - timedelta(days=2)).date()], pa.date32()),
        }
    )
    shop.create_table("bronze.ages", ages.schema)
    shop.append("bronze.ages", ages)
    found = evaluated(
        {"type": "freshness", "columns": ["zoned", "plain"], "max_age": "6h"},
        {"type": "freshness", "columns": ["zoned", "plain"], "max_age": "4h", "name": "old"},
        {"type": "freshness", "column": "day", "max_age": "3d"},
        {"type": "freshness", "column": "day", "max_age": "1d", "name": "stale"},
        table="bronze.ages",
    )
    assert [passed for passed, _ in found] == [True, True, False, False, True, False]
    assert {round(figures["age_hours"]) for _, figures in found[:4]} == {5}


def test_a_branch_that_is_not_there_is_named(evaluated):
    with pytest.raises(RefNotFoundError, match=r"audit\.y"):
        evaluated({"type": "not_null", "column": "id"}, ref="audit.y")


def test_what_metadata_tells_is_read_without_spark(evaluated, shop, monkeypatch):
    monkeypatch.setattr(shop.context.plane(), "frame", lambda request: pytest.fail(f"Spark was asked for {request}"))
    found = evaluated(
        {"type": "row_count", "min": 1, "max": 4},
        {"type": "freshness", "max_age": "1h"},
        change(max_ratio=1),
    )
    assert [passed for passed, _ in found] == [True, True, True]
