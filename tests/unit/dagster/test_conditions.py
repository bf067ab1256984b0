"""Conditions in checks: a single expression over the rows of one table."""

from __future__ import annotations

import pytest

from floe_core.errors import ConfigurationError
from floe_core.schemas import CheckConfig
from floe_dagster.gate.checks import expand_checks
from floe_dagster.gate.conditions import parse_condition


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("amount >= 0 and currency in ('EUR', 'USD')", ("amount", "currency")),
        ("a.b.c > 1 or `odd name` is null", ("a", "odd name")),
        ("note <> 'it''s; drop table x' -- a comment", ("note",)),
        ("name rlike '^[a-z]+\\\\)$'", ("name",)),
        ("exists(items, x -> x.price > 0)", ("items",)),
        ("case when kind = 'a' then total > 0 else true end", ("kind", "total")),
        ("timestampadd(HOUR, 2, placed) > current_timestamp()", ("placed",)),
        ("placed >= date '2026-01-01' and placed < current_date() + interval 1 day", ("placed",)),
        ("comment is not null", ("comment",)),
        ("(a > 0) or (b > 0)", ("a", "b")),
        ("length(trim(name)) between 1 and 10", ("name",)),
        ("true", ()),
    ],
)
def test_the_columns_of_a_condition(text, columns):
    condition = parse_condition(text, "spark")
    assert sorted(condition.columns) == sorted(columns)
    assert condition.text == text


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("len([x.price for x in items if x.price > low]) > 0", ("items", "low")),
        ("[[y for y in x] for x in items] = [y]", ("items", "y")),
        ("len(list_filter(items, lambda x: x > low)) > 0", ("items", "low")),
        ("{'a': id}.a > 1 and \"odd name\"[1] = place.city", ("id", "odd name", "place")),
    ],
)
def test_the_columns_of_a_condition_for_duckdb(text, columns):
    assert sorted(parse_condition(text, "duckdb").columns) == sorted(columns)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("amount >=", "not valid SQL"),
        ("amount >= 0 and", "not valid SQL"),
        ("amount >= 0)", "not"),
        ("a > 0) or (b > 0", "not a single condition"),
        ("a > 0), (b > 0", "not a single condition"),
        ("a > 0) from orders where (b > 0", "not a single condition"),
        ("a > 0; drop table bronze.orders", "not"),
        ("a > 0); drop table bronze.orders; select (1", "not a single condition"),
        ("a, b", "not a single condition"),
        ("a > 0 as b", "not"),
        ("id in (select id from secrets.keys)", "a subquery"),
        ("exists (select 1 from secrets.keys)", "a subquery"),
        ("select 1", "a subquery"),
        ("sum(amount) > 0", "an aggregate"),
        ("row_number() over (order by id) = 1", "a window function"),
        ("*", "a star"),
        ("reflect('java.lang.System', 'getenv', 'HOME') is null", "which runs code outside of SQL"),
        ("true or JAVA_METHOD('java.lang.System', 'exit', 1) is null", "which runs code outside of SQL"),
        ("drop table bronze.orders", "not"),
    ],
)
def test_an_invalid_condition_is_refused(text, reason):
    with pytest.raises(ConfigurationError, match=reason):
        parse_condition(text, "spark")


def test_a_mistake_names_the_check_and_the_place():
    check = CheckConfig.model_validate({"type": "expression", "expression": "amount >= 0 and and true"})
    with pytest.raises(ConfigurationError, match=r"check 'expression' of table 'a\.b'.*not valid SQL.*near 'and'"):
        expand_checks([check], table="a.b")


def test_the_predicate_of_any_check_is_read_the_same_way():
    check = CheckConfig.model_validate({"type": "row_count", "min": 1, "where": "id in (select id from a.b)"})
    with pytest.raises(ConfigurationError, match="a subquery"):
        expand_checks([check], table="a.b")
