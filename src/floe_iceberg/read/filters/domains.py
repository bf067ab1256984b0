"""Converts values of each column type to integers, bytes or floats that compare exactly.

Integers, unscaled decimals, dates, times, timestamps and booleans become integers, strings become their UTF-8 bytes,
which sort in code point order, and floats stay floats.
"""

from __future__ import annotations

import math
import re
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from floe_iceberg.read.filters.syntax import Kind, Literal
from floe_iceberg.read.filters.values import Order

MICROS_PER_DAY = 86_400_000_000
_INT32, _INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
_FLOATS = (FloatType, DoubleType)
_BYTES = (StringType, BinaryType, FixedType, UUIDType)
_NAIVE = (TimestampType, TimestampNanoType)
_ZONED = (TimestamptzType, TimestamptzNanoType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)
_LIMITS: dict[type[IcebergType], tuple[int, int]] = {
    BooleanType: (0, 1),
    IntegerType: _INT32,
    LongType: _INT64,
    DateType: _INT32,
    TimeType: (0, MICROS_PER_DAY - 1),
}
_TIMESTAMP = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)"
    r"(?:[T ](?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,9}))?\s*(?P<zone>Z|z|[+-]\d\d:?\d\d)?)?"
)
_CLOCK = re.compile(r"(?P<clock>\d\d:\d\d(?::\d\d)?)(?:\.(?P<fraction>\d{1,6}))?")
_EPOCH = date(1970, 1, 1)
_MAX_DIGITS = 80
_USE_IS_NAN = "Use 'is nan' to test for NaN."
_OUT_OF_RANGE = Fraction(10**400)


class IncompatibleLiteralError(ValueError):
    """A literal that cannot be compared with a column; the hint has the correct syntax."""

    def __init__(self, *, hint: str) -> None:
        """Store a hint for the correct syntax."""
        super().__init__(hint)
        self.hint = hint


def order_of(kind: IcebergType) -> Order | None:
    """Return the order of a type's values; None if they cannot be compared."""
    if isinstance(kind, _FLOATS):
        return Order(has_nan=True)
    if isinstance(kind, _BYTES):
        return Order()
    if isinstance(kind, DecimalType):
        limit = 10**kind.precision - 1
        return Order((-limit, limit))
    if isinstance(kind, (*_NAIVE, *_ZONED)):
        return Order(_INT64)
    limits = _LIMITS.get(type(kind))
    return Order(limits) if limits else None


def is_bytes(kind: IcebergType) -> bool:
    """Whether values of a type are represented as bytes."""
    return isinstance(kind, _BYTES)


def is_float(kind: IcebergType) -> bool:
    """Whether values of a type are represented as floats."""
    return isinstance(kind, _FLOATS)


def stored(value: Any, kind: IcebergType) -> Any:  # noqa: ANN401, C901, PLR0911 - one case per type
    """Convert a value from PyIceberg, such as a partition value; null stays None.

    Raises:
        ValueError: The value does not have the type.
    """
    if value is None:
        return None
    match value:
        case bool():
            return int(value)
        case str():
            return uuid.UUID(value).bytes if isinstance(kind, UUIDType) else value.encode()
        case uuid.UUID():
            return value.bytes
        case Decimal() if isinstance(kind, DecimalType):
            return int(Fraction(value) * 10**kind.scale)
        case datetime():
            return _micros(value) * (1000 if isinstance(kind, _NANOS) else 1)
        case date():
            return (value - _EPOCH).days
        case time():
            return _clock_micros(value)
        case int() if is_float(kind):
            return float(value)
        case int() | float() | bytes():
            return value
    msg = f"{value!r} is not a value of type {kind}"
    raise ValueError(msg)


def unscaled(digits: int, scale: int) -> Decimal:
    """Return the decimal with the given unscaled value and scale."""
    with localcontext() as context:
        context.prec = _MAX_DIGITS
        return Decimal(digits).scaleb(-scale)


def bound(content: bytes | None, kind: IcebergType) -> Any:  # noqa: ANN401, PLR0911 - one case per type
    """Decode a lower or upper bound; None if there is none or it is unreliable.

    A widened column has bounds of its old type in older files.
    """
    if content is None:
        return None
    if isinstance(kind, _FLOATS):
        return _float(content)
    if isinstance(kind, UUIDType):
        # Writers disagree on whether UUIDs are compared as signed numbers.
        return None
    if isinstance(kind, _BYTES):
        return bytes(content)
    if isinstance(kind, DecimalType):
        return int.from_bytes(content, "big", signed=True)
    if isinstance(kind, BooleanType):
        return int(content != b"\x00")
    widths = {4, 8} if isinstance(kind, LongType) else {4} if isinstance(kind, (IntegerType, DateType)) else {8}
    return int.from_bytes(content, "little", signed=True) if len(content) in widths else None


def _float(content: bytes) -> float | None:
    if len(content) not in {4, 8}:
        return None
    value: float = struct.unpack("<f" if len(content) == 4 else "<d", content)[0]  # noqa: PLR2004 - bytes of a float
    return None if math.isnan(value) else value


