"""Check that the rows of a data file belong to its partition and are in its sort order."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe_audit.spec.values import INTEGRAL, canonical, unscaled

if TYPE_CHECKING:
    from floe_audit.spec.schemas import Type
    from floe_audit.spec.specs import SortField
    from floe_audit.spec.transforms import Transform
    from floe_audit.spec.values import Value


def transformed(array: pa.Array, kind: Type, transform: Transform) -> set[Any]:
    """Return the distinct results of a transform over a column, in a comparable form."""
    if transform.name == "void":
        return {None}
    if kind.floating:
        return {canonical(value) for value in _distinct_floats(array)}
    distinct = pc.unique(array)
    if kind.name in INTEGRAL and transform.name != "identity":
        numbers = distinct.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
        results: set[Any] = set(np.unique(transform.apply_integers(kind, numbers)).tolist())
        return results | ({None} if distinct.null_count else set())
    return {canonical(transform.apply(kind, _value(one, kind))) for one in distinct}


def _distinct_floats(array: pa.Array) -> list[float | None]:
    numbers = array.drop_null().to_numpy(zero_copy_only=False)
    # Compare the bits, because -0.0 and 0.0 are different partitions.
    bits = np.unique(numbers.astype(np.float64).view(np.int64))
    values: list[float | None] = list(bits.view(np.float64).tolist())
    if array.null_count:
        values.append(None)
    return values


def _value(scalar: pa.Scalar, kind: Type) -> Value | None:
    value: Any = scalar.as_py()
    if value is None:
        return None
    if kind.name == "decimal":
        return unscaled(value, kind.scale)
    if kind.name == "string" and isinstance(value, bytes):
        return value.decode("utf-8", errors="surrogateescape")
    return value  # type: ignore[no-any-return]


class SortCheck:
    """Checks incrementally whether the rows of a file are sorted."""

    def __init__(self, order: tuple[SortField, ...], kinds: list[Type]) -> None:
        self._order = order
        self._kinds = kinds
        self._last: list[pa.Array] | None = None
        self.sorted = True

    def add(self, columns: list[pa.Array]) -> None:
        """Add the next rows."""
        if not self.sorted or not len(columns[0]):
            return
        keys = [
            _sort_key(array, kind, one.transform)
            for array, kind, one in zip(columns, self._kinds, self._order, strict=True)
        ]
        if self._last is not None:
            joined = [pa.concat_arrays([before, now]) for before, now in zip(self._last, keys, strict=True)]
        else:
            joined = keys
        self._last = [one.slice(len(one) - 1) for one in keys]
        undecided = np.ones(max(len(joined[0]) - 1, 0), dtype=bool)
        for array, one in zip(joined, self._order, strict=True):
            signs = _compared(array, one)
            if (undecided & (signs > 0)).any():
                self.sorted = False
                return
            undecided &= signs == 0


def _sort_key(array: pa.Array, kind: Type, transform: Transform) -> pa.Array:
    if kind.floating:
        bits = array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64).copy()
        bits[np.isnan(bits)] = np.nan
        raw = bits.view(np.int64)
        ordered = np.where(raw < 0, raw ^ np.int64(0x7FFFFFFFFFFFFFFF), raw)
        return pa.array(ordered, mask=array.is_null().to_numpy(zero_copy_only=False))
    if transform.name == "identity":
        return array.cast(pa.int8()) if kind.name == "boolean" else array
    if kind.name in INTEGRAL:
        mask = array.is_null().to_numpy(zero_copy_only=False)
        numbers = array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return pa.array(transform.apply_integers(kind, numbers), mask=mask)
    return _cut(array, kind, transform)


def _cut(array: pa.Array, kind: Type, transform: Transform) -> pa.Array:
    """Return transformed values in a form that Arrow can compare, even if all values are null."""
    results: list[Any] = [transform.apply(kind, _value(one, kind)) for one in array]
    match transform.result(kind).name:
        case "string":
            encoded = [None if one is None else one.encode("utf-8", "surrogateescape") for one in results]
            return pa.array(encoded, pa.binary())
        case "decimal":
            return pa.array([None if one is None else Decimal(one) for one in results], pa.decimal256(76, 0))
        case "int":
            return pa.array(results, pa.int64())
        case _:
            return pa.array(results, pa.binary())


def _compared(array: pa.Array, one: SortField) -> np.ndarray[Any, Any]:
    """Compare each value with the next one: -1 in order, 0 equal, 1 out of order."""
    before, after = array.slice(0, len(array) - 1), array.slice(1)
    more = pc.fill_null(pc.greater(before, after), fill_value=False).to_numpy(zero_copy_only=False).astype(np.int8)
    less = pc.fill_null(pc.less(before, after), fill_value=False).to_numpy(zero_copy_only=False).astype(np.int8)
    signs = more - less
    if one.descending:
        signs = -signs
    first, second = (part.is_null().to_numpy(zero_copy_only=False).astype(np.int8) for part in (before, after))
    nulls = second - first if one.nulls_first else first - second
    compared: np.ndarray[Any, Any] = np.where((first | second).astype(bool), nulls, signs)
    return compared
