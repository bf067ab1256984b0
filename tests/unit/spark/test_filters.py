"""Row filters as Spark SQL; see also test_filter_grammar."""

from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from floe_iceberg.read.predicates import EVERY_ROW, parse_row_filter
from floe_spark.plane.filters import condition_sql, filter_sql

SCHEMA = Schema(NestedField(1, "id", IntegerType()))


@pytest.mark.parametrize(
    ("row_filter", "rendered"),
    [
        (None, None),
        ("", None),
        ("id = 1 -- as it is", "id = 1 -- as it is"),
        (parse_row_filter("id = 1", SCHEMA, table="t"), "`id` IN (1)"),
        (EVERY_ROW, "true"),
    ],
    ids=["none", "empty", "text", "predicate", "every row"],
)
def test_a_row_filter_becomes_spark_sql(row_filter, rendered):
    assert filter_sql(row_filter) == rendered


def test_what_is_no_row_filter_is_refused():
    with pytest.raises(TypeError, match="int is not a row filter"):
        filter_sql(5)


def test_a_condition_ends_before_what_follows_it():
    assert condition_sql("id > 0 -- note") == "(\nid > 0 -- note\n)"
