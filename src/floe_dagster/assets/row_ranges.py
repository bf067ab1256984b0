"""Row selections by partition key, as PyIceberg expressions and as row filter text."""

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
from floe_iceberg.names import name_of
from floe_iceberg.read.predicates import parse_row_filter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from floe_iceberg.read.predicates import RowPredicate

_PLAIN_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")


@dataclass(frozen=True)
class RowSelection:
    """A selection of rows of a table.

    Attributes:
        expression: The selection as a PyIceberg expression.
        column: A column that the selection refers to.
        text: The selection as a row filter; a staged write stores it in its snapshot.
    """

    expression: BooleanExpression
    column: str
    text: str

    @property
    def empty(self) -> bool:
        """Whether the selection matches no rows."""
        return isinstance(self.expression, AlwaysFalse)

    def on(self, table: Table) -> RowPredicate:
        """Return the selection as a row filter bound to a table's schema."""
        return parse_row_filter(self.expression, table.schema(), table=name_of(table))

    def and_(self, other: RowSelection) -> RowSelection:
        """Select the rows that match both selections."""
        return RowSelection(And(self.expression, other.expression), self.column, f"({self.text} and {other.text})")

    def or_(self, other: RowSelection) -> RowSelection:
        """Select the rows that match either selection."""
        return RowSelection(Or(self.expression, other.expression), self.column, f"({self.text} or {other.text})")


def nothing(column: str) -> RowSelection:
    """Select no rows."""
    return RowSelection(AlwaysFalse(), column, "false")


def any_of(selections: Sequence[RowSelection]) -> RowSelection:
    """Select the rows that match any of several selections."""
    # A balanced tree: a chain of thousands of keys would exhaust the stack of expression visitors.
    if len(selections) == 1:
        return selections[0]
    middle = len(selections) // 2
    return any_of(selections[:middle]).or_(any_of(selections[middle:]))


class KeySet:
    """Selections of rows whose column equals one of several keys."""

    @staticmethod
    def of(column: str, kind: IcebergType, keys: Sequence[str]) -> RowSelection:
        """Select rows by the values of the keys.

        Raises:
            ConfigurationError: A key is not a valid value of the column.
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
    """Selections of rows whose column is within one of several time windows."""

    @staticmethod
    def of(column: str, kind: IcebergType, windows: Sequence[tuple[datetime, datetime]]) -> RowSelection:
        """Select rows by half-open windows; adjacent windows are merged."""
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
    """Quote a column name for a filter if it is not a plain identifier."""
    return column if _PLAIN_NAME.match(column) else "`" + column.replace("`", "``") + "`"


def _bound(moment: datetime, kind: IcebergType) -> str:
    """Format a window bound: as an instant for columns with a time zone, otherwise as local time of the partitions."""
    if isinstance(kind, DateType):
        return moment.date().isoformat()
    if isinstance(kind, TimestamptzType):
        return moment.astimezone(UTC).isoformat()
    return moment.replace(tzinfo=None).isoformat()


def _value(key: str, kind: IcebergType, column: str) -> Any:  # noqa: ANN401 - any Iceberg literal
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
        msg = f"Partition key '{key}' is not a valid value of column '{column}' of type {kind}."
        raise ConfigurationError(msg, hint="Partition by a column that contains the keys.") from None
    if isinstance(kind, StringType):
        return key
    msg = f"Cannot partition by column '{column}' of type {kind}."
    raise ConfigurationError(msg, hint="Use a text, number, date or boolean column.")


def _text(value: Any) -> str:  # noqa: ANN401 - any Iceberg literal
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "'" + str(value).replace("'", "''") + "'"
