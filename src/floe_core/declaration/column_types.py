"""Column types as people write them: ``long``, ``decimal(10, 2)``, ``map<string, list<long>>``.

The grammar lives here, free of any table library, so that ``floe.yaml`` is checked where it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

SIMPLE_TYPES = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "time",
    "timestamp",
    "timestamptz",
    "timestamp_ns",
    "timestamptz_ns",
    "string",
    "uuid",
    "binary",
)
KNOWN_TYPES = (*SIMPLE_TYPES, "decimal(p, s)", "fixed(n)", "list<type>", "map<type, type>", "struct<name: type, …>")

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
_MOST_DIGITS = 38


@dataclass(frozen=True)
class SimpleType:
    """A type without parts, one of ``SIMPLE_TYPES``."""

    name: str


@dataclass(frozen=True)
class DecimalOf:
    """A decimal."""

    precision: int
    scale: int


@dataclass(frozen=True)
class FixedOf:
    """A fixed number of bytes."""

    length: int


@dataclass(frozen=True)
class ListOf:
    """A list."""

    element: ColumnType
    required: bool


@dataclass(frozen=True)
class MapOf:
    """A map."""

    key: ColumnType
    value: ColumnType
    required: bool


@dataclass(frozen=True)
class FieldOf:
    """A field of a struct."""

    name: str
    type: ColumnType
    required: bool


@dataclass(frozen=True)
class StructOf:
    """A struct."""

    fields: tuple[FieldOf, ...]


ColumnType = SimpleType | DecimalOf | FixedOf | ListOf | MapOf | StructOf


class ColumnTypeError(ValueError):
    """The text is no type; the message is the reason."""


def parse_column_type(text: str) -> ColumnType:
    """Read a type in Iceberg's, Spark's or SQL's spelling.

    Raises:
        ColumnTypeError: The text is no type.
    """
    return _Parser(text).whole()


class _Parser:
    """Reads one type, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._place = 0

    def whole(self) -> ColumnType:
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

    def _type(self) -> ColumnType:
        word = self._next().lower()
        name = _ALIASES.get(word, word)
        if name in SIMPLE_TYPES:
            return SimpleType(name)
        compound: dict[str, Callable[[], ColumnType]] = {
            "decimal": self._decimal,
            "numeric": self._decimal,
            "fixed": self._fixed,
            "list": self._list,
            "map": self._map,
            "struct": self._struct,
        }
        if name not in compound:
            near = get_close_matches(name, [*SIMPLE_TYPES, *_ALIASES, *compound], n=1)
            self._refuse(f"there is no type '{word}'" + (f", did you mean '{near[0]}'?" if near else ""))
        return compound[name]()

    def _decimal(self) -> DecimalOf:
        self._expect("(")
        precision = self._number()
        scale = self._number() if self._take(",") else 0
        self._expect(")")
        if not 0 < precision <= _MOST_DIGITS or scale > precision:
            self._refuse(f"a decimal has 1 to {_MOST_DIGITS} digits, of which at most all are after the point")
        return DecimalOf(precision, scale)

    def _fixed(self) -> FixedOf:
        close = ")" if self._take("(") else "]"
        if close == "]":
            self._expect("[")
        length = self._number()
        self._expect(close)
        if length < 1:
            self._refuse("a fixed has at least one byte")
        return FixedOf(length)

    def _list(self) -> ListOf:
        self._expect("<")
        element = self._type()
        required = self._not_null()
        self._expect(">")
        return ListOf(element, required)

    def _map(self) -> MapOf:
        self._expect("<")
        key = self._type()
        self._expect(",")
        value = self._type()
        required = self._not_null()
        self._expect(">")
        return MapOf(key, value, required)

    def _struct(self) -> StructOf:
        self._expect("<")
        fields: list[FieldOf] = []
        while not fields or self._take(","):
            name = self._next().strip("`")
            if name in {field.name for field in fields}:
                self._refuse(f"the field '{name}' is there twice")
            self._expect(":")
            kind = self._type()
            fields.append(FieldOf(name, kind, self._not_null()))
        self._expect(">")
        return StructOf(tuple(fields))

    def _not_null(self) -> bool:
        if not self._take("not"):
            return False
        self._expect("null")
        return True

    def _refuse(self, reason: str) -> NoReturn:
        raise ColumnTypeError(reason)
