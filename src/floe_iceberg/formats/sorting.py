"""Sorts rows by an Iceberg sort order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.sorting import NullOrder, SortDirection

from floe_iceberg.formats import float_bits
from floe_iceberg.formats.partitioning import column_of, transformed

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.sorting import SortOrder


def sorted_rows(rows: pa.Table, order: SortOrder, schema: Schema) -> pa.Table:
    """Sort rows by a sort order, with its transforms and null placement, and with NaN greater than all other values.

    Raises:
        CapabilityError: A transform is unknown.
    """
    keys: dict[str, pa.Array | pa.ChunkedArray] = {}
    directions = []
    for position, term in enumerate(order.fields):
        source = schema.find_field(term.source_id)
        name = str(schema.find_column_name(term.source_id))
        values = transformed(column_of(rows, name), term.transform, source.field_type, name)
        if values.null_count:
            # Arrow has one null placement for all keys, so a separate key places the nulls of this column.
            keys[f"{position} null"] = pc.is_null(values)
            first = term.null_order == NullOrder.NULLS_FIRST
            directions.append((f"{position} null", "descending" if first else "ascending"))
        keys[f"{position} value"] = float_bits.ordered(values) if pa.types.is_floating(values.type) else values
        directions.append((f"{position} value", "ascending" if term.direction == SortDirection.ASC else "descending"))
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=directions))
