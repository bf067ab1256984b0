"""Converts floats to integers, because in Arrow and IEEE 754 NaN does not equal NaN and -0.0 is not less than 0.0.

Each function keeps nulls and treats all NaN values as equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTEGERS = {pa.float32(): np.int32, pa.float64(): np.int64}
_FLOATS = {pa.int32(): np.float32, pa.int64(): np.float64}


def distinct(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return integers that are equal if the floats are equal, with -0.0 and 0.0 different."""
    return _integers(values)[0]


def equal(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return integers that are equal if the floats are equal in SQL, with -0.0 equal to 0.0."""
    return _integers(pc.add(values, pa.scalar(0.0, values.type)))[0]


def ordered(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return integers in Iceberg's order of floats: -0.0 before 0.0, NaN last."""
    integers, mask = _integers(values)
    bits = integers.fill_null(0).to_numpy(zero_copy_only=False)
    negative = bits < 0
    # For negative floats, the bits increase as the values decrease.
    bits = np.where(negative, bits ^ np.iinfo(bits.dtype).max, bits)
    return pa.array(bits, mask=mask)


def as_floats(integers: pa.Array) -> Sequence[Any]:
    """Convert the integers from ``distinct`` back to floats."""
    floats = integers.fill_null(0).to_numpy(zero_copy_only=False).view(_FLOATS[integers.type]).tolist()
    return [None if null else value for value, null in zip(floats, integers.is_null().to_pylist(), strict=True)]


def _integers(values: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, np.ndarray[Any, Any] | None]:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    mask = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    floats = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    floats = np.where(np.isnan(floats), np.array(np.nan, floats.dtype), floats)
    return pa.array(floats.view(_INTEGERS[values.type]), mask=mask), mask
