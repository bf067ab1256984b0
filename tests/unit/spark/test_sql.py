"""Names and values as Spark SQL."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from floe_core.dataplane import CompactionKind
from floe_spark.plane.maintenance import _sort_order
from floe_spark.plane.sql import map_literal, quoted, table_name, tag_of, text_literal, timestamp_literal


def test_names_are_quoted_part_by_part():
    assert quoted("a`b") == "`a``b`"
    assert table_name("floe", "a.b.t") == "`floe`.`a`.`b`.`t`"
    assert table_name("floe", "a.t", branch="x.y") == "`floe`.`a`.`t`.`branch_x.y`"


def test_literals_escape_what_would_end_them():
    assert text_literal("it's a \\") == "'it\\'s a \\\\'"
    assert map_literal({"a": "1", "b": "'"}) == "map('a', '1', 'b', '\\'')"


def test_a_moment_is_written_in_one_zone():
    moment = datetime(2024, 1, 2, 3, 4, 5, 678901, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp_literal(moment) == "TIMESTAMP '2024-01-02T01:04:05.678901Z'"
    assert timestamp_literal(moment.astimezone(UTC)) == timestamp_literal(moment)


@pytest.mark.parametrize(
    ("kind", "order", "text"),
    [
        (CompactionKind.SORT, ["a"], "a"),
        (CompactionKind.SORT, ["a desc", "b c ASC NULLS LAST"], "a desc, `b c` ASC NULLS LAST"),
        (CompactionKind.SORT, ["odd desc name"], "`odd desc name`"),
        (CompactionKind.ZORDER, ["a", "b c"], "zorder(a, `b c`)"),
    ],
)
def test_sort_orders(kind, order, text):
    assert _sort_order(kind, order) == text


def test_tags_are_names_for_any_operation_id():
    assert tag_of("a,b 'c'").replace("_", "").isalnum()
    assert tag_of("a") != tag_of("b")
