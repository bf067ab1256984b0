"""Required columns that become optional, because data brings null for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from floe_iceberg.key_property import KEYS_PROPERTY, parse_keys
from floe_iceberg.models import SchemaChange, SchemaChangeKind

if TYPE_CHECKING:
    from pyiceberg.table import Table


def freed_by_nulls(table: Table, data: pa.Schema, rows: pa.Table | None) -> tuple[SchemaChange, ...]:
    """Return the changes that let nulls into required columns of a table; its keys stay required.

    Args:
        table: The table.
        data: The data's schema; a column without a type has nothing but nulls.
        rows: The data itself, where it can be looked at before it is written.
    """
    schema = table.schema()
    keys = {*parse_keys(table.properties.get(KEYS_PROPERTY, "")), *schema.identifier_field_names()}
    # Whether a row is the one that is meant cannot depend on a value that is not there.
    required = [field.name for field in schema.fields if field.required and not _holds(field.name, keys)]
    return tuple(
        SchemaChange(kind=SchemaChangeKind.MAKE_OPTIONAL, column=name)
        for name in required
        if (index := data.get_field_index(name)) >= 0
        and (pa.types.is_null(data.field(index).type) or (rows is not None and rows.column(index).null_count))
    )


def _holds(column: str, keys: set[str]) -> bool:
    return any(key == column or key.startswith(f"{column}.") for key in keys)
