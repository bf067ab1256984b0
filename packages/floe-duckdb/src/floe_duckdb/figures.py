"""Figures of checks, computed over a relation with DuckDB's aggregates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.dataplane import Aggregate, Figure, Measure

from floe_duckdb.relations import is_float
from floe_duckdb.sql import all_of, condition, quoted, scalar, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duckdb import DuckDBPyRelation
    from floe_core.dataplane import ColumnPath


def scope(aggregate: Aggregate) -> list[str]:
    """Return the conditions that select the rows of an aggregate."""
    return [condition(given) for given in (aggregate.row_filter, aggregate.where) if given is not None]


def known(columns: Iterable[ColumnPath]) -> list[str]:
    """Return the conditions that exclude nulls in columns."""
    return [f"{quoted(path)} IS NOT NULL" for path in columns]


def figures(rows: DuckDBPyRelation, aggregates: Sequence[Aggregate]) -> dict[str, Figure]:
    """Compute figures in one pass over the rows."""
    if not aggregates:
        return {}
    selected = ", ".join(part for aggregate in aggregates for part in _measured(aggregate, rows))
    [found] = rows.aggregate(selected).fetchall()
    pairs = zip(found[::2], found[1::2], strict=True)
    return {one.name: Figure(value, example) for one, (value, example) in zip(aggregates, pairs, strict=True)}


def shown(columns: Sequence[ColumnPath], *, as_object: bool) -> str:
    """Return the SQL of the values of columns as one string."""
    if not as_object:
        return f"CAST({quoted(columns[0])} AS VARCHAR)"
    parts = (part for path in columns for part in (text(".".join(path)), quoted(path)))
    return f"CAST(json_object({', '.join(parts)}) AS VARCHAR)"


def _measured(aggregate: Aggregate, of: DuckDBPyRelation) -> tuple[str, str]:
    """Return the SQL of the value and of its example."""
    rows, columns = scope(aggregate), aggregate.columns
    match aggregate.measure:
        case Measure.NEWEST:
            return f"epoch(max({quoted(columns[0])}) FILTER ({_where(rows)}))", "NULL"
        case Measure.REPEATED:
            keyed = f"FILTER ({_where([*rows, *known(columns)])})"
            key = ", ".join(quoted(path) for path in columns)
            return f"count(*) {keyed} - count(DISTINCT row({key})) {keyed}", "NULL"
        case Measure.ROWS | Measure.NULLS:
            nulls = [f"{quoted(path)} IS NULL" for path in columns] if aggregate.measure is Measure.NULLS else []
            return f"count(*) FILTER ({_where([*rows, *nulls])})", "NULL"
        case Measure.VIOLATIONS:
            bad = f"NOT {condition(aggregate.condition)}"
        case Measure.OTHER:
            listed = ", ".join(map(scalar, aggregate.values))
            bad = f"{_exact(columns[0], of)} {f'NOT IN ({listed})' if listed else 'IS NOT NULL'}"
        case Measure.OUTSIDE:
            bad = _outside(aggregate, of)
    counted = f"FILTER ({_where([*rows, bad])})"
    as_object = aggregate.measure is Measure.VIOLATIONS
    # The smallest value, not the first string: 9 comes before 10.
    least = shown(columns, as_object=True) if as_object and columns else quoted(columns[0]) if columns else "NULL"
    return f"count(*) {counted}", f"CAST(min({least}) {counted} AS VARCHAR)"


def _exact(path: ColumnPath, of: DuckDBPyRelation) -> str:
    """Return a column that is compared exactly: DuckDB rounds a number to a float before it compares the two."""
    return f"{quoted(path)}::DOUBLE" if is_float(of, path) else quoted(path)


def _outside(aggregate: Aggregate, of: DuckDBPyRelation) -> str:
    name, limits = _exact(aggregate.columns[0], of), ((aggregate.low, "<"), (aggregate.high, ">"))
    return " OR ".join(f"{name} {sign} {scalar(limit)}" for limit, sign in limits if limit is not None) or "false"


def _where(conditions: Iterable[str]) -> str:
    return f"WHERE {all_of(conditions)}"
