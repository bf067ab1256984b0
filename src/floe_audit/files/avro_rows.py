"""Read the rows of Avro data files as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from floe_audit.files.avro import unwrapped

if TYPE_CHECKING:
    from floe_audit.files.avro import AvroFile

_PRIMITIVES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.large_string(),
    "bytes": pa.large_binary(),
    "null": pa.null(),
}
_ID = b"PARQUET:field_id"


def arrow_schema(schema: dict[str, Any]) -> pa.Schema:
    """Return the Arrow schema of an Avro record, with field ids."""
    names: dict[str, Any] = {}
    return pa.schema([_field(one, names) for one in schema.get("fields") or []])


def arrow_table(avro: AvroFile, schema: pa.Schema) -> pa.Table:
    """Read all records."""
    return pa.Table.from_pylist(
        [{one.name: _fitted(record.get(one.name), one.type) for one in schema} for record in avro.records()],
        schema=schema,
    )


def _fitted(value: Any, kind: pa.DataType) -> Any:
    """Convert a decoded Avro value to the form that Arrow expects."""
    if value is None:
        return None
    if pa.types.is_decimal(kind):
        from decimal import Decimal

        number = int.from_bytes(value, "big", signed=True)
        digits = tuple(int(one) for one in str(abs(number)))
        return Decimal((int(number < 0), digits, -kind.scale))
    if pa.types.is_struct(kind):
        return {
            kind.field(place).name: _fitted(value.get(kind.field(place).name), kind.field(place).type)
            for place in range(kind.num_fields)
        }
    if pa.types.is_map(kind):
        items = value.items() if isinstance(value, dict) else [(one["key"], one["value"]) for one in value]
        return [(_fitted(key, kind.key_type), _fitted(item, kind.item_type)) for key, item in items]
    if pa.types.is_list(kind):
        return [_fitted(one, kind.value_type) for one in value]
    return value


def _field(one: dict[str, Any], names: dict[str, Any]) -> pa.Field:
    identity = one.get("field-id")
    return _named(one["name"], _type(unwrapped(one["type"]), names), identity)


def _named(name: str, kind: pa.DataType, identity: object) -> pa.Field:
    metadata = {_ID: str(identity).encode()} if isinstance(identity, int) else None
    return pa.field(name, kind, metadata=metadata)


def _type(kind: Any, names: dict[str, Any]) -> pa.DataType:  # noqa: C901, PLR0911, PLR0912 - a table of types
    if isinstance(kind, str):
        return _PRIMITIVES[kind] if kind in _PRIMITIVES else _type(names[kind], names)
    if isinstance(kind["type"], dict):
        return _type(kind["type"], names)
    if "name" in kind:
        names[kind["name"]] = kind
    logical = kind.get("logicalType")
    zone = "UTC" if kind.get("adjust-to-utc") else None
    match kind["type"], logical:
        case _, "date":
            return pa.date32()
        case _, "time-micros":
            return pa.time64("us")
        case _, "timestamp-micros":
            return pa.timestamp("us", zone)
        case _, "timestamp-nanos":
            return pa.timestamp("ns", zone)
        case _, "decimal":
            return pa.decimal128(kind["precision"], kind.get("scale", 0))
        case "fixed", _:
            return pa.binary(kind["size"])
        case "record", _:
            return pa.struct([_field(one, names) for one in kind["fields"]])
        case "array", "map":
            key, value = (_field(one, names) for one in kind["items"]["fields"])
            return pa.map_(key.with_nullable(nullable=False), value)
        case "array", _:
            return pa.list_(_named("element", _type(unwrapped(kind["items"]), names), kind.get("element-id")))
        case "map", _:
            value = _named("value", _type(unwrapped(kind["values"]), names), kind.get("value-id"))
            return pa.map_(_named("key", pa.large_string(), kind.get("key-id")).with_nullable(nullable=False), value)
    return _type(kind["type"], names)
