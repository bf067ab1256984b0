"""Checks row filters and column lists against a schema before any data is read."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING

from pyiceberg.expressions import BooleanExpression

from floe_core.errors import InvalidScanError
from floe_iceberg.read.filters import syntax
from floe_iceberg.read.filters.binding import (
    ALWAYS,
    IncompatibleComparisonError,
    UnknownColumnError,
    all_of,
    bind,
    columns,
)
from floe_iceberg.read.filters.masks import passing
from floe_iceberg.read.filters.parser import FilterSyntaxError, parse
from floe_iceberg.read.filters.pruning import Pruner
from floe_iceberg.read.filters.upstream import UnsupportedExpressionError, predicate_of, pushed_down

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata

    from floe_iceberg.read.filters.binding import Bound, Column

_SYNTAX = (
    "Write a predicate such as: status = 'active' and (id > 10 or name like 'A%') "
    "and city in ('Oslo', 'Rome') and email is not null. Quote other names with backticks: `unit price` > 5."
)


@dataclass(frozen=True)
class RowPredicate:
    """A row filter bound to a table's schema; it selects the rows for which it is true, not those for which it is null.

    Attributes:
        predicate: The parsed filter, before it was bound to a schema.
        bound: The filter, bound to the columns of a schema.
        text: The user's text, for messages.
    """

    predicate: syntax.Predicate
    bound: Bound
    text: str = ""

    def __str__(self) -> str:
        """Return the user's text."""
        return self.text

    @property
    def always(self) -> bool:
        """Whether every row matches."""
        return self.bound == ALWAYS

    @cached_property
    def columns(self) -> list[Column]:
        """The columns that it uses."""
        return columns(self.bound)

    @cached_property
    def pushed_down(self) -> BooleanExpression:
        """An expression for PyIceberg's reader that matches at least the rows that the filter matches."""
        return pushed_down(self.bound)

    def passing(self, rows: pa.Table | pa.RecordBatch) -> pa.Array | pa.ChunkedArray:
        """Return a mask of the matching rows."""
        return passing(rows, self.bound)

    def pruner(self, metadata: TableMetadata) -> Pruner:
        """Return a pruner that finds the files of a table with matching rows."""
        return Pruner(self.bound, metadata)

    def and_(self, other: RowPredicate) -> RowPredicate:
        """Combine two filters with AND."""
        text = f"({self.text}) and ({other.text})"
        return RowPredicate(syntax.And((self.predicate, other.predicate)), all_of((self.bound, other.bound)), text)

    def on(self, schema: Schema, *, table: str) -> RowPredicate:
        """Bind the filter to another schema of the table.

        Raises:
            InvalidScanError: A column does not exist in the schema, or has an incompatible type.
        """
        return _bound_predicate(self.predicate, schema, table, self.text)


RowFilter = str | BooleanExpression | RowPredicate


def parse_row_filter(row_filter: RowFilter | None, schema: Schema, *, table: str) -> RowPredicate:
    """Parse a filter and bind it to a schema; None matches every row.

    Raises:
        InvalidScanError: The filter is invalid, refers to an unknown column or compares incompatible types.
    """
    if row_filter is None:
        return EVERY_ROW
    if isinstance(row_filter, RowPredicate):
        return row_filter.on(schema, table=table)
    try:
        predicate = parse(row_filter) if isinstance(row_filter, str) else predicate_of(row_filter)
    except FilterSyntaxError as err:
        msg = f"The row filter {_quoted(row_filter)} is not a valid predicate: {err} at position {err.position}."
        raise InvalidScanError(msg, hint=_SYNTAX, table=table) from err
    except UnsupportedExpressionError as err:
        msg = f"The row filter {_quoted(row_filter)} is not a valid predicate: {err}."
        raise InvalidScanError(msg, hint=_SYNTAX, table=table) from err
    return _bound_predicate(predicate, schema, table, str(row_filter))


def _bound_predicate(predicate: syntax.Predicate, schema: Schema, table: str, text: str) -> RowPredicate:
    try:
        return RowPredicate(predicate, bind(predicate, schema), text)
    except UnknownColumnError as err:
        raise _unknown([err.name], schema, table=table, role=f"row filter {_quoted(text)}") from err
    except IncompatibleComparisonError as err:
        msg = f"The row filter {_quoted(text)} does not fit table '{table}': {err}."
        raise InvalidScanError(msg, hint=err.hint, table=table) from err


EVERY_ROW = RowPredicate(syntax.Constant(value=True), ALWAYS)


def check_columns(columns: Iterable[str], schema: Schema, *, table: str, role: str = "column list") -> None:
    """Require that columns exist in a schema.

    Raises:
        InvalidScanError: A column does not exist; the error suggests the most similar name and lists all columns.
    """
    known = schema.column_names
    unknown = [column for column in columns if column not in known]
    if unknown:
        raise _unknown(unknown, schema, table=table, role=role)


def _unknown(unknown: Sequence[str], schema: Schema, *, table: str, role: str) -> InvalidScanError:
    known = schema.column_names
    near = [match for column in unknown for match in _nearest(column, known) if match != column]
    guess = f"Did you mean {', '.join(repr(name) for name in near)}? " if near else ""
    msg = f"The {role} refers to {', '.join(repr(name) for name in unknown)}, which table '{table}' does not have."
    return InvalidScanError(msg, hint=f"{guess}Existing columns: {', '.join(known)}.", table=table)


def _nearest(column: str, known: Sequence[str]) -> list[str]:
    by_folded = {name.casefold(): name for name in known}
    return [by_folded[match] for match in get_close_matches(column.casefold(), list(by_folded), n=1)]


def _quoted(row_filter: RowFilter | str) -> str:
    return f'"{row_filter}"'
