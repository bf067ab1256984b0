"""A table as a list of rows: upserts, and a representation that compares rows of different engines."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from floe_testing.oracles.sql_model import Row

_REPEATED = re.compile(r"(.{1,4}?)\1{20,}")


def upserted(rows: Sequence[Row], given: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Return the rows after an upsert: rows with a given key get the new values, new keys are added."""
    by_key = {tuple(row[key] for key in keys): row for row in given}
    found = {tuple(row[key] for key in keys) for row in rows}
    kept = [{**row, **by_key.get(tuple(row[key] for key in keys), {})} for row in rows]
    return [*kept, *(row for key, row in by_key.items() if key not in found)]


def comparable(rows: Iterable[Row]) -> list[str]:
    """Return sorted representations of rows, which are equal for equal multisets; zeros keep their signs."""
    return sorted(repr(_plain(row)) for row in rows)


def difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """Describe which comparable rows are missing and which are unexpected."""
    missing = [_short(one) for one in expected if expected.count(one) > found.count(one)]
    unexpected = [_short(one) for one in found if found.count(one) > expected.count(one)]
    return f"missing {missing}, unexpected {unexpected}"


def _short(row: str) -> str:
    return _REPEATED.sub(r"\1…", row)


def _plain(value: Any) -> Any:
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case dict():
            return {name: _plain(item) for name, item in sorted(value.items())}
        case list():
            return [_plain(item) for item in value]
        case bytearray():
            return bytes(value)
        case _:
            return value
