"""Upsert keys: equality, and rejected values."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.types import DecimalType

from floe_core.errors import InvalidDataError, SchemaEvolutionError

KEYS = {
    "int": pa.array([1, -2, 3], pa.int32()),
    "text": pa.array(["", "ü", "a" * 5000]),
    "large_text": pa.array(["", "ü", "b"], pa.large_string()),
    "binary": pa.array([b"", b"\xff", b"a" * 5000], pa.binary()),
    "fixed": pa.array([b"ab", b"\xff\xff", b"\x00\x00"], pa.binary(2)),
    "uuid": pa.array([uuid.UUID(int=number).bytes for number in (0, 7, 2**128 - 1)], pa.uuid()),
    "bool": pa.array([True, False]),
    "decimal": pa.array([Decimal("1.10"), Decimal("-9" + "9" * 35 + ".99")], pa.decimal128(38, 2)),
    "float": pa.array([0.0, math.nan, math.inf, -1.5], pa.float32()),
    "double": pa.array([0.0, math.nan, -math.inf, 1e300]),
    "date": pa.array([-1_000_000, 5_000_000, 0], pa.date32()),
    "time": pa.array([0, 86_399_999_999], pa.time64("us")),
    "timestamp": pa.array([-(2**62), 2**62, -1], pa.timestamp("us")),
    "timestamptz": pa.array([-(2**62), 2**62, -1], pa.timestamp("us", tz="UTC")),
}


def values(manager) -> list[int]:
    return sorted(manager.scan("bronze.t", columns=["v"])["v"].to_pylist())


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("other", [False, True], ids=["alone", "with another"])
def test_a_key_of_any_type_finds_its_row(manager, kind, other):
    keys = KEYS[kind]
    rows = pa.table({"k": keys, "o": [7] * len(keys), "v": range(len(keys))})
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    again = rows.set_column(2, "v", pa.array(range(100, 100 + len(keys)))).slice(1)
    for _ in range(2):
        manager.upsert("bronze.t", again, keys=["k", "o"] if other else ["k"])
        assert values(manager) == [0, *again["v"].to_pylist()]


@pytest.mark.parametrize("keys", [["k"], ["k", "o"]])
def test_zeros_of_both_signs_and_every_nan_are_one_key(manager, keys):
    rows = pa.table({"k": [-0.0, math.nan], "o": [1, 1], "v": [1, 2]})
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    manager.upsert("bronze.t", pa.table({"k": [0.0, -math.nan], "o": [1, 1], "v": [10, 20]}), keys=keys)
    assert values(manager) == [10, 20]
    with pytest.raises(InvalidDataError, match="2 duplicate keys"):
        manager.upsert("bronze.t", pa.table({"k": [0.0, -0.0, math.nan, math.nan], "o": [1] * 4, "v": [1] * 4}), keys)


def test_null_in_a_key_is_refused(manager):
    manager.create_table("bronze.t", pa.schema([("k", pa.int64()), ("s", pa.struct([("k", pa.string())]))]))
    nested = pa.array([{"k": "a"}, {"k": None}, None], pa.struct([("k", pa.string())]))
    with pytest.raises(InvalidDataError, match=r"nulls in key columns: k \(1 row\).*null_keys: match"):
        manager.upsert("bronze.t", pa.table({"k": [1, None, 2], "s": nested}), keys=["k"])
    with pytest.raises(InvalidDataError, match=r"s.k \(2 rows\)"):
        manager.upsert("bronze.t", pa.table({"k": [1, 2, 3], "s": nested}), keys=["s.k"])
    assert manager.scan("bronze.t").num_rows == 0


def test_rows_with_null_in_the_key_column_stay(manager):
    manager.create_table("bronze.t", pa.schema([("k", pa.int64()), ("v", pa.int64())]))
    manager.append("bronze.t", pa.table({"k": [None, 1, None], "v": [1, 2, 3]}))
    manager.upsert("bronze.t", pa.table({"k": [1, 0], "v": [20, 30]}), keys=["k"])
    assert values(manager) == [1, 3, 20, 30]


def test_decimals_keep_their_scale(manager):
    rows = pa.table({"k": [1], "d": pa.array([Decimal("1.25")], pa.decimal128(10, 2))})
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    narrow = pa.table({"k": [2], "d": pa.array([Decimal("2.5")], pa.decimal128(4, 1))})
    manager.append("bronze.t", narrow)
    finer = pa.table({"k": [3], "d": pa.array([Decimal("1.2345")], pa.decimal128(12, 4))})
    with pytest.raises(SchemaEvolutionError):
        manager.append("bronze.t", finer)
    manager.append("bronze.t", pa.table({"k": [3], "d": pa.array([Decimal("9.99")], pa.decimal128(20, 2))}))
    assert manager.load_table("bronze.t").schema().find_type("d") == DecimalType(20, 2)
    found = manager.scan("bronze.t").sort_by("k")["d"].to_pylist()
    assert found == [Decimal("1.25"), Decimal("2.50"), Decimal("9.99")]
