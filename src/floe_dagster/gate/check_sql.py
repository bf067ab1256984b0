"""Declared checks as SQL: the aggregates that each needs, and what they say about it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from pyiceberg.types import TimestamptzType

from floe_core.schemas import CheckKind
from floe_dagster.gate.checks import CheckOutcome
from floe_spark.plane.sql import quoted, text_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType

    from floe_core.schemas import CheckConfig
    from floe_dagster.gate.checks import TableCheck

_SECONDS_AN_HOUR = 3600
FIRST_ROWS = "first rows, nothing to compare with"


def column_sql(name: str, schema: Schema) -> str:
    """Refer to a column: the one of that very name, or a dotted path into a struct."""
    if any(field.name == name for field in schema.fields):
        return quoted(name)
    return ".".join(quoted(part) for part in name.split("."))


def scope_of(check: TableCheck, rows: str | None) -> list[str]:
    """Return the predicates of the rows that a check looks at; none for all."""
    scope = [f"({rows})"] if rows and not check.whole_table else []
    return [*scope, *(condition.sql for condition in check.conditions if condition.text == check.config.where)]


def aggregates(check: TableCheck, rows: str | None, schema: Schema) -> dict[str, str]:  # noqa: PLR0911 - one a kind
    """Return the aggregates that a check needs, by name."""
    config = check.config
    scope = scope_of(check, rows)
    names = [column_sql(column, schema) for column in check.columns]
    match config.type:
        case CheckKind.NOT_NULL:
            return {"bad": count_of([*scope, f"{names[0]} is null"])}
        case CheckKind.UNIQUE:
            return {"bad": _repeated(scope, names)}
        case CheckKind.RANGE:
            return _bad(scope, f"not ({_within(names[0], config)})", names[0])
        case CheckKind.FRESHNESS:
            return {"newest": _newest(scope, names[0], schema.find_type(check.columns[0]))}
        case CheckKind.ACCEPTED_VALUES:
            values = ", ".join(_literal(value) for value in config.values)
            return _bad(scope, f"{names[0]} not in ({values})", names[0])
        case CheckKind.EXPRESSION:
            return _violations(check, scope, schema)
        case _:
            return {"rows": count_of(scope)}


def count_of(predicates: Sequence[str]) -> str:
    """Count the rows that meet all predicates."""
    return f"count_if({' and '.join(predicates) or 'true'})"


def json_of(columns: Mapping[str, str]) -> str:
    """Return values of a row as JSON, by name."""
    parts = (part for name, sql in columns.items() for part in (text_literal(name), sql))
    return f"to_json(named_struct({', '.join(parts)}))"


def _newest(scope: Sequence[str], column: str, kind: IcebergType) -> str:
    """Return the newest value in seconds since the epoch; what has no zone is UTC, whatever the session's zone."""
    value = f"case when {' and '.join(scope)} then {column} end" if scope else column
    newest = f"cast(max({value}) as timestamp)"
    if not isinstance(kind, TimestamptzType):
        newest = f"from_utc_timestamp({newest}, current_timezone())"
    return f"unix_seconds({newest})"


def _violations(check: TableCheck, scope: Sequence[str], schema: Schema) -> dict[str, str]:
    """Count the rows whose condition is false; as with a CHECK constraint, null is no violation."""
    [condition] = [one for one in check.conditions if one.text == check.config.expression][:1]
    by_folded = {field.name.casefold(): field.name for field in schema.fields}
    names = [by_folded[name.casefold()] for name in condition.columns if name.casefold() in by_folded]
    bad = f"not {condition.sql}"
    if not names:
        return {"bad": count_of([*scope, bad])}
    return _bad(scope, bad, json_of({name: quoted(name) for name in names}))


def _bad(scope: Sequence[str], predicate: str, example: str) -> dict[str, str]:
    bad = " and ".join([*scope, predicate])
    return {"bad": f"count_if({bad})", "example": f"cast(min(case when {bad} then {example} end) as string)"}


def _repeated(scope: Sequence[str], names: Sequence[str]) -> str:
    """Count the rows beyond the first of each key; a key with a null in it is no key."""
    keyed = count_of([*scope, *(f"{name} is not null" for name in names)])
    first = f"case when {' and '.join(scope)} then {names[0]} end" if scope else names[0]
    return f"{keyed} - count(distinct {', '.join([first, *names[1:]])})"


def _within(column: str, config: CheckConfig) -> str:
    bounds = [(">=", config.min), ("<=", config.max)]
    return " and ".join(f"{column} {sign} {_literal(bound)}" for sign, bound in bounds if bound is not None)


def _literal(value: Any) -> str:  # noqa: ANN401 - a scalar of the configuration
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value) if isinstance(value, int) else text_literal(value)


def outcome_of(check: TableCheck, figures: Mapping[str, Any], *, rows_before: int | None = None) -> CheckOutcome:
    """Judge what the aggregates of a check gave.

    Args:
        check: The check.
        figures: Its aggregates, by name.
        rows_before: Rows of the version before, for a change of their number; None when there is none.
    """
    config = check.config
    match config.type:
        case CheckKind.ROW_COUNT:
            count = figures["rows"]
            passed = _between(count, config.min, config.max)
            return CheckOutcome(check, passed, {"num_rows": count})
        case CheckKind.ROW_COUNT_CHANGE:
            return _change(check, figures["rows"], rows_before or 0)
        case CheckKind.FRESHNESS:
            return freshness(check, figures["newest"])
        case _:
            shown = {"failing_rows": figures["bad"]}
            if figures.get("example") is not None:
                shown["example"] = figures["example"]
            return CheckOutcome(check, figures["bad"] == 0, shown)


def freshness(check: TableCheck, newest: float | None) -> CheckOutcome:
    """Judge the age of the newest value or snapshot, given in seconds since the epoch; None when there is none."""
    if newest is None:
        return CheckOutcome(check, passed=False, figures={"rows" if check.columns else "snapshots": 0})
    age = time.time() - newest
    return CheckOutcome(check, age <= check.config.max_age_seconds, {"age_hours": round(age / _SECONDS_AN_HOUR, 3)})


def _change(check: TableCheck, now: int, before: int) -> CheckOutcome:
    if before == 0:
        return CheckOutcome(check, passed=True, figures={"num_rows": now, "rows_before": 0, "note": FIRST_ROWS})
    config, ratio = check.config, now / before
    passed = _between(ratio, config.min_ratio, config.max_ratio)
    passed = passed and _between(now - before, config.min_change, config.max_change)
    return CheckOutcome(check, passed, {"num_rows": now, "rows_before": before, "ratio": round(ratio, 4)})


def _between(value: float, low: float | str | None, high: float | str | None) -> bool:
    return (low is None or value >= float(low)) and (high is None or value <= float(high))
