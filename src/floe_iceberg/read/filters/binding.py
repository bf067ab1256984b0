"""Binds filters to a schema: resolves negations and turns every comparison into a set of values of one column.

De Morgan's laws, which also apply in three-valued logic, push negations down to the leaves. The result has no negation,
so it is enough to evaluate each leaf as true or not true; null never has to be propagated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pyiceberg.types import BooleanType, StringType, StructType

from floe_iceberg.read.filters.domains import IncompatibleLiteralError, is_float, order_of, point
from floe_iceberg.read.filters.syntax import (
    Among,
    And,
    Compare,
    Constant,
    Flag,
    Kind,
    Like,
    Literal,
    Name,
    NaN,
    Not,
    Null,
    Operator,
    Or,
    Wildcard,
)
from floe_iceberg.read.filters.values import Order, Span, ValueSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField

    from floe_iceberg.read.filters.syntax import Predicate

_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class UnknownColumnError(ValueError):
    """A filter refers to a column that does not exist in the schema."""

    def __init__(self, name: str) -> None:
        """Store the column name."""
        super().__init__(name)
        self.name = name


class IncompatibleComparisonError(ValueError):
    """A filter compares a column with an incompatible value."""

    def __init__(self, message: str, hint: str) -> None:
        """Store the message and a hint for the correct syntax."""
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class Column:
    """A column of the schema, or a field of a struct.

    Attributes:
        field_id: The field id.
        path: The names of the enclosing structs, followed by the field name.
        type: The Iceberg type.
    """

    field_id: int
    path: tuple[str, ...]
    type: IcebergType

    @property
    def is_nested(self) -> bool:
        """Whether it is a field of a struct."""
        return len(self.path) > 1


@dataclass(frozen=True)
class In:
    """True if the column's value is in a set."""

    column: Column
    values: ValueSet


@dataclass(frozen=True)
class Matches:
    """True if a string matches a pattern, or does not match it when negated; never true for null.

    Attributes:
        column: The column.
        pattern: Literal strings and wildcards.
        negated: Whether matching strings are excluded.
        values: A superset of the strings that pass.
    """

    column: Column
    pattern: tuple[str | Wildcard, ...]
    negated: bool
    values: ValueSet


@dataclass(frozen=True)
class AllOf:
    """True if all operands are true; always true without operands."""

    operands: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class AnyOf:
    """True if any operand is true; never true without operands."""

    operands: tuple[Bound, ...] = ()


Leaf = In | Matches
Bound = In | Matches | AllOf | AnyOf
ALWAYS, NEVER = AllOf(), AnyOf()


def bind(predicate: Predicate, schema: Schema) -> Bound:
    """Bind a filter to a schema.

    Raises:
        UnknownColumnError: A column does not exist in the schema.
        IncompatibleComparisonError: A column is compared with a value of another type.
    """
    return _Binder(schema).bound(predicate, negated=False)


def leaves(bound: Bound) -> Iterator[Leaf]:
    """Yield the comparisons of a filter."""
    if isinstance(bound, AllOf | AnyOf):
        for operand in bound.operands:
            yield from leaves(operand)
    else:
        yield bound


def columns(bound: Bound) -> list[Column]:
    """Return the distinct columns of a filter."""
    return list({leaf.column.field_id: leaf.column for leaf in leaves(bound)}.values())


