"""A Python model of SQL predicates with three-valued logic, as a reference for engines.

It is independent of floe's filters: rows are dicts, a predicate is true, false or None (null) for a row, and a row is
selected or deleted only if the predicate is true. Comparisons follow Spark: NaN equals NaN and is greater than any
number, the two zeros are equal, integers and decimals compare exactly, and floats compare as doubles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

Row = dict[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Compare:
    """``column operator value``, with SQL operators."""

    column: str
    operator: str
    value: Any


@dataclass(frozen=True)
class Among:
    """``column IN (values)``; None in the values is null."""

    column: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Between:
    """``column BETWEEN low AND high``."""

    column: str
    low: Any
    high: Any


@dataclass(frozen=True)
class IsNull:
    """``column IS NULL``."""

    column: str


@dataclass(frozen=True)
class IsNaN:
    """``isnan(column)``, which is false for null."""

    column: str


@dataclass(frozen=True)
class StartsWith:
    """``column LIKE 'prefix%'``."""

    column: str
    prefix: str


@dataclass(frozen=True)
class Not:
    """``NOT operand``."""

    operand: Predicate


@dataclass(frozen=True)
class And:
    """``left AND right``."""

    left: Predicate
    right: Predicate


@dataclass(frozen=True)
class Or:
    """``left OR right``."""

    left: Predicate
    right: Predicate


Predicate = Compare | Among | Between | IsNull | IsNaN | StartsWith | Not | And | Or

_OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def evaluate(predicate: Predicate, row: Mapping[str, Any]) -> Truth:  # noqa: PLR0911 - one return per kind
    """Return the value of a predicate for a row: True, False, or None for null."""
    match predicate:
        case Compare(column, operator, value):
            return _compare(row[column], operator, value)
        case Among(column, values):
            return _any([_compare(row[column], "=", value) for value in values])
        case Between(column, low, high):
            return _all([_compare(row[column], ">=", low), _compare(row[column], "<=", high)])
        case IsNull(column):
            return row[column] is None
        case IsNaN(column):
            return isinstance(row[column], float) and math.isnan(row[column])
        case StartsWith(column, prefix):
            return None if row[column] is None else row[column].startswith(prefix)
        case Not(operand):
            truth = evaluate(operand, row)
            return None if truth is None else not truth
        case And(left, right):
            return _all([evaluate(left, row), evaluate(right, row)])
        case Or(left, right):
            return _any([evaluate(left, row), evaluate(right, row)])


def selected(rows: Iterable[Row], predicate: Predicate) -> list[Row]:
    """Return the rows that a SELECT with this predicate returns."""
    return [row for row in rows if evaluate(predicate, row) is True]


def remaining(rows: Iterable[Row], predicate: Predicate) -> list[Row]:
    """Return the rows that a DELETE with this predicate keeps."""
    return [row for row in rows if evaluate(predicate, row) is not True]


def _all(truths: list[Truth]) -> Truth:
    if False in truths:
        return False
    return None if None in truths else True


def _any(truths: list[Truth]) -> Truth:
    if True in truths:
        return True
    return None if None in truths else False


def _compare(value: Any, operator: str, other: Any) -> Truth:
    if value is None or other is None:
        return None
    return _OPERATORS[operator](_order(value, other))


def _order(value: Any, other: Any) -> int:
    if isinstance(value, float):
        other = float(other)
        if math.isnan(value) or math.isnan(other):
            return math.isnan(value) - math.isnan(other)
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        if isinstance(other, float) and math.isinf(other):
            return -1 if other > 0 else 1
        value, other = Fraction(value), Fraction(other)
    return int(value > other) - int(value < other)


def comparable(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a sortable form of a row; NaN equals NaN, and zeros differ by sign."""
    return tuple((name, repr(value)) for name, value in sorted(row.items()))


def filter_text(predicate: Predicate) -> str:
    """Format a predicate as a floe row filter."""
    return _written(predicate, _floe_literal, nan=lambda column: f"{column} is nan")


def spark_text(predicate: Predicate) -> str:
    """Format a predicate as Spark SQL."""
    return _written(predicate, _spark_literal, nan=lambda column: f"isnan({column})")


def _written(predicate: Predicate, literal: Callable[[Any], str], nan: Callable[[str], str]) -> str:  # noqa: C901
    def written(inner: Predicate) -> str:  # noqa: PLR0911 - one return per kind
        match inner:
            case Compare(column, operator, value):
                return f"{_name(column)} {operator} {literal(value)}"
            case Among(column, values):
                return f"{_name(column)} in ({', '.join(literal(value) for value in values)})"
            case Between(column, low, high):
                return f"{_name(column)} between {literal(low)} and {literal(high)}"
            case IsNull(column):
                return f"{_name(column)} is null"
            case IsNaN(column):
                return nan(_name(column))
            case StartsWith(column, prefix):
                pattern = "".join(f"\\{c}" if c in "%_\\" else c for c in prefix)
                return f"{_name(column)} like {literal(pattern + '%')}"
            case Not(operand):
                return f"not ({written(operand)})"
            case And(left, right):
                return f"({written(left)} and {written(right)})"
            case Or(left, right):
                return f"({written(left)} or {written(right)})"

    return written(predicate)


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def _floe_literal(value: Any) -> str:  # noqa: PLR0911 - one return per type
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime() | date():
            return f"'{value.isoformat()}'"
        case _:
            return "'" + str(value).replace("'", "''") + "'"


def _spark_literal(value: Any) -> str:
    match value:
        case float():
            return f"{value!r}D"
        case datetime():
            zone = "NTZ" if value.tzinfo is None else "LTZ"
            return f"TIMESTAMP_{zone} '{value.isoformat()}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return _floe_literal(value)


def random_predicate(random: Random, literals: Mapping[str, list[Any]], depth: int = 3) -> Predicate:
    """Generate a random predicate over columns, from the literals given for each."""
    if depth and random.random() < 0.5:
        first = random_predicate(random, literals, depth - 1)
        if random.random() < 1 / 3:
            return Not(first)
        return random.choice((And, Or))(first, random_predicate(random, literals, depth - 1))
    column = random.choice(sorted(literals))
    values = literals[column]
    low, high = random.choice(values), random.choice(values)
    texts = [value for value in values if isinstance(value, str)]
    kinds: list[Callable[[], Predicate]] = [
        lambda: Compare(column, random.choice(list(_OPERATORS)), low),
        lambda: Compare(column, random.choice(list(_OPERATORS)), low),
        lambda: Among(column, tuple(random.choices(values, k=random.randint(1, 4)))),
        lambda: Among(column, (low, None)),
        lambda: Between(column, low, high),
        lambda: IsNull(column),
    ]
    if any(isinstance(value, float) for value in values):
        kinds.append(lambda: IsNaN(column))
    if texts:
        kinds.append(lambda: StartsWith(column, random.choice(texts)[: random.randint(0, 4)]))
    return random.choice(kinds)()
