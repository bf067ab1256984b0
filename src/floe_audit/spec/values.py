"""Single values: their binary encoding and their order, as defined by the specification.

The audit represents a value as a Python ``int`` (numbers, dates, times, and the unscaled value of a decimal),
``float``, ``bool``, ``str`` or ``bytes``.
"""

from __future__ import annotations

import math
import struct
from decimal import Context
from typing import TYPE_CHECKING, Any

from floe_audit.spec.schemas import MalformedError

if TYPE_CHECKING:
    from decimal import Decimal

    from floe_audit.spec.schemas import Type

Value = int | float | bool | str | bytes

MICROS_PER_DAY = 86_400_000_000
NANOS_PER_DAY = MICROS_PER_DAY * 1000
_INT, _LONG = 4, 8
# Python's default context rounds to 28 digits.
_DECIMAL_CONTEXT = Context(prec=40)
_UUID = 16
_LONGS = {"long", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
INTEGRAL = _LONGS | {"int", "date"}
# Types whose bounds are not single values.
UNBOUNDED = {"variant", "geometry", "geography", "unknown"}


def decode(kind: Type, raw: bytes, *, truncated: bool = False) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table of types
    """Decode a value from its binary form; a bound may be a truncated value.

    Raises:
        MalformedError: The bytes are not a value of the type.
    """
    match kind.name, len(raw):
        case "boolean", 1:
            return raw != b"\x00"
        case (("int" | "date"), 4):
            return int.from_bytes(raw, "little", signed=True)
        case name, 8 if name in _LONGS:
            return int.from_bytes(raw, "little", signed=True)
        case (("long" | "timestamp" | "timestamp_ns"), 4):
            number = int.from_bytes(raw, "little", signed=True)
            scale = {"timestamp": MICROS_PER_DAY, "timestamp_ns": NANOS_PER_DAY}
            return number * scale.get(kind.name, 1)
        case (("float" | "double"), 4):
            return float(struct.unpack("<f", raw)[0])
        case "double", 8:
            return float(struct.unpack("<d", raw)[0])
        case "decimal", size if size:
            number = int.from_bytes(raw, "big", signed=True)
            if abs(number) < 10**kind.precision:
                return number
        case "string", _:
            try:
                return raw.decode("utf-8")
            except UnicodeDecodeError as err:
                msg = f"{raw.hex()} is not UTF-8"
                raise MalformedError(msg) from err
        case "uuid", size if size == _UUID:
            return raw
        case "fixed", size if size == kind.length or (truncated and size < kind.length):
            return raw
        case "binary", _:
            return raw
    msg = f"{len(raw)} bytes ({raw.hex()[:64]}) are not a valid {kind}"
    raise MalformedError(msg)


def encode(kind: Type, value: Value) -> bytes:  # noqa: PLR0911 - a table of types
    """Return the binary form of a value."""
    match kind.name:
        case "boolean":
            return b"\x01" if value else b"\x00"
        case "int" | "date":
            return int(value).to_bytes(_INT, "little", signed=True)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
        case "decimal":
            number = int(value)
            return number.to_bytes(minimal_bytes(number), "big", signed=True)
        case "string":
            return str(value).encode()
        case name if name in _LONGS:
            return int(value).to_bytes(_LONG, "little", signed=True)
    return bytes(value)  # type: ignore[arg-type]  # what is left are bytes


def minimal_bytes(number: int) -> int:
    """Return the number of bytes in the shortest two's complement form of a number."""
    return max(1, ((number if number >= 0 else ~number).bit_length() + 8) // 8)


def order(value: Value) -> Any:
    """Return a sort key for values of one type in the order of the specification: -0.0 before 0.0, NaN last."""
    if isinstance(value, str):
        return value.encode("utf-8", errors="surrogatepass")
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1.0, value))
    return value


def is_nan(value: object) -> bool:
    """Whether a value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def same(one: object, other: object) -> bool:
    """Whether two partition values are equal; floats are compared bitwise, except that all NaNs are equal."""
    if one is None or other is None:
        return one is other
    if isinstance(one, float) and isinstance(other, float):
        return order(one) == order(other) if not is_nan(one) else is_nan(other)
    return one == other


def canonical(value: object) -> object:
    """Return a hashable form that is equal for equal partition values."""
    if isinstance(value, float):
        return ("nan",) if math.isnan(value) else (value, math.copysign(1.0, value))
    return value


def from_avro(kind: Type, value: Any) -> Value | None:
    """Convert a value decoded from Avro without logical types.

    Raises:
        MalformedError: The value does not fit the type.
    """
    if value is None:
        return None
    if kind.name == "decimal" and isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    expected: tuple[type, ...]
    match kind.name:
        case "boolean":
            expected = (bool,)
        case "float" | "double":
            expected = (float,)
        case "string":
            expected = (str,)
        case "uuid" | "fixed" | "binary":
            expected = (bytes,)
        case _:
            expected = (int,)
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        msg = f"{value!r} is not a valid {kind}"
        raise MalformedError(msg)
    return value


def unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled integer of a decimal, with all 38 digits."""
    return int(value.scaleb(scale, context=_DECIMAL_CONTEXT))
