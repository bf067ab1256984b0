"""Partition transforms, as defined by the specification."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from floe_audit.spec.schemas import MalformedError, Type
from floe_audit.spec.values import INTEGRAL, MICROS_PER_DAY, minimal_bytes

if TYPE_CHECKING:
    from floe_audit.spec.values import Value

_PARAMETER = re.compile(r"(bucket|truncate)\[(\d+)\]")
_TIMES = {"year", "month", "day", "hour"}
_TIMESTAMPS = {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"}
_HASHED = INTEGRAL | {"decimal", "string", "uuid", "fixed", "binary"}
_SOURCES = {
    "year": _TIMESTAMPS | {"date"},
    "month": _TIMESTAMPS | {"date"},
    "day": _TIMESTAMPS | {"date"},
    "hour": _TIMESTAMPS,
    "bucket": _HASHED,
    "truncate": {"int", "long", "decimal", "string", "binary"},
}
_MICROS_PER_HOUR = 3_600_000_000
_INT_MAX = 0x7FFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_MASK = 0xFFFFFFFF


@dataclass(frozen=True)
class Transform:
    """A transform with its width or number of buckets."""

    name: str
    parameter: int = 0

    @property
    def known(self) -> bool:
        """Whether the specification defines the transform."""
        return self.name in {"identity", "void", "bucket", "truncate"} | _TIMES

    def accepts(self, source: Type) -> bool:
        """Whether the transform applies to a type."""
        if self.name == "void" or not self.known:
            return True
        if self.name == "identity":
            return not source.nested and source.name not in {"geometry", "geography", "variant"}
        return source.name in _SOURCES[self.name]

    def result(self, source: Type) -> Type:
        """Return the type of the transform's results."""
        if self.name in {"year", "month", "hour", "bucket"}:
            return Type("int")
        return Type("date") if self.name == "day" else source

    def __str__(self) -> str:
        """Return the transform in the syntax of table metadata."""
        return f"{self.name}[{self.parameter}]" if self.parameter else self.name

    def apply(self, source: Type, value: Value | None) -> Value | None:
        """Transform one value."""
        if value is None or self.name == "void":
            return None
        if self.name == "identity":
            return value
        if self.name == "bucket":
            return (murmur3(_hashed_bytes(source, value)) & _INT_MAX) % self.parameter
        if self.name == "truncate":
            if isinstance(value, int):
                return _wrapped(value - value % self.parameter, source)
            return value[: self.parameter] if isinstance(value, (str, bytes)) else value
        if isinstance(value, int):
            return int(self.apply_integers(source, np.array([value], dtype=np.int64))[0])
        msg = f"{self} does not apply to {source}"
        raise MalformedError(msg)

    def yields(self, source: Type, value: Value) -> bool:
        """Whether the value is the result of truncating some value of the type."""
        if self.apply(source, value) == value:
            return True
        # A long column may have been promoted from int.
        for bits in {"int": (32,), "long": (32, 64)}.get(source.name, ()):
            number = int(value) - 2**bits
            if number % self.parameter == 0 and -self.parameter < number + 2 ** (bits - 1) < 0:
                return True
        return False

    def apply_integers(self, source: Type, values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, Any]:
        """Transform an array of values of an integral type."""
        if self.name == "truncate":
            results = values - values % self.parameter
            return results.astype(np.int32).astype(np.int64) if source.name == "int" else results
        micros = values // 1000 if source.name.endswith("_ns") else values
        if self.name == "bucket":
            return (_murmur3_longs(micros) & _INT_MAX) % self.parameter
        if self.name == "hour":
            return micros // _MICROS_PER_HOUR
        days = values if source.name == "date" else micros // MICROS_PER_DAY
        if self.name == "day":
            return days
        unit = "Y" if self.name == "year" else "M"
        return days.astype("datetime64[D]").astype(f"datetime64[{unit}]").astype(np.int64)


def parse_transform(text: object) -> Transform:
    """Parse a transform; an unknown name is kept.

    Raises:
        MalformedError: The text is not a transform, or its parameter is not positive.
    """
    if not isinstance(text, str) or not text:
        msg = f"{text!r} is not a transform"
        raise MalformedError(msg)
    if match := _PARAMETER.fullmatch(text):
        if int(match[2]) < 1:
            msg = f"The parameter of {text!r} must be positive"
            raise MalformedError(msg)
        return Transform(match[1], int(match[2]))
    if text in {"bucket", "truncate"}:
        msg = f"{text!r} has no parameter"
        raise MalformedError(msg)
    return Transform(text)


def murmur3(data: bytes) -> int:
    """Return the 32-bit Murmur3 hash (x86 variant) of bytes as an unsigned number."""
    result = 0
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        result ^= _mixed(int.from_bytes(data[start : start + 4], "little"))
        result = (_rotated(result, 13) * 5 + 0xE6546B64) & _MASK
    if tail := data[whole:]:
        result ^= _mixed(int.from_bytes(tail, "little"))
    result ^= len(data)
    result = ((result ^ (result >> 16)) * 0x85EBCA6B) & _MASK
    result = ((result ^ (result >> 13)) * 0xC2B2AE35) & _MASK
    return result ^ (result >> 16)


def _wrapped(number: int, source: Type) -> int:
    """Wrap a number to the range of its type: truncating the lowest values underflows, and Java wraps around."""
    bits = {"int": 32, "long": 64}.get(source.name)
    return number if bits is None else (number + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def _mixed(block: int) -> int:
    return (_rotated((block * _C1) & _MASK, 15) * _C2) & _MASK


def _rotated(number: int, bits: int) -> int:
    return ((number << bits) | (number >> (32 - bits))) & _MASK


def _murmur3_longs(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    raw = values.astype(np.int64).view(np.uint64)
    result = np.zeros(len(values), dtype=np.uint64)
    mask = np.uint64(_MASK)

    def rotated(numbers: np.ndarray[Any, Any], bits: int) -> np.ndarray[Any, Any]:
        return ((numbers << np.uint64(bits)) | (numbers >> np.uint64(32 - bits))) & mask

    for block in (raw & mask, raw >> np.uint64(32)):
        mixed = (rotated((block * np.uint64(_C1)) & mask, 15) * np.uint64(_C2)) & mask
        result = (rotated(result ^ mixed, 13) * np.uint64(5) + np.uint64(0xE6546B64)) & mask
    result ^= np.uint64(8)
    result = ((result ^ (result >> np.uint64(16))) * np.uint64(0x85EBCA6B)) & mask
    result = ((result ^ (result >> np.uint64(13))) * np.uint64(0xC2B2AE35)) & mask
    return (result ^ (result >> np.uint64(16))).astype(np.int64)


def _hashed_bytes(source: Type, value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    number = int(value)
    if source.name == "decimal":
        return number.to_bytes(minimal_bytes(number), "big", signed=True)
    if source.name.endswith("_ns"):
        number //= 1000
    return number.to_bytes(8, "little", signed=True)
