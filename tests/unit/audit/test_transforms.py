"""The auditor's transforms and hashes, on the values in the Iceberg specification."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pytest

from floe_audit.spec.schemas import MalformedError, Type, parse_type
from floe_audit.spec.transforms import murmur3, parse_transform
from floe_audit.spec.values import decode, encode, minimal_bytes, order

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def micros(*parts: int) -> int:
    return (dt.datetime(*parts, tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1)


def signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", 34, 2017239379),
        ("long", 34, 2017239379),
        ("decimal(9,2)", 1420, -500754589),
        ("date", (dt.date(2017, 11, 16) - dt.date(1970, 1, 1)).days, -653330422),
        ("time", (22 * 3600 + 31 * 60 + 8) * 1_000_000, -662762989),
        ("timestamp", micros(2017, 11, 16, 22, 31, 8), -2047944441),
        ("timestamp", micros(2017, 11, 16, 22, 31, 8) + 1, -1207196810),
        ("timestamp_ns", micros(2017, 11, 16, 22, 31, 8) * 1000 + 1001, -1207196810),
        ("string", "iceberg", 1210000089),
        ("uuid", uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        ("fixed[4]", bytes([0, 1, 2, 3]), -188683207),
        ("binary", bytes([0, 1, 2, 3]), -188683207),
    ],
)
def test_hashes_are_those_of_the_specification(kind, value, expected):
    buckets = 2**31 - 1
    assert parse_transform(f"bucket[{buckets}]").apply(parse_type(kind), value) == (expected & 0x7FFFFFFF) % buckets


def test_bytes_of_any_length_are_hashed():
    # Values from the reference implementation of Murmur3.
    assert [signed(murmur3(text)) for text in (b"", b"a", b"ab", b"abc", b"abcd")] == [
        0,
        1009084850,
        -1681926305,
        -1277324294,
        1139631978,
    ]


def test_many_numbers_hash_as_one_does():
    values = np.array([0, 1, -1, 34, 2**40, -(2**63), 2**63 - 1], dtype=np.int64)
    transform, kind = parse_transform("bucket[97]"), Type("long")
    assert transform.apply_integers(kind, values).tolist() == [transform.apply(kind, int(one)) for one in values]


@pytest.mark.parametrize(
    ("transform", "kind", "value", "expected"),
    [
        ("truncate[10]", "int", 1, 0),
        ("truncate[10]", "int", -1, -10),
        ("truncate[50]", "decimal(9,2)", 1065, 1050),
        ("truncate[10]", "int", -(2**31), 2**31 - 2),
        ("truncate[3]", "long", -(2**63), 2**63 - 1),
        ("truncate[3]", "string", "iceberg", "ice"),
        ("truncate[2]", "string", "🐟🐟🐟", "🐟🐟"),
        ("truncate[3]", "binary", b"\x01\x02\x03\x04", b"\x01\x02\x03"),
        ("year", "date", -1, -1),
        ("month", "date", -1, -1),
        ("day", "timestamp", -1, -1),
        ("hour", "timestamptz", -1, -1),
        ("year", "timestamp", micros(2017, 11, 16), 47),
        ("month", "timestamp", micros(2017, 11, 16), 47 * 12 + 10),
        ("day", "timestamp_ns", micros(2017, 11, 16, 5) * 1000, 17486),
        ("hour", "timestamp", micros(1970, 1, 1, 10, 59), 10),
        ("year", "date", 4_000_000, 10951),
        ("void", "int", 5, None),
        ("identity", "string", "x", "x"),
        ("bucket[16]", "int", None, None),
    ],
)
def test_transforms_follow_the_specification(transform, kind, value, expected):
    assert parse_transform(transform).apply(parse_type(kind), value) == expected


@pytest.mark.parametrize(
    ("transform", "kind", "lowest"),
    [("truncate[10]", "int", -(2**31)), ("truncate[3]", "long", -(2**63))],
)
def test_the_lowest_numbers_wrap_around_as_in_java(transform, kind, lowest):
    chosen = parse_transform(transform)
    values = [lowest, lowest + 1, lowest + 12, -1, 0]
    results = [chosen.apply(Type(kind), value) for value in values]
    assert chosen.apply_integers(Type(kind), np.array(values, dtype=np.int64)).tolist() == results
    assert all(chosen.yields(Type(kind), result) for result in results)
    assert not chosen.yields(Type(kind), 7)
    assert not chosen.yields(Type(kind), results[0] - 2)


@pytest.mark.parametrize("text", ["bucket[0]", "truncate[0]", "bucket", "", None, 5])
def test_an_impossible_transform_is_refused(text):
    with pytest.raises(MalformedError):
        parse_transform(text)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", True),
        ("int", -5),
        ("long", 2**62),
        ("double", 1.5),
        ("float", -0.0),
        ("date", -400_000_000),
        ("decimal(38,10)", -(10**37)),
        ("string", "ä"),
        ("binary", b""),
        ("uuid", bytes(16)),
    ],
)
def test_a_value_survives_its_binary_form(kind, value):
    assert decode(parse_type(kind), encode(parse_type(kind), value)) == value


def test_bounds_of_promoted_columns_are_read_by_their_length():
    assert decode(Type("long"), (7).to_bytes(4, "little")) == 7
    assert decode(Type("double"), encode(Type("float"), 1.5)) == 1.5
    assert decode(Type("timestamp"), (1).to_bytes(4, "little")) == 86_400_000_000


@pytest.mark.parametrize(("number", "length"), [(0, 1), (127, 1), (128, 2), (-128, 1), (-129, 2), (32768, 3)])
def test_decimals_take_the_fewest_bytes(number, length):
    assert minimal_bytes(number) == length
    assert Decimal(number) == int.from_bytes(number.to_bytes(length, "big", signed=True), "big", signed=True)


def test_floats_stand_in_total_order():
    values = [float("nan"), 0.0, 1.0, float("-inf"), -0.0]
    assert [str(one) for one in sorted(values, key=order)] == ["-inf", "-0.0", "0.0", "1.0", "nan"]
