"""Row filters and column lists from users, checked against a schema before anything is read."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions import parser as expression_parser
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, visit

from floe_core.errors import InvalidScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.expressions import BoundPredicate, UnboundPredicate
    from pyiceberg.schema import Schema

RowFilter = str | BooleanExpression

_SYNTAX = (
    "Write a predicate such as: status = 'active' and (id > 10 or name like 'A%') "
    "and city in ('Oslo', 'Rome') and email is not null."
)


def parse_row_filter(row_filter: RowFilter | None, schema: Schema, *, table: str) -> BooleanExpression:
    """Turn a filter into an expression that fits the schema; None means every row.

    Raises:
        InvalidScanError: The text is no predicate, names an unknown column or compares with a value of another type.
    """
    if row_filter is None:
        return AlwaysTrue()
    expression = _parse(row_filter, table) if isinstance(row_filter, str) else row_filter
    columns: list[str] = visit(expression, _ReferencedColumns())
    check_columns(columns, schema, table=table, role=f"row filter {_shown(row_filter)}")
    try:
        bind(schema, expression, case_sensitive=True)
    except (ValueError, TypeError) as err:
        msg = f"The row filter {_shown(row_filter)} does not fit table '{table}': {err}"
        raise InvalidScanError(msg, hint=_SYNTAX, table=table) from err
    return expression


def check_columns(columns: Iterable[str], schema: Schema, *, table: str, role: str = "column list") -> None:
    """Refuse columns the schema lacks.

    Raises:
        InvalidScanError: Names the columns, the likely spelling and what is there.
    """
    known = schema.column_names
    unknown = [column for column in columns if column not in known]
    if not unknown:
        return
    near = [match for column in unknown for match in _nearest(column, known)]
    guess = f"Did you mean {', '.join(repr(name) for name in near)}? " if near else ""
    msg = f"The {role} names {', '.join(repr(name) for name in unknown)}, which table '{table}' does not have."
    raise InvalidScanError(msg, hint=f"{guess}Columns there: {', '.join(known)}.", table=table)


def _nearest(column: str, known: Sequence[str]) -> list[str]:
    by_folded = {name.casefold(): name for name in known}
    return [by_folded[match] for match in get_close_matches(column.casefold(), list(by_folded), n=1)]


def _parse(text: str, table: str) -> BooleanExpression:
    try:
        return expression_parser.parse(text)
    except Exception as err:
        # The parser raises an error type that is not PyIceberg's, with a text nobody can read.
        msg = f"The row filter {_shown(text)} is no predicate."
        raise InvalidScanError(msg, hint=_SYNTAX, table=table) from err


def _shown(row_filter: RowFilter) -> str:
    return f'"{row_filter}"'


class _ReferencedColumns(BooleanExpressionVisitor[list[str]]):
    """Collects the columns an unbound expression names, each once."""

    def visit_true(self) -> list[str]:
        return []

    def visit_false(self) -> list[str]:
        return []

    def visit_not(self, child_result: list[str]) -> list[str]:
        return child_result

    def visit_and(self, left_result: list[str], right_result: list[str]) -> list[str]:
        return list(dict.fromkeys([*left_result, *right_result]))

    def visit_or(self, left_result: list[str], right_result: list[str]) -> list[str]:
        return self.visit_and(left_result, right_result)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> list[str]:
        return [str(getattr(predicate.term, "name", predicate.term))]

    def visit_bound_predicate(self, predicate: BoundPredicate) -> list[str]:
        return [predicate.term.ref().field.name]
