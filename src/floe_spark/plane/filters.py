"""Generates Spark SQL from floe's parsed filters.

Literals have the column's type, and their meaning does not depend on the session's settings. NaN, both zeros and null
are explicit, because Iceberg's Java implementation prunes files differently from Spark's evaluation: its statistics do
not include NaN, it orders -0.0 below 0.0, and it orders a null partition below every value, so a delete could remove
that partition.
"""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IcebergType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from floe_core.errors import CapabilityError
from floe_iceberg.read.filters.binding import AllOf, AnyOf, In, Matches
from floe_iceberg.read.filters.domains import MICROS_PER_DAY, is_bytes, is_float, unscaled
from floe_iceberg.read.filters.syntax import Wildcard
from floe_iceberg.read.predicates import RowPredicate
from floe_spark.plane.sql import quoted_path

if TYPE_CHECKING:
    from floe_iceberg.read.filters.binding import Bound, Column
    from floe_iceberg.read.filters.values import Span, ValueSet

_UNSUPPORTED = (TimeType, TimestampNanoType, TimestamptzNanoType)
# Strings that Spark's parser reads the same way with any settings.
_PLAIN_TEXT = re.compile(r"[^'\\\x00-\x1f\x7f$]*")
_FIRST_DAY, _LAST_DAY = date(1, 1, 1).toordinal() - 719_163, date(9999, 12, 31).toordinal() - 719_163


def filter_sql(row_filter: object) -> str | None:
    """Return a request's row filter as Spark SQL; a string is already Spark SQL, and None means no filter.

    Raises:
        CapabilityError: Spark does not support the type or the name of a column.
        TypeError: The object is not a row filter.
    """
    if row_filter is None or isinstance(row_filter, str):
        return row_filter or None
    if isinstance(row_filter, RowPredicate):
        return spark_sql(row_filter.bound)
    msg = f"{type(row_filter).__name__} is not a row filter"
    raise TypeError(msg)


def condition_sql(text: str) -> str:
    """Parenthesize a user's condition; the line breaks end a trailing comment in it."""
    return f"(\n{text}\n)"


def spark_sql(bound: Bound) -> str:
    """Return a filter as Spark SQL.

    Raises:
        CapabilityError: Spark does not support the type or the name of a column.
    """
    match bound:
        case AllOf(operands) | AnyOf(operands):
            if not operands:
                return "true" if isinstance(bound, AllOf) else "false"
            word = " AND " if isinstance(bound, AllOf) else " OR "
            return f"({word.join(spark_sql(operand) for operand in operands)})"
        case In(column, values):
            return _in(column, values)
        case Matches(column, pattern, negated, _):
            name, text = quoted_path(column.path), _text(_like(pattern))
            if negated:
                return f"({name} IS NOT NULL AND {name} NOT LIKE {text} ESCAPE '!')"
            return f"{name} LIKE {text} ESCAPE '!'"


def _text(text: str) -> str:
    """Return a string literal that does not depend on the settings of the session's parser."""
    if _PLAIN_TEXT.fullmatch(text):
        return f"'{text}'"
    return f"cast(X'{text.encode().hex()}' AS string)"


def _like(pattern: tuple[str | Wildcard, ...]) -> str:
    return "".join(part if isinstance(part, Wildcard) else re.sub("([!%_])", r"!\1", part) for part in pattern)


def _in(column: Column, values: ValueSet) -> str:
    if isinstance(column.type, _UNSUPPORTED):
        msg = f"Spark cannot compare column '{'.'.join(column.path)}' of type {column.type}."
        raise CapabilityError(msg, hint="Use engine='arrow'.")
    name = quoted_path(column.path)
    parts: list[str] = []
    if values.has_all_values:
        parts.append(f"{name} IS NOT NULL")
    else:
        others = values.complement()
        if 0 < len(others.spans) < len(values.spans) and all(span.is_point for span in others.spans):
            listed = _listed(column, others.spans)
            nan = f" AND NOT isnan({name})" if is_float(column.type) and not values.nan else ""
            parts.append(f"({name} IS NOT NULL AND NOT ({name} IN ({listed})){nan})")
        else:
            parts += _spans(name, column, values)
    if values.nulls:
        parts.append(f"{name} IS NULL")
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def _spans(name: str, column: Column, values: ValueSet) -> list[str]:
    parts = []
    if points := tuple(span for span in values.spans if span.is_point):
        parts.append(f"{name} IN ({_listed(column, points)})")
    parts += [_span(name, column, span, values) for span in values.spans if not span.is_point]
    if values.nan:
        parts.append(f"isnan({name})")
    return parts


def _span(name: str, column: Column, span: Span, values: ValueSet) -> str:
    first, last = values.order.limits or (None, None)
    if span.low is not None and span.low != first:
        # Java orders -0.0 below 0.0, so a lower bound of zero is the lower zero.
        low = _literal(-0.0 if span.low == 0 and is_float(column.type) else span.low, column.type)
        parts = [f"{name} {'>' if span.low_open else '>='} {low}"]
    else:
        parts = [f"{name} IS NOT NULL"]
    if span.high is not None and span.high != last:
        high = _literal(0.0 if span.high == 0 and is_float(column.type) else span.high, column.type)
        parts.append(f"{name} {'<' if span.high_open else '<='} {high}")
    if is_float(column.type) and span.high is None and not values.nan:
        parts.append(f"NOT isnan({name})")
    return parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})"


def _listed(column: Column, points: tuple[Span, ...]) -> str:
    values = [point.low for point in points]
    if is_float(column.type) and 0.0 in values:
        values = [*(value for value in values if value != 0), 0.0, -0.0]
    return ", ".join(_literal(value, column.type) for value in values)


def _literal(value: Any, kind: IcebergType) -> str:  # noqa: ANN401, PLR0911 - one case per type
    if isinstance(kind, StringType):
        return _text(value.decode())
    if isinstance(kind, UUIDType):
        return f"'{uuid.UUID(bytes=value)}'"
    if is_bytes(kind):
        return f"X'{value.hex()}'"
    if is_float(kind):
        return f"double('{'-' if value < 0 else ''}Infinity')" if math.isinf(value) else f"{value!r}D"
    if isinstance(kind, BooleanType):
        return "true" if value else "false"
    if isinstance(kind, DecimalType):
        return f"{unscaled(value, kind.scale):f}BD"
    if isinstance(kind, DateType):
        if not _FIRST_DAY <= value <= _LAST_DAY:
            return f"date_from_unix_date({value})"
        return f"DATE '{date.fromordinal(value + 719_163).isoformat()}'"
    if isinstance(kind, TimestampType | TimestamptzType):
        return _timestamp(value, zoned=isinstance(kind, TimestamptzType))
    return f"{value}L" if abs(value) >= 2**31 else str(value)


def _timestamp(micros: int, *, zoned: bool) -> str:
    if not _FIRST_DAY * MICROS_PER_DAY <= micros < (_LAST_DAY + 1) * MICROS_PER_DAY:
        found = f"timestamp_micros({micros}L)"
        return found if zoned else f"cast({found} AS timestamp_ntz)"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    text = moment.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return f"TIMESTAMP_LTZ '{text} UTC'" if zoned else f"TIMESTAMP_NTZ '{text}'"
