"""Parses and formats Iceberg types such as ``long``, ``decimal(10, 2)`` and ``map<string, list<long>>``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

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
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from floe_core.declaration.column_types import (
    KNOWN_TYPES,
    ColumnTypeError,
    DecimalOf,
    FixedOf,
    ListOf,
    MapOf,
    SimpleType,
    parse_column_type,
)
from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_core.declaration.column_types import ColumnType

_SIMPLE: dict[str, type[PrimitiveType]] = {
    "boolean": BooleanType,
    "int": IntegerType,
    "long": LongType,
    "float": FloatType,
    "double": DoubleType,
    "date": DateType,
    "time": TimeType,
    "timestamp": TimestampType,
    "timestamptz": TimestamptzType,
    "timestamp_ns": TimestampNanoType,
    "timestamptz_ns": TimestamptzNanoType,
    "string": StringType,
    "uuid": UUIDType,
    "binary": BinaryType,
}


def parse_type(text: str, *, new_id: Callable[[], int] | None = None) -> IcebergType:
    """Parse a type.

    Args:
        text: The type, in Iceberg's or Spark's spelling.
        new_id: Returns the ids of nested fields; by default they count from 1.

    Raises:
        ConfigurationError: The text is not a valid type.
    """
    try:
        kind = parse_column_type(text)
    except ColumnTypeError as err:
        msg = f"'{text}' is not a valid Iceberg type: {err}."
        raise ConfigurationError(msg, hint=f"Types: {', '.join(KNOWN_TYPES)}.") from None
    return _built(kind, new_id or itertools.count(1).__next__)


def type_text(kind: IcebergType) -> str:
    """Format a type in the syntax of ``parse_type``."""
    if isinstance(kind, DecimalType):
        return f"decimal({kind.precision}, {kind.scale})"
    if isinstance(kind, FixedType):
        return f"fixed({len(kind)})"
    if isinstance(kind, ListType):
        return f"list<{_nested_text(kind.element_type, required=kind.element_required)}>"
    if isinstance(kind, MapType):
        return f"map<{type_text(kind.key_type)}, {_nested_text(kind.value_type, required=kind.value_required)}>"
    if isinstance(kind, StructType):
        fields = (f"{field.name}: {_nested_text(field.field_type, required=field.required)}" for field in kind.fields)
        return f"struct<{', '.join(fields)}>"
    return str(kind)


def _nested_text(kind: IcebergType, *, required: bool) -> str:
    return f"{type_text(kind)}{' not null' if required else ''}"


def _built(kind: ColumnType, new_id: Callable[[], int]) -> IcebergType:
    if isinstance(kind, SimpleType):
        return _SIMPLE[kind.name]()
    if isinstance(kind, DecimalOf):
        return DecimalType(kind.precision, kind.scale)
    if isinstance(kind, FixedOf):
        return FixedType(kind.length)
    if isinstance(kind, ListOf):
        return ListType(element_id=new_id(), element_type=_built(kind.element, new_id), element_required=kind.required)
    if isinstance(kind, MapOf):
        key_id, value_id = new_id(), new_id()
        key, value = _built(kind.key, new_id), _built(kind.value, new_id)
        return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=kind.required)
    return StructType(
        *(
            NestedField(
                field_id=new_id(), name=field.name, field_type=_built(field.type, new_id), required=field.required
            )
            for field in kind.fields
        )
    )
