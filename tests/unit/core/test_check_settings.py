from __future__ import annotations

import pytest
from pydantic import ValidationError

from floe_core.schemas import CheckConfig, TableConfig


@pytest.mark.req("FR-036")
@pytest.mark.parametrize(
    "settings",
    [
        {"type": "not_null", "columns": ["a", "b"]},
        {"type": "unique", "column": "a"},
        {"type": "range", "column": "a", "min": 0},
        {"type": "range", "column": "day", "max": "2024-12-31"},
        {"type": "row_count", "min": 1, "max": 10},
        {"type": "freshness", "column": "ts", "max_age_hours": 24},
        {"type": "freshness", "column": "ts", "max_age": "26h"},
        {"type": "freshness", "max_age": "1.5 d"},
        {"type": "accepted_values", "column": "a", "values": ["x", 1, True]},
        {"type": "expression", "expression": "a >= 0", "where": "b"},
        {"type": "relationship", "column": "a", "to": "silver.customers"},
        {"type": "relationship", "columns": ["a", "b"], "to": "silver.customers", "to_columns": ["c", "d"]},
        {"type": "row_count_change", "min_ratio": 0.8, "max_ratio": 1.5},
        {"type": "row_count_change", "min_change": -10, "max_change": 0},
    ],
    ids=lambda settings: settings["type"],
)
def test_checks_of_every_kind(settings):
    check = CheckConfig.model_validate(settings)
    assert check.holds_back
    assert check.scope == "partition"
    assert TableConfig.model_validate({"checks": [settings]}).checks == (check,)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"type": "sum", "column": "a"}, "not_null"),
        ({"type": "not_null"}, "needs either column or columns"),
        ({"type": "not_null", "column": "a", "columns": ["b"]}, "needs either column or columns"),
        ({"type": "unique", "columns": ["a", "a"]}, "contains a duplicate column"),
        ({"type": "row_count", "column": "a", "min": 1}, "does not accept a column"),
        ({"type": "row_count"}, "needs min or max"),
        ({"type": "row_count", "min": "many"}, "must be numbers"),
        ({"type": "range", "column": "a"}, "needs min or max"),
        ({"type": "range", "column": "a", "min": 2, "max": 1}, "greater than max"),
        ({"type": "range", "column": "a", "min": 2, "values": [1]}, "does not accept values"),
        ({"type": "freshness", "column": "a"}, "needs max_age or max_age_hours"),
        ({"type": "freshness", "max_age": "26h", "max_age_hours": 26}, "needs either max_age or max_age_hours"),
        ({"type": "freshness", "max_age": "26"}, "not a valid age; use a number with m, h, d or w"),
        ({"type": "freshness", "max_age": "0h"}, "not a valid age"),
        ({"type": "freshness", "max_age": "-1h"}, "not a valid age"),
        ({"type": "freshness", "max_age": "1h", "where": "a = 1"}, "does not accept where"),
        ({"type": "expression"}, "needs expression"),
        ({"type": "expression", "expression": "a = 1", "column": "a"}, "does not accept a column"),
        ({"type": "not_null", "column": "a", "expression": "a = 1"}, "does not accept expression"),
        ({"type": "relationship", "column": "a"}, "needs to"),
        ({"type": "relationship", "to": "a.b"}, "needs either column or columns"),
        ({"type": "relationship", "column": "a", "to": "customers"}, "pattern"),
        (
            {"type": "relationship", "column": "a", "to": "a.b", "to_columns": ["c", "d"]},
            "2 columns, but columns has 1",
        ),
        ({"type": "unique", "column": "a", "to": "a.b"}, "does not accept to"),
        ({"type": "row_count_change"}, "needs min_ratio or max_ratio or min_change or max_change"),
        ({"type": "row_count_change", "min_ratio": -0.1}, "greater than or equal to 0"),
        ({"type": "row_count_change", "min_ratio": 2, "max_ratio": 1}, "min_ratio 2 is greater than max_ratio 1"),
        ({"type": "row_count_change", "min_change": 2, "max_change": 1}, "min_change 2 is greater than max_change 1"),
        ({"type": "row_count_change", "min": 1}, "needs min_ratio"),
        ({"type": "freshness", "column": "a", "max_age_hours": 0}, "greater than 0"),
        ({"type": "accepted_values", "column": "a"}, "needs values"),
        ({"type": "not_null", "column": "a", "name": "no spaces"}, "pattern"),
    ],
)
def test_checks_that_cannot_be(settings, reason):
    with pytest.raises(ValidationError, match=reason):
        CheckConfig.model_validate(settings)


def test_only_a_blocking_error_holds_rows_back():
    def holds(**settings):
        return CheckConfig.model_validate({"type": "row_count", "min": 1, **settings}).holds_back

    assert (holds(), holds(blocking=False), holds(severity="warn")) == (True, False, False)


@pytest.mark.parametrize(
    ("age", "seconds"),
    [
        ({"max_age": "90m"}, 5400),
        ({"max_age": "26h"}, 93600),
        ({"max_age": "1.5 d"}, 129600),
        ({"max_age": "2w"}, 1209600),
        ({"max_age_hours": 0.5}, 1800),
    ],
)
def test_ages_are_written_with_their_unit(age, seconds):
    assert CheckConfig.model_validate({"type": "freshness", **age}).max_age_seconds == seconds
