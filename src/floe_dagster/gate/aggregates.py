"""Translates declared checks into aggregates, and their results into outcomes."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from floe_core.dataplane import Aggregate, ColumnPath, Measure
from floe_core.schemas import CheckKind
from floe_dagster.gate.checks import CheckOutcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyiceberg.schema import Schema

    from floe_core.dataplane import Figure
    from floe_dagster.gate.checks import TableCheck
    from floe_iceberg.read.predicates import RowPredicate

_SECONDS_PER_HOUR = 3600
FIRST_ROWS = "no previous rows to compare with"
_MEASURES = {
    CheckKind.NOT_NULL: Measure.NULLS,
    CheckKind.UNIQUE: Measure.REPEATED,
    CheckKind.RANGE: Measure.OUTSIDE,
    CheckKind.FRESHNESS: Measure.NEWEST,
    CheckKind.ACCEPTED_VALUES: Measure.OTHER,
    CheckKind.EXPRESSION: Measure.VIOLATIONS,
}


def paths_of(columns: Sequence[str], schema: Schema) -> tuple[ColumnPath, ...]:
    """Return the paths to columns; a name is a top-level column or a dotted path to a nested field."""
    top = {field.name for field in schema.fields}
    return tuple((name,) if name in top else tuple(name.split(".")) for name in columns)


def aggregate_of(check: TableCheck, rows: RowPredicate | None, schema: Schema) -> Aggregate:
    """Return the aggregate for a check; types without a measure use the number of rows.

    Args:
        check: The check.
        rows: The written rows; None for all.
        schema: The schema of the table.
    """
    config = check.config
    aggregate = Aggregate(
        check.name,
        _MEASURES.get(config.type, Measure.ROWS),
        paths_of(check.columns, schema),
        row_filter=rows_of(check, rows),
        where=config.where,
    )
    match config.type:
        case CheckKind.RANGE:
            return replace(aggregate, low=config.min, high=config.max)
        case CheckKind.ACCEPTED_VALUES:
            return replace(aggregate, values=config.values)
        case CheckKind.EXPRESSION:
            return replace(aggregate, condition=config.expression, columns=_columns_of_expression(check, schema))
        case _:
            return aggregate


def rows_of(check: TableCheck, rows: RowPredicate | None) -> RowPredicate | None:
    """Return the rows to check, before the check's own condition; None for all."""
    return None if check.whole_table else rows


def _columns_of_expression(check: TableCheck, schema: Schema) -> tuple[ColumnPath, ...]:
    """Return the columns that an example of a violation shows; SQL names are not case-sensitive."""
    by_folded = {field.name.casefold(): field.name for field in schema.fields}
    names = [name for one in check.conditions if one.text == check.config.expression for name in one.columns]
    return tuple(dict.fromkeys((by_folded[name.casefold()],) for name in names if name.casefold() in by_folded))


def outcome_of(check: TableCheck, figure: Figure, *, rows_before: float | None = None) -> CheckOutcome:
    """Return the outcome of a check for the result of its aggregate.

    Args:
        check: The check.
        figure: The result of its aggregate.
        rows_before: Row count of the previous version, for row_count_change; None if there is none.
    """
    config = check.config
    if config.type is CheckKind.FRESHNESS:
        return freshness(check, figure.value)
    count = int(figure.value or 0)
    match config.type:
        case CheckKind.ROW_COUNT:
            return CheckOutcome(check, _between(count, config.min, config.max), {"num_rows": count})
        case CheckKind.ROW_COUNT_CHANGE:
            return _change(check, count, int(rows_before or 0))
        case _:
            shown: dict[str, Any] = {"failing_rows": count}
            if figure.example is not None:
                shown["example"] = figure.example
            return CheckOutcome(check, count == 0, shown)


def freshness(check: TableCheck, newest: float | None) -> CheckOutcome:
    """Check the age of the newest value or snapshot, in seconds since the epoch; None if there is none."""
    if newest is None:
        return CheckOutcome(check, passed=False, figures={"rows" if check.columns else "snapshots": 0})
    age = time.time() - newest
    return CheckOutcome(check, age <= check.config.max_age_seconds, {"age_hours": round(age / _SECONDS_PER_HOUR, 3)})


def _change(check: TableCheck, now: int, before: int) -> CheckOutcome:
    if before == 0:
        return CheckOutcome(check, passed=True, figures={"num_rows": now, "rows_before": 0, "note": FIRST_ROWS})
    config, ratio = check.config, now / before
    passed = _between(ratio, config.min_ratio, config.max_ratio)
    passed = passed and _between(now - before, config.min_change, config.max_change)
    return CheckOutcome(check, passed, {"num_rows": now, "rows_before": before, "ratio": round(ratio, 4)})


def _between(value: float, low: float | str | None, high: float | str | None) -> bool:
    return (low is None or value >= float(low)) and (high is None or value <= float(high))
