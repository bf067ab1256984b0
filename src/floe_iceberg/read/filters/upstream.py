"""Converts PyIceberg expressions to floe's filters, and floe's filters to expressions for pushdown.

PyIceberg's evaluation never decides which rows match: its negations, literals and partition projections do not follow
SQL if a column is null or NaN, or if a literal does not have the column's type.
``tests/unit/iceberg/test_upstream_filters.py`` documents each such case and fails once PyIceberg fixes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotIn,
    NotNaN,
    NotNull,
    NotStartsWith,
    Reference,
    StartsWith,
    UnboundPredicate,
)
from pyiceberg.expressions import And as PyAnd
from pyiceberg.expressions import In as PyIn
from pyiceberg.expressions import Not as PyNot
from pyiceberg.expressions import Or as PyOr
from pyiceberg.expressions.literals import (
    BinaryLiteral,
    BooleanLiteral,
    DateLiteral,
    DecimalLiteral,
    DoubleLiteral,
    FixedLiteral,
    FloatLiteral,
    LongLiteral,
    StringLiteral,
    TimeLiteral,
    TimestampLiteral,
    UUIDLiteral,
)
from pyiceberg.types import DateType, IntegerType, LongType, StringType, TimestampType, TimestamptzType

from floe_iceberg.read.filters.binding import AllOf, AnyOf, In, Matches
from floe_iceberg.read.filters.syntax import (
    Among,
    And,
    Compare,
    Constant,
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.types import IcebergType

    from floe_iceberg.read.filters.binding import Bound
    from floe_iceberg.read.filters.syntax import Predicate
    from floe_iceberg.read.filters.values import Span

_KINDS: dict[type, Kind] = {
    BooleanLiteral: Kind.BOOLEAN,
    LongLiteral: Kind.NUMBER,
    FloatLiteral: Kind.NUMBER,
    DoubleLiteral: Kind.NUMBER,
    DecimalLiteral: Kind.NUMBER,
    StringLiteral: Kind.TEXT,
    BinaryLiteral: Kind.BYTES,
    FixedLiteral: Kind.BYTES,
    UUIDLiteral: Kind.BYTES,
    DateLiteral: Kind.DATE,
    TimeLiteral: Kind.TIME,
    TimestampLiteral: Kind.TIMESTAMP,
}
_COMPARISONS: dict[type, Operator] = {
    EqualTo: Operator.EQ,
    NotEqualTo: Operator.NE,
    LessThan: Operator.LT,
    LessThanOrEqual: Operator.LE,
    GreaterThan: Operator.GT,
    GreaterThanOrEqual: Operator.GE,
}
# Types for which Arrow's comparisons and statistics are always correct.
_PUSHED: dict[type[IcebergType], Callable[[Any], Any]] = {
    IntegerType: LongLiteral,
    LongType: LongLiteral,
    DateType: DateLiteral,
    TimestampType: TimestampLiteral,
    TimestamptzType: TimestampLiteral,
    StringType: lambda value: StringLiteral(value.decode()),
}
# An expression with more spans costs more than it saves.
_MAX_SPANS = 32


class UnsupportedExpressionError(ValueError):
    """An expression type that floe does not support."""


def predicate_of(expression: BooleanExpression) -> Predicate:
    """Convert an unbound expression.

    Raises:
        UnsupportedExpressionError: The expression has an unsupported part.
    """
    match expression:
        case AlwaysTrue():
            return Constant(value=True)
        case AlwaysFalse():
            return Constant(value=False)
        case PyNot(child=child):
            return Not(predicate_of(child))
        case PyAnd() | PyOr():
            chain = type(expression)
            operands = tuple(predicate_of(operand) for operand in _chain(expression, chain))
            return And(operands) if chain is PyAnd else Or(operands)
        case UnboundPredicate():
            return _comparison(expression)
    msg = f"{type(expression).__name__} is not supported"
    raise UnsupportedExpressionError(msg)


def _chain(expression: Any, kind: type) -> list[BooleanExpression]:  # noqa: ANN401 - And or Or
    """Flatten a chain of one operator, because thousands of nested operators would exhaust the stack."""
    operands, left = [], [expression]
    while left:
        operand = left.pop()
        if isinstance(operand, kind):
            left += [operand.right, operand.left]  # type: ignore[attr-defined]
        else:
            operands.append(operand)
    return operands


def _comparison(predicate: Any) -> Predicate:  # noqa: ANN401 - one case per kind
    if not isinstance(predicate.term, Reference):
        msg = f"{predicate.term} is not a column"
        raise UnsupportedExpressionError(msg)
    column = Name(tuple(predicate.term.name.split(".")))
    match predicate:
        case IsNull() | NotNull():
            return Null(column) if isinstance(predicate, IsNull) else Not(Null(column))
        case IsNaN() | NotNaN():
            return NaN(column) if isinstance(predicate, IsNaN) else Not(NaN(column))
        case PyIn() | NotIn():
            among = Among(column, tuple(_literal(value) for value in predicate.literals))
            return among if isinstance(predicate, PyIn) else Not(among)
        case StartsWith() | NotStartsWith():
            begins = Like(column, (str(predicate.literal.value), Wildcard.ANY))
            return begins if isinstance(predicate, StartsWith) else Not(begins)
    operator = _COMPARISONS.get(type(predicate))
    if operator is None:
        msg = f"{type(predicate).__name__} is not supported"
        raise UnsupportedExpressionError(msg)
    return Compare(column, operator, _literal(predicate.literal))


def _literal(literal: Any) -> Literal:  # noqa: ANN401 - a literal of PyIceberg
    kind = next((kind for known, kind in _KINDS.items() if isinstance(literal, known)), None)
    if kind is None:
        msg = f"{type(literal).__name__} is not supported"
        raise UnsupportedExpressionError(msg)
    return Literal(kind, literal.value, repr(literal.value))


def pushed_down(bound: Bound) -> BooleanExpression:
    """Return an expression that matches every row that a filter matches, and possibly more.

    It only lets Arrow skip row groups. It has no negation and only compares values of the column's type, for which
    PyIceberg's semantics are correct.
    """
    match bound:
        case AllOf(operands):
            found: BooleanExpression = AlwaysTrue()
            for operand in operands:
                found = PyAnd(found, pushed_down(operand))
            return found
        case AnyOf(operands):
            if not operands:
                return AlwaysFalse()
            either = pushed_down(operands[0])
            for operand in operands[1:]:
                either = PyOr(either, pushed_down(operand))
            return either
        case In(column, values) | Matches(column, values=values):
            make = _PUSHED.get(type(column.type))
            # PyIceberg would interpret a dot in a name as a struct field.
            if make is None or column.is_nested or "." in column.path[0] or len(values.spans) > _MAX_SPANS:
                return AlwaysTrue()
            name = column.path[0]
            either = IsNull(term=Reference(name)) if values.nulls else AlwaysFalse()
            for span in values.spans:
                either = PyOr(either, _spanned(name, span, make))
            return either


def _spanned(name: str, span: Span, make: Callable[[Any], Any]) -> BooleanExpression:
    if span.is_point:
        return EqualTo(term=Reference(name), value=make(span.low))
    found: BooleanExpression = AlwaysTrue()
    if span.low is not None:
        found = PyAnd(found, GreaterThanOrEqual(term=Reference(name), value=make(span.low)))
    if span.high is not None:
        found = PyAnd(found, LessThanOrEqual(term=Reference(name), value=make(span.high)))
    return NotNull(term=Reference(name)) if isinstance(found, AlwaysTrue) else found
