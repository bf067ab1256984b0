"""Row filters as written, before a schema is known: what the parser returns and PyIceberg's expressions become."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from decimal import Decimal


class Operator(StrEnum):
    """A comparison of a column with a value."""

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
    """What a literal is; dates, times and timestamps count days or microseconds from 1970."""

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
        kind: What it is.
        value: The value; a number is exact, except for a float that a caller passed as one.
        shown: How an error quotes it.
    """

    kind: Kind
    value: bool | int | float | Decimal | str | bytes
    shown: str


@dataclass(frozen=True)
class Name:
    """A column as a filter names it.

    Attributes:
        parts: The column, and the fields of structs below it.
        whole: Whether the parts may also be one name with dots in it.
    """

    parts: tuple[str, ...]
    whole: bool = True

    @property
    def dotted(self) -> str:
        """The name in one piece."""
        return ".".join(self.parts)


@dataclass(frozen=True)
class Compare:
    """A column compared with a value; null when the column is null."""

    column: Name
    operator: Operator
    literal: Literal


@dataclass(frozen=True)
class Among:
    """A column that is one of several values; ``unknown`` when null is among them."""

    column: Name
    literals: tuple[Literal, ...]
    unknown: bool = False


@dataclass(frozen=True)
class Null:
    """A column that is null; never null itself."""

    column: Name


@dataclass(frozen=True)
class NaN:
    """A column that is NaN; false, not null, for null."""

    column: Name


@dataclass(frozen=True)
class Flag:
    """A boolean column used as a predicate."""

    column: Name


@dataclass(frozen=True)
class Like:
    """A text column that matches a pattern: a tuple of literal texts and wildcards."""

    column: Name
    pattern: tuple[str | Wildcard, ...]


class Wildcard(StrEnum):
    """What a pattern leaves open."""

    ANY = "%"
    ONE = "_"


@dataclass(frozen=True)
class Constant:
    """True or false for every row."""

    value: bool


@dataclass(frozen=True)
class Not:
    """The negation; null stays null."""

    operand: Predicate


@dataclass(frozen=True)
class And:
    """True when all operands are."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True)
class Or:
    """True when one operand is."""

    operands: tuple[Predicate, ...]


Predicate = Compare | Among | Null | NaN | Flag | Like | Constant | Not | And | Or