class _Binder:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def bound(self, predicate: Predicate, *, negated: bool) -> Bound:
        match predicate:
            case Not(operand):
                return self.bound(operand, negated=not negated)
            case And(operands) | Or(operands):
                parts = [self.bound(operand, negated=negated) for operand in operands]
                return all_of(parts) if isinstance(predicate, And) is not negated else any_of(parts)
            case Constant(value):
                return ALWAYS if value is not negated else NEVER
            case Like(name, pattern):
                return self._like(self._column(name), pattern, negated=negated)
            case _:
                column = self._column(predicate.column)
                return _leaf(column, self._values(predicate, column, negated=negated))

    def _values(self, predicate: Compare | Among | Null | NaN | Flag, column: Column, *, negated: bool) -> ValueSet:
        order = order_of(column.type)
        match predicate:
            case Null():
                order = order or Order()
                return ValueSet.all_values(order) if negated else ValueSet(order, nulls=True)
            case NaN():
                order = order or Order()
                found = ValueSet(order, nan=is_float(column.type))
                # Like IS NULL, IS NAN is never null: null is not NaN.
                return found if not negated else _with_null(found.complement())
            case Flag():
                if not isinstance(column.type, BooleanType):
                    msg = f"column '{'.'.join(column.path)}' of type {column.type} is not a predicate"
                    raise IncompatibleComparisonError(msg, "Compare it with a value.")
                found = _compared(Operator.EQ, Fraction(1), order or Order())
            case Compare(_, operator, literal):
                found = _compared(operator, self._point(column, literal), self._ordered(column, literal))
            case Among(_, literals, unknown):
                order = order or Order()
                spans = [
                    span
                    for literal in literals
                    for span in _compared(
                        Operator.EQ, self._point(column, literal), self._ordered(column, literal)
                    ).spans
                ]
                found = ValueSet(order, tuple(spans))
                if negated and unknown:
                    return ValueSet(order)
        return found.complement() if negated else found

    @staticmethod
    def _ordered(column: Column, literal: Literal) -> Order:
        order = order_of(column.type)
        if order is None:
            msg = f"column '{'.'.join(column.path)}' of type {column.type} cannot be compared with {literal.shown}"
            raise IncompatibleComparisonError(msg, "Only 'is null' and 'is not null' are supported for it.")
        return order

    def _point(self, column: Column, literal: Literal) -> Fraction | float | bytes:
        self._ordered(column, literal)
        try:
            return point(literal, column.type)
        except IncompatibleLiteralError as err:
            msg = f"column '{'.'.join(column.path)}' of type {column.type} cannot be compared with {literal.shown}"
            raise IncompatibleComparisonError(msg, err.hint) from err

    def _like(self, column: Column, pattern: tuple[str | Wildcard, ...], *, negated: bool) -> Bound:
        if not isinstance(column.type, StringType):
            msg = f"column '{'.'.join(column.path)}' of type {column.type} cannot be matched with LIKE"
            raise IncompatibleComparisonError(msg, "LIKE requires a string column.")
        order = Order()
        wildcards = sum(isinstance(part, Wildcard) for part in pattern)
        prefix = pattern[0] if pattern and not isinstance(pattern[0], Wildcard) else ""
        if not wildcards:
            found = _compared(Operator.EQ, self._point(column, Literal(Kind.TEXT, prefix, prefix)), order)
            return _leaf(column, found.complement() if negated else found)
        fixed = "".join(part for part in pattern if not isinstance(part, Wildcard))
        self._point(column, Literal(Kind.TEXT, fixed, "the pattern"))
        found = ValueSet(order, (prefix_span(prefix),))
        if wildcards == 1 and pattern[-1] is Wildcard.ANY:
            return _leaf(column, found.complement() if negated else found)
        return Matches(column, pattern, negated, ValueSet.all_values(order) if negated else found)

    def _column(self, name: Name) -> Column:
        found = _walk(self._schema.fields, name.parts, whole=name.whole)
        if found is None:
            raise UnknownColumnError(name.dotted)
        field, path = found
        return Column(field.field_id, path, field.field_type)


def _walk(
    fields: Iterable[NestedField], parts: tuple[str, ...], *, whole: bool
) -> tuple[NestedField, tuple[str, ...]] | None:
    """Find a field and its path; with ``whole``, several parts may form one name that contains dots."""
    known = {field.name: field for field in fields}
    for taken in range(1, len(parts) + 1 if whole else 2):
        field = known.get(".".join(parts[:taken]))
        if field is not None and taken == len(parts):
            return field, (field.name,)
        if field is not None and isinstance(field.field_type, StructType):
            found = _walk(field.field_type.fields, parts[taken:], whole=whole)
            if found is not None:
                return found[0], (field.name, *found[1])
    return None