def point(literal: Literal, kind: IcebergType) -> Fraction | float | bytes:  # noqa: PLR0911 - one case per type
    """Convert a literal exactly; a literal between two values of the type is not rounded.

    Raises:
        IncompatibleLiteralError: The literal cannot be compared with the type.
    """
    if isinstance(kind, _FLOATS):
        return _as_float(literal)
    if isinstance(kind, StringType):
        return _as_text(literal)
    if isinstance(kind, UUIDType):
        return _as_uuid(literal)
    if isinstance(kind, _BYTES):
        return _as_bytes(literal)
    if isinstance(kind, BooleanType):
        if literal.kind is not Kind.BOOLEAN:
            raise IncompatibleLiteralError(hint="Compare it with true or false.")
        return Fraction(int(literal.value))
    if isinstance(kind, DateType):
        return _as_date(literal)
    if isinstance(kind, TimeType):
        return _as_time(literal)
    if isinstance(kind, (*_NAIVE, *_ZONED)):
        return _as_timestamp(literal, kind)
    digits: int = kind.scale if isinstance(kind, DecimalType) else 0
    return _as_number(literal) * Fraction(10) ** digits


def _as_number(literal: Literal) -> Fraction:
    if literal.kind is not Kind.NUMBER:
        raise IncompatibleLiteralError(hint="Compare it with a number, without quotes.")
    value = literal.value
    if isinstance(value, float) and math.isnan(value):
        raise IncompatibleLiteralError(hint=_USE_IS_NAN)
    if isinstance(value, float):
        if math.isinf(value):
            return _OUT_OF_RANGE if value > 0 else -_OUT_OF_RANGE
        # A float from a caller means its decimal representation: 1.1, not the nearest binary fraction.
        return Fraction(repr(value))
    return Fraction(value)  # type: ignore[arg-type]


def _as_float(literal: Literal) -> float:
    if literal.kind is not Kind.NUMBER:
        raise IncompatibleLiteralError(hint=f"Compare it with a number, without quotes. {_USE_IS_NAN}")
    value = literal.value
    try:
        found = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]
    if math.isnan(found):
        raise IncompatibleLiteralError(hint=_USE_IS_NAN)
    return found


def _as_text(literal: Literal) -> bytes:
    if literal.kind is not Kind.TEXT:
        raise IncompatibleLiteralError(hint="Compare it with a string in single quotes.")
    try:
        return str(literal.value).encode()
    except UnicodeEncodeError as err:
        raise IncompatibleLiteralError(hint="The string is not valid Unicode.") from err


def _as_bytes(literal: Literal) -> bytes:
    if literal.kind is not Kind.BYTES:
        raise IncompatibleLiteralError(hint="Compare it with bytes, such as X'00ff'.")
    return bytes(literal.value)  # type: ignore[arg-type]


def _as_uuid(literal: Literal) -> bytes:
    if literal.kind is Kind.BYTES and len(bytes(literal.value)) == 16:  # type: ignore[arg-type]  # noqa: PLR2004 - bytes of a UUID
        return bytes(literal.value)  # type: ignore[arg-type]
    try:
        return uuid.UUID(str(literal.value) if literal.kind is Kind.TEXT else "").bytes
    except ValueError as err:
        raise IncompatibleLiteralError(
            hint="Compare it with a UUID, such as 'f79c3e09-677c-4bbd-a479-3f349cb785e7'."
        ) from err


def _as_date(literal: Literal) -> Fraction:
    if literal.kind is Kind.DATE:
        return Fraction(literal.value)  # type: ignore[arg-type]
    if literal.kind is Kind.TIMESTAMP:
        return Fraction(literal.value, MICROS_PER_DAY)  # type: ignore[arg-type]
    try:
        return Fraction((date.fromisoformat(_text(literal)) - _EPOCH).days)
    except ValueError as err:
        raise IncompatibleLiteralError(hint="Compare it with a date, such as '2026-01-31'.") from err


def _as_time(literal: Literal) -> Fraction:
    if literal.kind is Kind.TIME:
        return Fraction(literal.value)  # type: ignore[arg-type]
    match = _CLOCK.fullmatch(_text(literal))
    try:
        clock = time.fromisoformat(match["clock"] if match else "")
    except ValueError as err:
        raise IncompatibleLiteralError(hint="Compare it with a time, such as '23:59:59.5'.") from err
    fraction = (match["fraction"] or "") if match else ""
    return Fraction(_clock_micros(clock) + int(fraction.ljust(6, "0")))


def _as_timestamp(literal: Literal, kind: IcebergType) -> Fraction:
    units = 1000 if isinstance(kind, _NANOS) else 1
    if literal.kind is Kind.TIMESTAMP:
        return Fraction(literal.value) * units  # type: ignore[arg-type]
    zoned = isinstance(kind, _ZONED)
    if literal.kind is Kind.DATE and not zoned:
        return Fraction(literal.value) * MICROS_PER_DAY * units  # type: ignore[arg-type]
    example = "2026-01-31T12:00:00Z" if zoned else "2026-01-31T12:00:00"
    hint = f"Compare it with a timestamp {'with' if zoned else 'without'} a time zone, such as '{example}'."
    match = _TIMESTAMP.fullmatch(_text(literal).strip())
    if match is None or bool(match["zone"]) != zoned:
        raise IncompatibleLiteralError(hint=hint)
    try:
        zone = (match["zone"] or "+00:00").upper()
        timestamp = datetime.fromisoformat(f"{match['day']}T{match['clock'] or '00:00'}{zone}")
    except ValueError as err:
        raise IncompatibleLiteralError(hint=hint) from err
    return (_micros(timestamp) + Fraction(f"0.{match['fraction'] or 0}") * 1_000_000) * units


def _text(literal: Literal) -> str:
    return str(literal.value) if literal.kind is Kind.TEXT else ""


def _micros(timestamp: datetime) -> int:
    """Return the microseconds since 1970; a naive datetime is taken as UTC."""
    timestamp = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    return (timestamp - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def _clock_micros(clock: time) -> int:
    return ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond
