"""Sample columns, values and literals for tests of row filters: type limits, signed zeros and unusual text."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("n", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("d", pa.decimal128(9, 2)),
        ("s", pa.string()),
        ("b", pa.binary()),
        ("day", pa.date32()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
    ]
)
# Values of each column, except null.
VALUES: dict[str, list[Any]] = {
    "i": [0, 1, 2, -1, 10, -(2**31), 2**31 - 1],
    "n": [0, 1, 2, 2**53 + 1, -(2**63), 2**63 - 1],
    "x": [0.0, -0.0, 0.1, 1.5, -3.0, 1e300, math.inf, -math.inf, math.nan],
    "f": [0.10000000149011612, 0.0, -0.0, 1.5, math.inf, -math.inf, math.nan],
    "d": [Decimal("1.00"), Decimal("1.01"), Decimal("0.00"), Decimal("-9999999.90"), Decimal("9999999.99")],
    "s": ["", "a", "ab", "b", "it's", "Ω", "\U0001f600", "z" * 40, "z" * 39 + "y", "100%", "a_b", "\\", "${env:HOME}"],
    "b": [b"", b"a", b"\x00", b"\xff" * 20, b"\xff" * 21],
    "day": [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(1, 1, 1), date(9999, 12, 31)],
    "ts": [datetime.fromisoformat(text) for text in ("1970-01-01", "1969-12-31T23:59:59.999999", "2024-02-29T12:30")],
    "tz": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1960, 1, 1, 5, tzinfo=UTC),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
    ],
    "flag": [True, False],
}
# Literals to compare each column with: its values, and others between and beyond them.
LITERALS: dict[str, list[Any]] = {
    "i": [0, 1, 2, Decimal("1.5"), Decimal("1.0"), Decimal("-0.5"), 3_000_000_000, -(2**31), 2**31 - 1, 10**30],
    "n": [0, 2, Decimal("0.999"), 2**53, 2**53 + 1, -(2**63), 2**63 - 1, 2**63, Decimal("1e25")],
    "x": [0.0, -0.0, 0.1, 1.5, -3.0, 1e300, 0, 1],
    "f": [0.1, 0.10000000149011612, 0.0, -0.0, 1.5, 2, 1e300],
    "d": [Decimal("1.005"), Decimal("1.00"), Decimal("1.01"), 1, Decimal("1e-9"), 10**12, Decimal("-0.001")],
    "s": [*VALUES["s"], "aa", "z" * 16, "zzzzzzzzzzzzzzzz{"],
    "b": [*VALUES["b"], b"\xfe"],
    "day": [*VALUES["day"], date(2024, 3, 1)],
    "ts": [*VALUES["ts"], datetime.fromisoformat("2024-01-01")],
    "tz": [*VALUES["tz"], datetime(2024, 1, 1, tzinfo=UTC)],
    "flag": [True, False],
}
