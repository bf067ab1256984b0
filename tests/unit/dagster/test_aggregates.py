"""Declared checks as aggregates, and the outcomes of their figures."""

from __future__ import annotations

import time

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType, StructType, TimestamptzType

from floe_core.dataplane import Aggregate, Figure, Measure
from floe_core.schemas import CheckConfig
from floe_dagster.gate.aggregates import FIRST_ROWS, aggregate_of, outcome_of
from floe_dagster.gate.checks import expand_checks
from floe_iceberg.read.predicates import parse_row_filter

ITEM = StructType(NestedField(10, "size", LongType()))
SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "part", StringType()),
    NestedField(3, "at", TimestamptzType()),
    NestedField(4, "item", ITEM),
    NestedField(5, "odd.name", LongType()),
)
ROWS = parse_row_filter("part = 'a'", SCHEMA, table="a.b")


def check(**settings):
    [found] = expand_checks([CheckConfig.model_validate({"name": "c", **settings})], table="a.b")
    return found


@pytest.mark.parametrize(
    ("settings", "aggregate"),
    [
        ({"type": "not_null", "column": "item.size"}, Aggregate("c", Measure.NULLS, (("item", "size"),))),
        ({"type": "not_null", "column": "odd.name"}, Aggregate("c", Measure.NULLS, (("odd.name",),))),
        ({"type": "unique", "columns": ["id", "part"]}, Aggregate("c", Measure.REPEATED, (("id",), ("part",)))),
        (
            {"type": "range", "column": "id", "min": 0, "max": 9},
            Aggregate("c", Measure.OUTSIDE, (("id",),), low=0, high=9),
        ),
        (
            {"type": "accepted_values", "column": "part", "values": ["a", "b"]},
            Aggregate("c", Measure.OTHER, (("part",),), values=("a", "b")),
        ),
        (
            {"type": "expression", "expression": "ID > 0 or Item.size > ID", "where": "part <> 'z'"},
            Aggregate(
                "c",
                Measure.VIOLATIONS,
                (("id",), ("item",)),
                where="part <> 'z'",
                condition="ID > 0 or Item.size > ID",
            ),
        ),
        ({"type": "row_count", "min": 1}, Aggregate("c", Measure.ROWS)),
        ({"type": "row_count_change", "min_change": 1}, Aggregate("c", Measure.ROWS)),
        ({"type": "freshness", "column": "at", "max_age_hours": 1}, Aggregate("c", Measure.NEWEST, (("at",),))),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)
def test_each_kind_of_check_is_one_aggregate(settings, aggregate):
    assert aggregate_of(check(**settings), None, SCHEMA) == aggregate


def test_a_check_counts_the_rows_that_were_written_unless_it_is_about_the_whole_table():
    column = {"type": "not_null", "column": "id"}
    assert aggregate_of(check(**column), ROWS, SCHEMA).row_filter == ROWS
    assert aggregate_of(check(**column, scope="table"), ROWS, SCHEMA).row_filter is None
    fresh = check(type="freshness", column="at", max_age_hours=1)
    assert aggregate_of(fresh, ROWS, SCHEMA).row_filter is None


@pytest.mark.parametrize(
    ("settings", "figure", "before", "passed", "figures"),
    [
        ({"type": "not_null", "column": "id"}, Figure(0), None, True, {"failing_rows": 0}),
        (
            {"type": "range", "column": "id", "min": 0},
            Figure(2, "-1"),
            None,
            False,
            {"failing_rows": 2, "example": "-1"},
        ),
        ({"type": "row_count", "min": 3, "max": 5}, Figure(5), None, True, {"num_rows": 5}),
        ({"type": "row_count", "min": 3}, Figure(2), None, False, {"num_rows": 2}),
        (
            {"type": "row_count_change", "min_ratio": 0.5},
            *(Figure(4), 10, False, {"num_rows": 4, "rows_before": 10, "ratio": 0.4}),
        ),
        (
            {"type": "row_count_change", "min_ratio": 0.5},
            *(Figure(4), None, True, {"num_rows": 4, "rows_before": 0, "note": FIRST_ROWS}),
        ),
        ({"type": "freshness", "column": "at", "max_age_hours": 1}, Figure(None), None, False, {"rows": 0}),
    ],
)
def test_a_figure_decides_the_outcome(settings, figure, before, passed, figures):
    outcome = outcome_of(check(**settings), figure, rows_before=before)
    assert (outcome.passed, dict(outcome.figures)) == (passed, figures)


def test_counts_are_whole_numbers_whatever_the_engine_returns():
    outcome = outcome_of(check(type="row_count", min=1), Figure(3.0))
    assert type(outcome.figures["num_rows"]) is int


def test_the_newest_value_must_not_be_older_than_the_limit():
    settings = check(type="freshness", column="at", max_age_hours=1)
    assert outcome_of(settings, Figure(time.time() - 60)).passed
    assert not outcome_of(settings, Figure(time.time() - 7200)).passed
