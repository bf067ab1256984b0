"""Rows chosen by partition key: an Iceberg expression, and the same as the text of a row filter."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from pyiceberg.expressions import (
    AlwaysFalse,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    In,
    LessThan,
    Or,
    Reference,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

from floe_core.errors import ConfigurationError
from floe_iceberg.read.predicates import parse_row_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from floe_iceberg.read.predicates import RowPredicate

_PLAIN_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")


@dataclass(frozen=True)
class RowSelection:
    """Some rows of a table.

    Attributes:
        expression: As PyIceberg takes it.
        column: A column that the selection speaks of.
        text: As a row filter, which a staged write keeps in its snapshot.
    """

    expression: BooleanExpression
    column: str
    text: str

    @property
    def empty(self) -> bool:
        """Whether no row is meant."""
        return isinstance(self.expression, AlwaysFalse)

    def on(self, table: Table) -> RowPredicate:
        """Fit the selection to a table."""
        return parse_row_filter(self.expression, table.schema(), table=".".join(table.name()))

    def and_(self, other: RowSelection) -> RowSelection:
        """Select the rows that both select."""
        return RowSelection(And(self.expression, other.expression), self.column, f"({self.text} and {other.text})")

    def or_(self, other: RowSelection) -> RowSelection:
        """Select the rows that one of the two selects."""
        return RowSelection(Or(self.expression, other.expression), self.column, f"({self.text} or {other.text})")


def nothing(column: str) -> RowSelection:
    """Select no row."""
    return RowSelection(AlwaysFalse(), column, "false")


def any_of(selections: Sequence[RowSelection]) -> RowSelection:
    """Select the rows that one of several selects."""
    # Halves keep the tree flat: a chain of thousands of keys would exhaust the stack of whoever visits it.
    if len(selections) == 1:
        return selections[0]
    middle = len(selections) // 2
    return any_of(selections[:middle]).or_(any_of(selections[middle:]))


class KeySet:
    """Rows whose column holds one of some keys."""

    @staticmethod
    def of(column: str, kind: IcebergType, keys: Sequence[str]) -> RowSelection:
        """Select rows by the keys' own values.

        Raises:
            ConfigurationError: A key cannot be a value of the column.
        """
        if not keys:
            return nothing(column)
        values = [_value(key, kind, column) for key in keys]
        texts = [_text(value) for value in values]
        name = _name(column)
        if len(values) == 1:
            return RowSelection(EqualTo(term=Reference(column), value=values[0]), column, f"{name} = {texts[0]}")
        return RowSelection(In(term=Reference(column), literals=values), column, f"{name} in ({', '.join(texts)})")


class Ranges:
    """Rows whose column lies in one of some time windows."""

    @staticmethod
    def of(column: str, kind: IcebergType, windows: Sequence[tuple[datetime, datetime]]) -> RowSelection:
        """Select rows by half-open windows; adjacent ones become one."""
        if not windows:
            return nothing(column)
        return any_of([_between(column, kind, start, end) for start, end in _merged(windows)])


def _merged(windows: Sequence[tuple[datetime, datetime]]) -> list[tuple[datetime, datetime]]:
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _between(column: str, kind: IcebergType, start: datetime, end: datetime) -> RowSelection:
    low, high = _bound(start, kind), _bound(end, kind)
    expression = And(
        GreaterThanOrEqual(term=Reference(column), value=low), LessThan(term=Reference(column), value=high)
    )
    name = _name(column)
    return RowSelection(expression, column, f"({name} >= '{low}' and {name} < '{high}')")


def _name(column: str) -> str:
    """Write a column in a filter; a dot in a name that is not plain is a part of it."""
    return column if _PLAIN_NAME.match(column) else "`" + column.replace("`", "``") + "`"


def _bound(moment: datetime, kind: IcebergType) -> str:
    """Write a window's edge: an instant where the column has a zone, else the wall clock of the partitions' zone."""
    if isinstance(kind, DateType):
        return moment.date().isoformat()
    if isinstance(kind, TimestamptzType):
        return moment.astimezone(UTC).isoformat()
    return moment.replace(tzinfo=None).isoformat()


def _value(key: str, kind: IcebergType, column: str) -> Any:  # noqa: ANN401 - any literal Iceberg takes
    try:
        match kind:
            case BooleanType():
                return {"true": True, "false": False}[key.lower()]
            case IntegerType() | LongType():
                return int(key)
            case FloatType() | DoubleType():
                return float(key)
            case DecimalType():
                return Decimal(key)
            case DateType():
                return date.fromisoformat(key).isoformat()
    except (KeyError, ValueError, InvalidOperation):
        msg = f"The partition key '{key}' is not a valid value of column '{column}', which is of type {kind}."
        raise ConfigurationError(msg, hint="Partition by a column that holds the keys.") from None
    if isinstance(kind, StringType):
        return key
    msg = f"Partition keys cannot select values of column '{column}' of type {kind}."
    raise ConfigurationError(msg, hint="Partition by a text, number, date or boolean column.")


def _text(value: Any) -> str:  # noqa: ANN401 - any literal Iceberg takes
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "'" + str(value).replace("'", "''") + "'"
