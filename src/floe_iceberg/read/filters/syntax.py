"""Syntax tree of row filters before binding; parsed text and PyIceberg expressions are converted to it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal


class Operator(StrEnum):
    """Comparison operators."""

    EQ = "="
    NE = "!="
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="

    @property
    def mirrored(self) -> Operator:
        """The operator with both sides swapped."""
        return _MIRRORED.get(self, self)


_MIRRORED = {
    Operator.LT: Operator.GT,
    Operator.LE: Operator.GE,
    Operator.GT: Operator.LT,
    Operator.GE: Operator.LE,
}


class Kind(StrEnum):
    """Kinds of literals; dates count days, times and timestamps count microseconds, from 1970."""

    BOOLEAN = "boolean"
    NUMBER = "number"
    TEXT = "text"
    BYTES = "bytes"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"


@dataclass(frozen=True)
class Literal:
    """A value in a filter.

    Attributes:
        kind: The kind of the literal.
        value: The value; numbers are exact, except for floats passed by a caller.
        shown: Text for error messages.
    """

    kind: Kind
    value: bool | int | float | Decimal | str | bytes
    shown: str


@dataclass(frozen=True)
class Name:
    """A column name in a filter.

    Attributes:
        parts: The column, followed by nested struct fields.
        whole: Whether the parts may also form one name that contains dots.
    """

    parts: tuple[str, ...]
    whole: bool = True

    @property
    def dotted(self) -> str:
        """The dotted name."""
        return ".".join(self.parts)


@dataclass(frozen=True)
class Compare:
    """A comparison of a column with a value; null if the column is null."""

    column: Name
    operator: Operator
    literal: Literal


@dataclass(frozen=True)
class Among:
    """A test whether a column is one of several values; ``unknown`` if null is among them."""

    column: Name
    literals: tuple[Literal, ...]
    unknown: bool = False


@dataclass(frozen=True)
class Null:
    """A test for null; never null itself."""

    column: Name


@dataclass(frozen=True)
class NaN:
    """A test for NaN; false, not null, for null."""

    column: Name


@dataclass(frozen=True)
class Flag:
    """A boolean column used as a predicate."""

    column: Name


@dataclass(frozen=True)
class Like:
    """A match of a string column with a pattern of literal strings and wildcards."""

    column: Name
    pattern: tuple[str | Wildcard, ...]


class Wildcard(StrEnum):
    """Wildcards of a LIKE pattern."""

    ANY = "%"
    ONE = "_"


@dataclass(frozen=True)
class Constant:
    """True or false for every row."""

    value: bool


@dataclass(frozen=True)
class Not:
    """A negation; null stays null."""

    operand: Predicate


@dataclass(frozen=True)
class And:
    """True if all operands are true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """True if any operand is true."""

    operands: tuple[Predicate, ...]


Predicate = Compare | Among | Null | NaN | Flag | Like | Constant | Not | And | Or
