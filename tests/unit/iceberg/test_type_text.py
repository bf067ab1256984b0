from __future__ import annotations

import pytest
from pyiceberg.types import (
    DecimalType,
    FixedType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from floe_core.errors import ConfigurationError
from floe_iceberg.table.types import parse_type, type_text


@pytest.mark.parametrize(
    "text",
    [
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "string",
        "uuid",
        "binary",
        "decimal(10, 2)",
        "fixed(16)",
        "list<string>",
        "list<long not null>",
        "map<string, long>",
        "map<string, list<struct<a: int, b: decimal(5, 1) not null>>>",
        "struct<street: string, tags: map<string, string>>",
    ],
)
def test_a_type_reads_back_as_it_was_written(text):
    assert type_text(parse_type(text)) == text


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", LongType()),
        ("varchar", StringType()),
        ("timestamp_ntz", TimestampType()),
        ("timestamp_ltz", TimestamptzType()),
        ("decimal(9)", DecimalType(9, 0)),
        ("numeric(9,3)", DecimalType(9, 3)),
        ("fixed[8]", FixedType(8)),
        ("  Array < Text > ", ListType(element_id=1, element_type=StringType(), element_required=False)),
    ],
    ids=str,
)
def test_spellings_of_other_systems_are_understood(text, kind):
    assert parse_type(text) == kind


def test_nested_fields_get_ids_from_the_caller():
    ids = iter(range(10, 20))
    kind = parse_type("map<string, struct<a: long>>", new_id=lambda: next(ids))
    assert isinstance(kind, MapType)
    assert (kind.key_id, kind.value_id) == (10, 11)
    assert isinstance(kind.value_type, StructType)
    assert kind.value_type.fields[0].field_id == 12


def test_a_field_name_may_be_quoted():
    kind = parse_type("struct<`first name`: string>")
    assert isinstance(kind, StructType)
    assert kind.fields[0].name == "first name"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "unexpected end of the type"),
        ("lnog", "did you mean 'long'"),
        ("decimal", "expected '\\(' but found the end"),
        ("decimal(40, 2)", "precision of 1 to 38"),
        ("decimal(4, 5)", "precision of 1 to 38"),
        ("decimal(a)", "expected a number but found 'a'"),
        ("fixed(0)", "at least one byte"),
        ("list<", "unexpected end of the type"),
        ("list<string", "expected '>' but found the end"),
        ("map<string>", "expected ',' but found '>'"),
        ("struct<a int>", "expected ':' but found 'int'"),
        ("struct<a: int, a: int>", "duplicate field 'a'"),
        ("long long", "unexpected 'long' after the type"),
        ("long;", "unexpected character ';'"),
    ],
)
def test_a_mistake_is_explained(text, reason):
    with pytest.raises(ConfigurationError, match=reason) as caught:
        parse_type(text)
    assert "Types: boolean, int, long" in str(caught.value)