def _with_null(values: ValueSet) -> ValueSet:
    return ValueSet(values.order, values.spans, nan=values.nan, nulls=True)


def _compared(operator: Operator, value: Any, order: Order) -> ValueSet:  # noqa: ANN401 - a point of the order
    """Return the values for which a comparison is true."""
    if operator is Operator.NE:
        return _compared(Operator.EQ, value, order).complement()
    if order.limits is not None:
        return ValueSet(order, _counted(operator, value))
    match operator:
        case Operator.EQ:
            span = Span(value, value)
        case Operator.LT:
            span = Span(None, value, high_open=True)
        case Operator.LE:
            span = Span(None, value)
        case Operator.GT:
            span = Span(value, None, low_open=True)
        case Operator.GE:
            span = Span(value, None)
    # NaN is greater than every number.
    return ValueSet(order, (span,), nan=order.has_nan and operator in {Operator.GT, Operator.GE})


def _counted(operator: Operator, value: Fraction) -> tuple[Span, ...]:
    """Return the integers for which a comparison with a fraction is true."""
    down, up = math.floor(value), math.ceil(value)
    match operator:
        case Operator.EQ:
            return (Span(down, down),) if down == up else ()
        case Operator.LT:
            return (Span(None, up - 1),)
        case Operator.LE:
            return (Span(None, down),)
        case Operator.GT:
            return (Span(down + 1, None),)
        case _:
            return (Span(up, None),)


def prefix_span(prefix: str) -> Span:
    """Return the span of the strings that start with a prefix."""
    for length in range(len(prefix), 0, -1):
        following = ord(prefix[length - 1]) + 1
        if following in _SURROGATES:
            following = _SURROGATES.stop
        if following <= _LAST_CHARACTER:
            return Span(prefix.encode(), (prefix[: length - 1] + chr(following)).encode(), high_open=True)
    return Span(prefix.encode(), None)


def _leaf(column: Column, values: ValueSet) -> Bound:
    if values.is_empty:
        return NEVER
    return ALWAYS if values.nulls and values.has_all_values else In(column, values)


def all_of(parts: Iterable[Bound]) -> Bound:
    """Combine filters with AND and merge the value sets of each column."""
    merged: dict[int, In] = {}
    others: list[Bound] = []
    for part in parts:
        for operand in part.operands if isinstance(part, AllOf) else (part,):
            if operand == NEVER:
                return NEVER
            if isinstance(operand, In):
                known = merged.get(operand.column.field_id)
                values = known.values.intersection(operand.values) if known else operand.values
                if values.is_empty:
                    return NEVER
                merged[operand.column.field_id] = In(operand.column, values)
            elif operand != ALWAYS:
                others.append(operand)
    operands = (*merged.values(), *others)
    return operands[0] if len(operands) == 1 else AllOf(operands)


def any_of(parts: Iterable[Bound]) -> Bound:
    """Combine filters with OR and merge the value sets of each column."""
    merged: dict[int, list[In]] = {}
    others: list[Bound] = []
    for part in parts:
        for operand in part.operands if isinstance(part, AnyOf) else (part,):
            if operand == ALWAYS:
                return ALWAYS
            if isinstance(operand, In):
                merged.setdefault(operand.column.field_id, []).append(operand)
            elif operand != NEVER:
                others.append(operand)
    united = [_leaf(group[0].column, _united(group)) for group in merged.values()]
    if ALWAYS in united:
        return ALWAYS
    operands = (*united, *others)
    return operands[0] if len(operands) == 1 else AnyOf(operands)


def _united(group: list[In]) -> ValueSet:
    # A single union: merging thousands of keys pairwise would sort them thousands of times.
    sets = [operand.values for operand in group]
    return ValueSet(
        sets[0].order,
        tuple(span for values in sets for span in values.spans),
        nan=any(values.nan for values in sets),
        nulls=any(values.nulls for values in sets),
    )
