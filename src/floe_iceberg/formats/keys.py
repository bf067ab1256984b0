"""Comparison of key columns with SQL semantics, and detection of duplicate keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from floe_core.dataplane import NullKeys
from floe_iceberg.formats import float_bits
from floe_iceberg.formats.partitioning import column_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_EXAMPLES = 3
_SOURCE = "__floe_source"


@dataclass(frozen=True)
class RepeatedKeys:
    """Keys shared by several rows.

    Attributes:
        count: Number of keys.
        examples: Some of the keys, by column.
    """

    count: int
    examples: list[dict[str, Any]]


def repeated_keys(rows: pa.Table, keys: Sequence[str], *, null_keys: NullKeys = NullKeys.REFUSE) -> RepeatedKeys | None:
    """Find keys shared by several rows, None if there are none; null only equals null with ``NullKeys.MATCH``."""
    given = {key: column_of(rows, key) for key in keys}
    columns = comparable(given)
    rows_by_number = numbered(columns, _SOURCE)
    for name in columns.column_names:
        if null_keys is NullKeys.REFUSE and rows_by_number[name].null_count:
            rows_by_number = rows_by_number.filter(rows_by_number[name].is_valid())
    counts = rows_by_number.group_by(columns.column_names).aggregate([(_SOURCE, "count"), (_SOURCE, "min")])
    if counts.num_rows == rows_by_number.num_rows:
        return None
    repeated = counts.filter(pc.field(f"{_SOURCE}_count") > 1)
    examples = pa.table(given).take(repeated.slice(0, _MAX_EXAMPLES)[f"{_SOURCE}_min"]).to_pylist()
    return RepeatedKeys(repeated.num_rows, examples)


def comparable(columns: dict[str, pa.ChunkedArray]) -> pa.Table:
    """Return key columns in types that Arrow compares like SQL: NaN equals NaN, -0.0 equals 0.0."""
    return pa.table({str(number): _as_key(values) for number, values in enumerate(columns.values())})


def _as_key(values: pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    if isinstance(values.type, pa.BaseExtensionType):
        return values.cast(values.type.storage_type)
    return float_bits.equal(values) if types.is_floating(values.type) else values


def numbered(columns: pa.Table, name: str) -> pa.Table:
    """Return the columns with an added column of row numbers."""
    return columns.append_column(name, pa.array(np.arange(columns.num_rows)))
