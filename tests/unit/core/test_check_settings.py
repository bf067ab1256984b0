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
        {"type": "accepted_values", "column": "a", "values": ["x", 1, True]},
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
        ({"type": "not_null"}, "needs column or columns"),
        ({"type": "not_null", "column": "a", "columns": ["b"]}, "not both"),
        ({"type": "unique", "columns": ["a", "a"]}, "twice"),
        ({"type": "row_count", "column": "a", "min": 1}, "takes no column"),
        ({"type": "row_count"}, "needs min or max"),
        ({"type": "row_count", "min": "many"}, "needs numbers"),
        ({"type": "range", "column": "a"}, "needs min or max"),
        ({"type": "range", "column": "a", "min": 2, "max": 1}, "above max"),
        ({"type": "range", "column": "a", "min": 2, "values": [1]}, "takes no values"),
        ({"type": "freshness", "column": "a"}, "needs max_age_hours"),
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
