"""Counts over the rows of a table: aggregates in one pass, values missing from another table, and duplicate keys."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import TimestampType

from floe_core.dataplane import Figure, Measure, NullKeys
from floe_core.errors import FloeStorageError, InvalidScanError
from floe_spark.plane.errors import sql_error_reason, translated
from floe_spark.plane.filters import condition_sql, filter_sql
from floe_spark.plane.sql import quoted_path, text_literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from floe_core.dataplane import Aggregate, ColumnPath

# Larger whole numbers are not written out as decimals, which have no more than 38 digits.
_EXACT_FLOATS = 2**53


@contextmanager
def user_errors_translated(table: str) -> Iterator[None]:
    """Translate Spark's errors about a query that contains a user's conditions.

    Raises:
        InvalidScanError: A condition is invalid for the table or its values.
    """
    try:
        yield
    except FloeStorageError:
        raise
    except Exception as err:
        if reason := sql_error_reason(err):
            raise InvalidScanError(reason, table=table) from err
        with translated(table, action="query"):
            raise


def compute_aggregates(frame: DataFrame, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
    """Compute aggregates by name, in one pass over the rows of a frame."""
    if not aggregates:
        return {}
    columns: list[str] = []
    for number, aggregate in enumerate(aggregates):
        columns.append(f"{_value(aggregate, frame)} as value_{number}")
        if (example := _example(aggregate)) is not None:
            columns.append(f"{example} as example_{number}")
    # An aggregate without groups always returns one row, but head() is typed as optional.
    row = frame.selectExpr(*columns).head()
    found: dict[str, Any] = row.asDict() if row is not None else {}
    return {
        aggregate.name: Figure(found.get(f"value_{number}"), found.get(f"example_{number}"))
        for number, aggregate in enumerate(aggregates)
    }


def count_unmatched(
    rows: DataFrame, aggregate: Aggregate, other: DataFrame, other_columns: Sequence[ColumnPath]
) -> Figure:
    """Count the rows whose values in an aggregate's columns do not exist in columns of another frame."""
    keys = [f"k{number}" for number in range(len(aggregate.columns))]
    columns = [quoted_path(path) for path in aggregate.columns]
    found = [quoted_path(path) for path in other_columns]
    scope = [*_scope(aggregate), *(f"{column} is not null" for column in columns)]
    example = f"cast(min({keys[0]}) as string)"
    if len(keys) > 1:
        example = f"min({_json(dict(zip(aggregate.columns, keys, strict=True)))})"
    rows = rows.where(" and ".join(scope)).selectExpr(*_renamed(columns, keys))
    absent = rows.join(other.selectExpr(*_renamed(found, keys)), keys, "left_anti")
    row = absent.selectExpr(f"{_count([])} as value", f"{example} as example").head()
    return Figure(row["value"], row["example"]) if row is not None else Figure(0)


def find_duplicate_keys(
    rows: DataFrame, keys: Sequence[ColumnPath], *, null_keys: NullKeys, limit: int
) -> list[tuple[Any, ...]]:
    """Return examples of keys shared by several rows of a frame."""
    names = [f"key_{number}" for number in range(len(keys))]
    columns = rows.selectExpr(*_renamed([quoted_path(path) for path in keys], names))
    if null_keys is NullKeys.REFUSE:
        columns = columns.where(" and ".join(f"{name} is not null" for name in names))
    repeated = columns.groupBy(*names).count().where("count > 1").limit(limit).collect()
    return [tuple(row)[: len(keys)] for row in repeated]


def _value(aggregate: Aggregate, frame: DataFrame) -> str:
    """Return the SQL expression for an aggregate's value."""
    scope = _scope(aggregate)
    names = [quoted_path(path) for path in aggregate.columns]
    match aggregate.measure:
        case Measure.ROWS:
            return _count(scope)
        case Measure.NULLS:
            return _count([*scope, f"{names[0]} is null"])
        case Measure.REPEATED:
            return _count_repeated(scope, names)
        case Measure.NEWEST:
            return _newest(scope, names[0], frame)
        case _:
            return _count([*scope, _bad(aggregate)])


def _example(aggregate: Aggregate) -> str | None:
    """Return the SQL expression for the smallest counted value; None if the measure has no example."""
    match aggregate.measure:
        case Measure.OUTSIDE | Measure.OTHER:
            shown = quoted_path(aggregate.columns[0])
        case Measure.VIOLATIONS if aggregate.columns:
            shown = _json({path: quoted_path(path) for path in aggregate.columns})
        case _:
            return None
    bad = " and ".join([*_scope(aggregate), _bad(aggregate)])
    return f"cast(min(case when {bad} then {shown} end) as string)"


def _bad(aggregate: Aggregate) -> str:
    """Return the predicate for values outside the range, other values or violations; it is never true for null."""
    if aggregate.measure is Measure.VIOLATIONS:
        return f"not {condition_sql(aggregate.condition or 'true')}"
    name = quoted_path(aggregate.columns[0])
    if aggregate.measure is Measure.OTHER:
        values = ", ".join(_literal(value) for value in aggregate.values)
        return f"{name} not in ({values})" if values else f"{name} is not null"
    bounds = [(">=", aggregate.low), ("<=", aggregate.high)]
    within = " and ".join(f"{name} {sign} {_literal(bound)}" for sign, bound in bounds if bound is not None)
    return f"not ({within or 'true'})"


def _scope(aggregate: Aggregate) -> list[str]:
    """Return the predicates that limit the rows; empty for all rows."""
    rows = filter_sql(aggregate.row_filter)
    scope = [f"({rows})"] if rows else []
    return [*scope, condition_sql(aggregate.where)] if aggregate.where else scope


def _count(predicates: Sequence[str]) -> str:
    # Not as count_if: Spark pushes it down, and fails on its own rewrite of a number compared with one of another type.
    return f"count(case when {' and '.join(predicates) or 'true'} then 1 end)"


def _count_repeated(scope: Sequence[str], names: Sequence[str]) -> str:
    """Count the rows beyond the first of each key; keys that contain null are ignored."""
    keyed = _count([*scope, *(f"{name} is not null" for name in names)])
    first = f"case when {' and '.join(scope)} then {names[0]} end" if scope else names[0]
    return f"{keyed} - count(distinct {', '.join([first, *names[1:]])})"


def _newest(scope: Sequence[str], column: str, frame: DataFrame) -> str:
    """Return the newest value in seconds since the epoch; values without a time zone are UTC."""
    value = f"case when {' and '.join(scope)} then {column} end" if scope else column
    newest = f"cast(max({value}) as timestamp)"
    if not isinstance(frame.selectExpr(column).schema.fields[0].dataType, TimestampType):
        newest = f"from_utc_timestamp({newest}, current_timezone())"
    return f"unix_seconds({newest})"


def _json(columns: Mapping[ColumnPath, str]) -> str:
    """Return the SQL expression for a row's values as JSON, by column name."""
    parts = (part for path, sql in columns.items() for part in (text_literal(".".join(path)), sql))
    return f"to_json(named_struct({', '.join(parts)}), map('ignoreNullFields', 'false'))"


def _renamed(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    return [f"{column} as {name}" for column, name in zip(columns, names, strict=True)]


def _literal(value: Any) -> str:  # noqa: ANN401 - a scalar of the configuration
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return f"double('{value}')"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _EXACT_FLOATS else repr(value)
    return str(value) if isinstance(value, int) else text_literal(value)
