"""Iceberg types as people write them: ``long``, ``decimal(10, 2)``, ``map<string, list<long>>``."""

from __future__ import annotations

import itertools
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

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

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable

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
# What Spark, SQL and Arrow call the same types.
_ALIASES = {
    "bool": "boolean",
    "integer": "int",
    "int32": "int",
    "bigint": "long",
    "int64": "long",
    "float32": "float",
    "real": "float",
    "float64": "double",
    "varchar": "string",
    "text": "string",
    "timestamp_ntz": "timestamp",
    "timestamp_ltz": "timestamptz",
    "bytes": "binary",
    "array": "list",
}
_TOKEN = re.compile(r"\s*(?:(?P<word>`[^`]+`|[A-Za-z_][\w.-]*|\d+)|(?P<mark>[<>(),:\[\]]))")
_KNOWN = (*_SIMPLE, "decimal(p, s)", "fixed(n)", "list<type>", "map<type, type>", "struct<name: type, …>")
_MOST_DIGITS = 38


def parse_type(text: str, *, new_id: Callable[[], int] | None = None) -> IcebergType:
    """Read a type.

    Args:
        text: The type, in Iceberg's or Spark's spelling.
        new_id: Gives field ids to nested fields; without it they count from 1.

    Raises:
        ConfigurationError: The text is no type.
    """
    return _Parser(text, new_id or itertools.count(1).__next__).whole()


def type_text(kind: IcebergType) -> str:
    """Write a type as ``parse_type`` reads it."""
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


class _Parser:
    """Reads one type, token by token."""

    def __init__(self, text: str, new_id: Callable[[], int]) -> None:
        self._text = text
        self._new_id = new_id
        self._tokens = self._split(text)
        self._place = 0

    def whole(self) -> IcebergType:
        kind = self._type()
        if self._place < len(self._tokens):
            self._refuse(f"'{self._tokens[self._place]}' is left over")
        return kind

    def _split(self, text: str) -> list[str]:
        tokens, position = [], 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                self._refuse(f"'{text[position:].strip()[0]}' has no place in a type")
            tokens.append(match["word"] or match["mark"])
            position = match.end()
        return tokens

    def _next(self) -> str:
        if self._place >= len(self._tokens):
            self._refuse("it ends too early")
        self._place += 1
        return self._tokens[self._place - 1]

    def _take(self, token: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place].lower() == token:
            self._place += 1
            return True
        return False

    def _expect(self, *tokens: str) -> None:
        if not any(self._take(token) for token in tokens):
            found = f"'{self._tokens[self._place]}'" if self._place < len(self._tokens) else "the end"
            self._refuse(f"'{tokens[0]}' is expected where {found} stands")

    def _number(self) -> int:
        word = self._next()
        if not word.isdigit():
            self._refuse(f"a number is expected where '{word}' stands")
        return int(word)

    def _type(self) -> IcebergType:
        word = self._next().lower()
        name = _ALIASES.get(word, word)
        if name in _SIMPLE:
            return _SIMPLE[name]()
        compound = {
            "decimal": self._decimal,
            "numeric": self._decimal,
            "fixed": self._fixed,
            "list": self._list,
            "map": self._map,
            "struct": self._struct,
        }
        if name not in compound:
            near = get_close_matches(name, [*_SIMPLE, *_ALIASES, *compound], n=1)
            self._refuse(f"there is no type '{word}'" + (f", did you mean '{near[0]}'?" if near else ""))
        return compound[name]()

    def _decimal(self) -> DecimalType:
        self._expect("(")
        precision = self._number()
        scale = self._number() if self._take(",") else 0
        self._expect(")")
        if not 0 < precision <= _MOST_DIGITS or scale > precision:
            self._refuse(f"a decimal has 1 to {_MOST_DIGITS} digits, of which at most all are after the point")
        return DecimalType(precision, scale)

    def _fixed(self) -> FixedType:
        close = ")" if self._take("(") else "]"
        if close == "]":
            self._expect("[")
        length = self._number()
        self._expect(close)
        if length < 1:
            self._refuse("a fixed has at least one byte")
        return FixedType(length)

    def _list(self) -> ListType:
        self._expect("<")
        element_id = self._new_id()
        element = self._type()
        required = self._not_null()
        self._expect(">")
        return ListType(element_id=element_id, element_type=element, element_required=required)

    def _map(self) -> MapType:
        self._expect("<")
        key_id, value_id = self._new_id(), self._new_id()
        key = self._type()
        self._expect(",")
        value = self._type()
        required = self._not_null()
        self._expect(">")
        return MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value, value_required=required)

    def _struct(self) -> StructType:
        self._expect("<")
        fields: list[NestedField] = []
        while not fields or self._take(","):
            field_id = self._new_id()
            name = self._next().strip("`")
            if name in {field.name for field in fields}:
                self._refuse(f"the field '{name}' is there twice")
            self._expect(":")
            kind = self._type()
            fields.append(NestedField(field_id=field_id, name=name, field_type=kind, required=self._not_null()))
        self._expect(">")
        return StructType(*fields)

    def _not_null(self) -> bool:
        if not self._take("not"):
            return False
        self._expect("null")
        return True

    def _refuse(self, reason: str) -> NoReturn:
        msg = f"'{self._text}' is no Iceberg type: {reason}."
        raise ConfigurationError(msg, hint=f"Types: {', '.join(_KNOWN)}.")
