"""Parse Iceberg schemas, with all fields by id."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_SIMPLE = {
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 1,
    "double": 1,
    "date": 1,
    "time": 1,
    "timestamp": 1,
    "timestamptz": 1,
    "string": 1,
    "uuid": 1,
    "binary": 1,
    "unknown": 3,
    "timestamp_ns": 3,
    "timestamptz_ns": 3,
    "variant": 3,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_GEO = re.compile(r"(geometry|geography)(\(.*\))?")
_MAX_PRECISION = 38
GEO_VERSION = 3


class MalformedError(Exception):
    """Part of the metadata is malformed; the message says why."""


@dataclass(frozen=True)
class Type:
    """A primitive type with its parameters, or ``struct``, ``list`` or ``map``."""

    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0
    since: int = 1
    """The first format version that supports the type."""

    @property
    def nested(self) -> bool:
        """Whether the type contains other fields."""
        return self.name in {"struct", "list", "map"}

    @property
    def floating(self) -> bool:
        """Whether values may be NaN."""
        return self.name in {"float", "double"}

    def __str__(self) -> str:
        """Return the type in the syntax of schemas."""
        if self.name == "decimal":
            return f"decimal({self.precision}, {self.scale})"
        return f"fixed[{self.length}]" if self.name == "fixed" else self.name


@dataclass(frozen=True)
class Field:
    """A column or nested field."""

    id: int
    path: str
    type: Type
    required: bool
    """Whether the field is required; it may still be null inside a null parent."""
    never_null: bool
    """Whether the field and all its parents are required."""
    repeated: bool
    """Whether the field is inside a list or map."""
    default: Any = None
    write_default: Any = None
    parent: int | None = None
    children: tuple[int, ...] = ()


@dataclass(frozen=True)
class Schema:
    """A schema, with the fields of all levels by id."""

    id: int
    fields: dict[int, Field] = field(default_factory=dict)
    roots: tuple[int, ...] = ()
    identifier_ids: tuple[int, ...] = ()


def parse_type(text: object) -> Type:
    """Parse a primitive type.

    Raises:
        MalformedError: The type is unknown.
    """
    if isinstance(text, str):
        name = text.strip()
        if name in _SIMPLE:
            return Type(name, since=_SIMPLE[name])
        if (decimal := _DECIMAL.fullmatch(name)) and 0 < int(decimal[1]) <= _MAX_PRECISION:
            return Type("decimal", precision=int(decimal[1]), scale=int(decimal[2]))
        if fixed := _FIXED.fullmatch(name):
            return Type("fixed", length=int(fixed[1]))
        if geo := _GEO.fullmatch(name):
            return Type(geo[1], since=GEO_VERSION)
    msg = f"Unknown type {text!r}"
    raise MalformedError(msg)


def parse_schema(document: Any) -> Schema:
    """Parse a schema.

    Raises:
        MalformedError: The document is not a schema, or an id is used twice.
    """
    if not isinstance(document, dict) or document.get("type", "struct") != "struct":
        msg = "The schema is not a struct"
        raise MalformedError(msg)
    fields: dict[int, Field] = {}
    for parsed in _struct(document, "", never_null=True, repeated=False, parent=None):
        if parsed.id in fields:
            msg = f"Field id {parsed.id} is used by {fields[parsed.id].path!r} and by {parsed.path!r}"
            raise MalformedError(msg)
        fields[parsed.id] = parsed
    identifiers = document.get("identifier-field-ids") or []
    schema_id = document.get("schema-id", 0)
    if not isinstance(schema_id, int) or not isinstance(identifiers, list):
        msg = "schema-id or identifier-field-ids has the wrong type"
        raise MalformedError(msg)
    roots = tuple(one.id for one in fields.values() if one.parent is None)
    return Schema(schema_id, fields, roots, tuple(identifiers))


def _struct(document: Any, prefix: str, *, never_null: bool, repeated: bool, parent: int | None) -> Iterator[Field]:
    members = document.get("fields")
    if not isinstance(members, list):
        msg = f"The struct {prefix or 'root'!r} has no list of fields"
        raise MalformedError(msg)
    names: set[str] = set()
    for member in members:
        if not isinstance(member, dict):
            msg = "A field is not an object"
            raise MalformedError(msg)
        name, required = member.get("name"), member.get("required")
        if not isinstance(name, str) or not isinstance(required, bool) or name in names:
            msg = f"Field {name!r} in {prefix!r} has no name, no 'required' flag, or the name of another field"
            raise MalformedError(msg)
        names.add(name)
        yield from _field(
            member.get("id"),
            f"{prefix}.{name}" if prefix else name,
            member.get("type"),
            required=required,
            never_null=never_null and required,
            repeated=repeated,
            parent=parent,
            default=member.get("initial-default"),
            write_default=member.get("write-default"),
        )


def _field(
    identity: object,
    path: str,
    kind: Any,
    *,
    required: bool,
    never_null: bool,
    repeated: bool,
    parent: int | None,
    default: Any = None,
    write_default: Any = None,
) -> Iterator[Field]:
    if not isinstance(identity, int) or isinstance(identity, bool):
        msg = f"Field {path!r} has no id"
        raise MalformedError(msg)
    nested: list[Field] = []
    if isinstance(kind, dict):
        name = kind.get("type")
        if name == "struct":
            nested += _struct(kind, path, never_null=never_null, repeated=repeated, parent=identity)
        elif name == "list":
            nested += _member(kind, "element", path, identity, required=kind.get("element-required"))
        elif name == "map":
            nested += _member(kind, "key", path, identity, required=True)
            nested += _member(kind, "value", path, identity, required=kind.get("value-required"))
        else:
            msg = f"Field {path!r} has the unknown type {name!r}"
            raise MalformedError(msg)
        parsed = Type(name)
    else:
        parsed = parse_type(kind)
    children = tuple(one.id for one in nested if one.parent == identity)
    yield Field(identity, path, parsed, required, never_null, repeated, default, write_default, parent, children)
    yield from nested


def _member(kind: dict[str, Any], role: str, path: str, parent: int, *, required: object) -> Iterator[Field]:
    if not isinstance(required, bool):
        msg = f"Field {path!r} has no '{role}-required' flag"
        raise MalformedError(msg)
    yield from _field(
        kind.get(f"{role}-id"),
        f"{path}.{role}",
        kind.get(role),
        required=required,
        never_null=False,
        repeated=True,
        parent=parent,
    )


def promotes(written: Type, current: Type, version: int) -> bool:
    """Whether one type can be promoted to the other."""
    if (written.name, written.precision, written.scale, written.length) == (
        current.name,
        current.precision,
        current.scale,
        current.length,
    ):
        return True
    match written.name, current.name:
        case ("int", "long") | ("float", "double"):
            return True
        case ("decimal", "decimal"):
            return written.scale == current.scale and written.precision <= current.precision
        case ("date", "timestamp" | "timestamp_ns") | ("unknown", _):
            return version >= GEO_VERSION
    return False
