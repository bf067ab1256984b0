"""DuckDB's SQL: names, literals, row filters and error messages.

A row filter is a tree of value sets, each for one column, without negations; a set may contain null and NaN. DuckDB
treats NaN as the largest number, so ranges without an upper limit exclude it explicitly.
"""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

from floe_core.errors import CapabilityError
from floe_iceberg.read.filters.binding import AllOf, AnyOf, In, Matches
from floe_iceberg.read.filters.domains import is_bytes, is_float, unscaled
from floe_iceberg.read.filters.syntax import Wildcard
from floe_iceberg.read.predicates import RowPredicate
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from floe_iceberg.read.filters.binding import Bound, Column
    from floe_iceberg.read.filters.values import Span, ValueSet
    from pyiceberg.types import IcebergType

_EPOCHS: dict[type[IcebergType], str] = {
    DateType: "(DATE '1970-01-01' + {})",
    TimeType: "(TIME '00:00:00' + to_microseconds({}))",
    TimestampType: "make_timestamp({})",
    TimestamptzType: "make_timestamptz({})",
    TimestampNanoType: "make_timestamp_ns({})",
}


def quoted(path: Sequence[str]) -> str:
    """Quote a column, or the path of a field in structs."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in path)


def text(value: str) -> str:
    """Return a string literal."""
    return "'" + value.replace("'", "''") + "'"


def scalar(value: float | str | bool) -> str:  # noqa: FBT001 - a value of floe.yaml
    """Return a literal that DuckDB casts to the type that it is compared with."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"'{value}'::DOUBLE"
    return text(value) if isinstance(value, str) else str(value).lower()


def predicate_of(row_filter: object) -> RowPredicate | None:
    """Return a row filter that is not SQL of a user, None without one.

    Raises:
        TypeError: It is no row filter.
    """
    if row_filter is None or isinstance(row_filter, str):
        return None
    if isinstance(row_filter, RowPredicate):
        return row_filter
    msg = f"{type(row_filter).__name__} is not a row filter"
    raise TypeError(msg)


def condition(row_filter: object) -> str:
    """Format a row filter as SQL; strings are SQL conditions written by users.

    Raises:
        CapabilityError: DuckDB cannot compare the type of a column.
        TypeError: It is no row filter.
    """
    if predicate := predicate_of(row_filter):
        return _bound(predicate.bound)
    # The line break ends a trailing comment in the condition.
    return f"({row_filter}\n)"


def all_of(conditions: Iterable[str]) -> str:
    """Combine conditions with AND."""
    return " AND ".join(f"({one})" for one in conditions) or "true"


def reason(message: str) -> str:
    """Return a DuckDB error message in one line, without its kind and the excerpt of the query."""
    first = " ".join(message.split("\n\n", 1)[0].split())
    kind, separator, said = first.partition(": ")
    return said if separator and kind.endswith("Error") else first


def _bound(bound: Bound) -> str:
    match bound:
        case AllOf(operands):
            return all_of(map(_bound, operands))
        case AnyOf(operands):
            return " OR ".join(f"({_bound(operand)})" for operand in operands) or "false"
        case Matches(column, pattern, negated, _):
            like = "".join(part if isinstance(part, Wildcard) else _escaped(part) for part in pattern)
            return f"{quoted(column.path)} {'NOT ' if negated else ''}LIKE {text(like)} ESCAPE '!'"
        case In(column, values):
            parts = list(_parts(column, values))
            return " OR ".join(f"({part})" for part in parts)


def _escaped(part: str) -> str:
    return part.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def _parts(column: Column, values: ValueSet) -> Iterable[str]:
    name = quoted(column.path)
    if values.nulls:
        yield f"{name} IS NULL"
    if values.has_all_values:
        yield f"{name} IS NOT NULL"
        return
    left_out = values.complement().spans
    if 0 < len(left_out) < len(values.spans) and all(span.is_point for span in left_out):
        nan = f" AND NOT isnan({name})" if is_float(column.type) and not values.nan else ""
        yield f"{name} NOT IN ({_listed(column, left_out)}){nan}"
        return
    if points := [span for span in values.spans if span.is_point]:
        yield f"{name} IN ({_listed(column, points)})"
    for span in values.spans:
        if not span.is_point:
            yield _span(column, span, values)
    if values.nan:
        yield f"isnan({name})"


def _span(column: Column, span: Span, values: ValueSet) -> str:
    name, (first, last) = quoted(column.path), values.order.limits or (None, None)
    parts = [f"{name} IS NOT NULL"]
    if span.low is not None and span.low != first:
        parts.append(f"{name} {'>' if span.low_open else '>='} {_literal(span.low, column.type)}")
    if span.high is not None and span.high != last:
        parts.append(f"{name} {'<' if span.high_open else '<='} {_literal(span.high, column.type)}")
    elif is_float(column.type):
        parts.append(f"NOT isnan({name})")
    return " AND ".join(parts)


def _listed(column: Column, points: Iterable[Span]) -> str:
    return ", ".join(_literal(point.low, column.type) for point in points)


def _literal(value: Any, kind: IcebergType) -> str:  # noqa: ANN401, PLR0911 - one return per type
    if isinstance(kind, StringType):
        return text(value.decode())
    if isinstance(kind, UUIDType):
        return f"UUID '{uuid.UUID(bytes=value)}'"
    if is_bytes(kind):
        return f"unhex('{value.hex()}')"
    if is_float(kind):
        return f"'{value!r}'::DOUBLE"
    if isinstance(kind, BooleanType):
        return str(bool(value)).lower()
    if isinstance(kind, DecimalType):
        return f"{unscaled(value, kind.scale):f}::DECIMAL({kind.precision}, {kind.scale})"
    if form := _EPOCHS.get(type(kind)):
        return form.format(value)
    if not kind.is_primitive or "timestamp" in str(kind):
        msg = f"DuckDB cannot compare values of type {kind}."
        raise CapabilityError(msg, hint="Use engine='arrow'.")
    return str(value)
