"""Column types in text form: ``long``, ``decimal(10, 2)``, ``map<string, list<long>>``.

The parser does not depend on a table library, so ``floe.yaml`` can be checked where it is read.
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

# The names of the same types in Spark, SQL and Arrow.
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
_MAX_DIGITS = 38


@dataclass(frozen=True)
class SimpleType:
    """A primitive type without parameters, one of ``SIMPLE_TYPES``."""

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
    """The text is not a valid type; the message is the reason."""


def parse_column_type(text: str) -> ColumnType:
    """Parse a type in Iceberg's, Spark's or SQL's spelling.

    Raises:
        ColumnTypeError: The text is not a valid type.
    """
    return _Parser(text).whole()


class _Parser:
    """Parses one type, token by token."""

    def __init__(self, text: str) -> None:
        self._tokens = self._split(text)
        self._place = 0

    def whole(self) -> ColumnType:
        kind = self._type()
        if self._place < len(self._tokens):
            self._refuse(f"unexpected '{self._tokens[self._place]}' after the type")
        return kind

    def _split(self, text: str) -> list[str]:
        tokens, position = [], 0
        while position < len(text.rstrip()):
            match = _TOKEN.match(text, position)
            if match is None:
                self._refuse(f"unexpected character '{text[position:].strip()[0]}'")
            tokens.append(match["word"] or match["mark"])
            position = match.end()
        return tokens

    def _next(self) -> str:
        if self._place >= len(self._tokens):
            self._refuse("unexpected end of the type")
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
            self._refuse(f"expected '{tokens[0]}' but found {found}")

    def _number(self) -> int:
        word = self._next()
        if not word.isdigit():
            self._refuse(f"expected a number but found '{word}'")
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
            self._refuse(f"unknown type '{word}'" + (f", did you mean '{near[0]}'?" if near else ""))
        return compound[name]()

    def _decimal(self) -> DecimalOf:
        self._expect("(")
        precision = self._number()
        scale = self._number() if self._take(",") else 0
        self._expect(")")
        if not 0 < precision <= _MAX_DIGITS or scale > precision:
            self._refuse(f"a decimal needs a precision of 1 to {_MAX_DIGITS} and a scale no greater than the precision")
        return DecimalOf(precision, scale)

    def _fixed(self) -> FixedOf:
        close = ")" if self._take("(") else "]"
        if close == "]":
            self._expect("[")
        length = self._number()
        self._expect(close)
        if length < 1:
            self._refuse("a fixed needs at least one byte")
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
                self._refuse(f"duplicate field '{name}'")
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
