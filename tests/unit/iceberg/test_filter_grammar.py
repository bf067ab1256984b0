"""The grammar of row filters: valid and rejected input, and the generated Spark SQL."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import And, EqualTo, NotIn, Or, Reference
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    IntegerType,
    ListType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from floe_core.errors import CapabilityError, InvalidScanError
from floe_iceberg.read.predicates import parse_row_filter
from floe_spark.plane.filters import spark_sql

FIELDS = [
    NestedField(1, "id", IntegerType()),
    NestedField(2, "name", StringType()),
    NestedField(3, "unit price", DoubleType()),
    NestedField(4, "a.b", IntegerType()),
    NestedField(
        5, "address", StructType(NestedField(6, "city", StringType()), NestedField(7, "zip code", StringType()))
    ),
    NestedField(8, "tags", ListType(9, StringType())),
    NestedField(10, "date", DateType()),
    NestedField(11, "active", BooleanType()),
    NestedField(12, "select", IntegerType()),
    NestedField(13, "back`tick", StringType()),
    NestedField(14, "1st", IntegerType()),
    NestedField(15, "Größe", IntegerType()),
    NestedField(16, "at", TimestampType()),
    NestedField(17, "seen", TimestamptzType()),
    NestedField(18, "key", UUIDType()),
    NestedField(19, "in", IntegerType()),
]
SCHEMA = Schema(*FIELDS)


def sql(row_filter):
    return spark_sql(parse_row_filter(row_filter, SCHEMA, table="bronze.t").bound)


@pytest.mark.parametrize(
    ("row_filter", "rendered"),
    [
        ("id = 5", "`id` IN (5)"),
        ("5 < id", "`id` >= 6"),
        ("id <> 5", "(`id` IS NOT NULL AND NOT (`id` IN (5)))"),
        ("`unit price` >= 2.5", "(`unit price` >= 2.5D OR isnan(`unit price`))"),
        ('"unit price" < 2', "(`unit price` IS NOT NULL AND `unit price` < 2.0D)"),
        ("`unit price` = 0", "`unit price` IN (0.0D, -0.0D)"),
        ("`a.b` = 1", "`a.b` IN (1)"),
        ("a.b = 1", "`a.b` IN (1)"),
        ("address.city = 'Oslo'", "`address`.`city` IN ('Oslo')"),
        ("address.`zip code` is null", "`address`.`zip code` IS NULL"),
        ("tags is not null", "`tags` IS NOT NULL"),
        ("date = '2026-01-31'", "`date` IN (DATE '2026-01-31')"),
        ("date = date '2026-01-31'", "`date` IN (DATE '2026-01-31')"),
        ("active", "`active` IN (true)"),
        ("not active", "`active` IN (false)"),
        ("active and true", "`active` IN (true)"),
        ("select = 1", "`select` IN (1)"),
        ("`in` = 1", "`in` IN (1)"),
        ("`back``tick` = 'it''s'", "`back``tick` IN (cast(X'69742773' AS string))"),
        ("`1st` > 0", "`1st` >= 1"),
        ("Größe > 0", "`Größe` >= 1"),
        ("name like 'A%'", "(`name` >= 'A' AND `name` < 'B')"),
        ("name like '%a_'", "`name` LIKE '%a_' ESCAPE '!'"),
        (r"name like 'a\%!%b'", "`name` LIKE 'a!%!!%b' ESCAPE '!'"),
        ("at >= '2026-01-31T12:00:00.5'", "`at` >= TIMESTAMP_NTZ '2026-01-31 12:00:00.500000'"),
        (
            "seen < '2026-01-31T12:00:00+02:00'",
            "(`seen` IS NOT NULL AND `seen` <= TIMESTAMP_LTZ '2026-01-31 09:59:59.999999 UTC')",
        ),
        ("key = 'f79c3e09-677c-4bbd-a479-3f349cb785e7'", "`key` IN ('f79c3e09-677c-4bbd-a479-3f349cb785e7')"),
        ("id > 5 and id < 3", "false"),
        ("id > 1 or id <= 1 or id is null", "true"),
        ("name = '${env:HOME}'", "`name` IN (cast(X'247b656e763a484f4d457d' AS string))"),
        (Or(EqualTo("id", 1), EqualTo("id", 2)), "(`id` >= 1 AND `id` <= 2)"),
        (
            And(NotIn("id", [1, 9]), EqualTo(Reference("name"), "x")),
            "((`id` IS NOT NULL AND NOT (`id` IN (1, 9))) AND `name` IN ('x'))",
        ),
    ],
)
def test_a_filter_is_written_anew_as_spark_sql(row_filter, rendered):
    assert sql(row_filter) == rendered


@pytest.mark.parametrize(
    ("row_filter", "position", "reason"),
    [
        ("id >>> 3", 5, "expected a value, found '>'"),
        ("id = 1; DROP TABLE t", 7, "unexpected ';'"),
        ("id = 1 -- comment", 8, "expected 'and', 'or' or the end"),
        ("id = 1 /* c */", 8, "unexpected character '/'"),
        ("id in (select id from t)", 8, "expected a value"),
        ("upper(name) = 'A'", 6, "functions such as upper() are not supported"),
        ("id = ", 6, "expected a value, found the end"),
        ("name = 'open", 8, "unterminated string"),
        ("id = null", 6, "use 'is null'"),
        ("id + 1 = 2", 4, "expected 'and', 'or' or the end"),
        ("id = 12abc", 6, "is not a number"),
        ("(id = 1", 8, "expected ')'"),
        ("name like 'a\\b'", 11, "a backslash in a pattern"),
        ("and id = 1", 1, "expected a column"),
        ("id not 5", 8, "expected 'in', 'between' or 'like'"),
        ("id = 1e999999999", 6, "at most 400 digits"),
        ("not " * 200 + "active", 401, "nested more than 100 levels deep"),
        ("key = X'zz'", 7, "hexadecimal"),
        ("", 1, "expected a column, found the end"),
    ],
)
def test_a_text_outside_the_grammar_is_refused_with_its_place(row_filter, position, reason):
    with pytest.raises(InvalidScanError) as caught:
        sql(row_filter)
    assert reason in str(caught.value)
    assert f"position {position}." in str(caught.value)


def test_an_unknown_column_is_named_with_its_likely_spelling():
    with pytest.raises(InvalidScanError, match="refers to 'nmae'") as caught:
        sql("nmae = 'x'")
    assert "Did you mean 'name'?" in str(caught.value)
    with pytest.raises(InvalidScanError, match=r"refers to 'tags\.element'"):
        sql("tags.element = 'x'")
    with pytest.raises(InvalidScanError, match=r"refers to 'address\.city'"):
        sql("`address.city` = 'x'")


def test_a_name_that_spark_takes_for_a_variable_is_refused_for_spark_alone():
    schema = Schema(NestedField(1, "${env:HOME}", StringType()))
    parsed = parse_row_filter("`${env:HOME}` = 'x'", schema, table="t")
    with pytest.raises(CapabilityError, match="variable"):
        spark_sql(parsed.bound)


def test_thousands_of_values_and_terms_are_read():
    many = " or ".join(f"id = {2 * number}" for number in range(5_000))
    assert sql(many).count(",") == 4_999
    assert sql(f"id not in ({', '.join(str(2 * number) for number in range(5_000))})").count("NOT") == 2


# The rest of the generated SQL after removing quoted names and strings.
_QUOTED = re.compile(r"`(?:[^`]|``)*`|'[^'\\\x00-\x1f$]*'")
_LEFT = re.compile(r"[A-Za-z0-9_ (),.<>=+-]*")
_PIECES = st.sampled_from(
    ["id", "name", "`unit price`", "'", "''", "`", '"', ";", "--", "/*", "*/", "${x}", "\\", " ", "=", "<", "(",
     ")", ",", "and", "or", "not", "in", "like", "is", "null", "1", "2.5", "'x'",
     "DROP TABLE t", "select", "%", "_", "\n", "é"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.lists(_PIECES, max_size=14).map(" ".join), st.lists(_PIECES, max_size=14).map("".join), st.text()))
@example("name = '\\' or 1=1 --'")
@example("name = '''; DROP TABLE t; --'")
@example("name like '%''; DROP TABLE t; --%'")
def test_no_text_gets_through_to_spark_unquoted(text):
    try:
        rendered = sql(text)
    except InvalidScanError:
        return
    assert "--" not in _QUOTED.sub("", rendered)
    assert _LEFT.fullmatch(_QUOTED.sub("", rendered)), rendered


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1), st.text())
def test_any_name_and_any_value_can_be_written(name, value):
    try:
        name.encode()
        value.encode()
    except UnicodeEncodeError:
        return
    schema = Schema(NestedField(1, name, StringType()))
    quoted = "`" + name.replace("`", "``") + "`"
    parsed = parse_row_filter(f"{quoted} = '{value.replace(chr(39), chr(39) * 2)}'", schema, table="t")
    assert [column.path for column in parsed.columns] == [(name,)]
    if "${" not in name:
        rendered = spark_sql(parsed.bound)
        assert _LEFT.fullmatch(_QUOTED.sub("", rendered)), rendered
