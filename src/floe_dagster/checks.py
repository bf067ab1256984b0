"""Checks that floe.yaml declares, computed on Spark: one pass over a table, however many there are."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_core.dataplane import ReadRequest
from floe_core.errors import ConfigurationError
from floe_core.schemas import CheckKind
from floe_iceberg.predicates import check_columns
from floe_spark.sql import quoted, text_literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from floe_core.schemas import CheckConfig
    from floe_iceberg.manager import IcebergTableManager

PUBLISHED = "published"
# Metadata that names the older held writes that a published one made pointless.
RETIRED = "retired"
# Metadata of a result that Dagster asks for and that nothing was looked at for.
NOT_EVALUATED = "not_evaluated"

_PER_COLUMN = {CheckKind.NOT_NULL, CheckKind.RANGE, CheckKind.FRESHNESS, CheckKind.ACCEPTED_VALUES}
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_]+")
_SECONDS_AN_HOUR = 3600


@dataclass(frozen=True)
class TableCheck:
    """One check under one name.

    Attributes:
        name: Its name in Dagster.
        config: What floe.yaml says.
        columns: The columns that it looks at.
    """

    name: str
    config: CheckConfig
    columns: tuple[str, ...]

    @property
    def description(self) -> str:
        """What must hold, for people."""
        config, names = self.config, ", ".join(self.columns)
        match config.type:
            case CheckKind.NOT_NULL:
                text = f"{names} is never null"
            case CheckKind.UNIQUE:
                text = f"no two rows have the same {names}"
            case CheckKind.RANGE:
                text = f"{names} lies {_bounds(config)}"
            case CheckKind.ROW_COUNT:
                text = f"the number of rows lies {_bounds(config)}"
            case CheckKind.FRESHNESS:
                text = f"the newest {names} is at most {config.max_age_hours:g} hours old"
            case CheckKind.ACCEPTED_VALUES:
                text = f"{names} is one of {', '.join(map(str, config.values))}"
        return f"{text}, where {config.where}" if config.where else text

    @property
    def whole_table(self) -> bool:
        """Whether rows of other partitions count as well; how fresh a table is does not depend on one partition."""
        return self.config.scope == "table" or self.config.type is CheckKind.FRESHNESS


@dataclass(frozen=True)
class CheckOutcome:
    """How a check ended.

    Attributes:
        check: The check.
        passed: Whether it holds.
        figures: What was found, by name.
    """

    check: TableCheck
    passed: bool
    figures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def holds_back(self) -> bool:
        """Whether the rows must not be published."""
        return not self.passed and self.check.config.holds_back


def expand_checks(configs: Sequence[CheckConfig], *, table: str) -> list[TableCheck]:
    """Give every check its name and columns; a check of several columns becomes one for each, except unique.

    Raises:
        ConfigurationError: Two checks have one name.
    """
    checks = [check for config in configs for check in _expanded(config)]
    names = [check.name for check in checks]
    if twice := sorted({name for name in names if names.count(name) > 1 or name == PUBLISHED}):
        msg = f"The checks of table '{table}' cannot be told apart: {', '.join(twice)}."
        raise ConfigurationError(msg, hint="Give each check a name of its own.", table=table)
    return checks


def _expanded(config: CheckConfig) -> list[TableCheck]:
    groups = [(name,) for name in config.all_columns] if config.type in _PER_COLUMN else [config.all_columns]
    return [TableCheck(_name(config, columns, alone=len(groups) == 1), config, columns) for columns in groups]


def _name(config: CheckConfig, columns: tuple[str, ...], *, alone: bool) -> str:
    stem = config.name or config.type.value
    if config.name and alone:
        return stem
    return _UNNAMEABLE.sub("_", "_".join([stem, *columns]))


def _bounds(config: CheckConfig) -> str:
    if config.min is not None and config.max is not None:
        return f"between {_shown(config.min)} and {_shown(config.max)}"
    return f"at {_shown(config.min)} or above" if config.min is not None else f"at {_shown(config.max)} or below"


def _shown(bound: Any) -> str:  # noqa: ANN401 - a number or text
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def run_checks(
    manager: IcebergTableManager, table: str, checks: Sequence[TableCheck], *, ref: str | None, rows: str | None
) -> list[CheckOutcome]:
    """Evaluate checks on a branch in one pass.

    Args:
        manager: The table manager.
        table: The table.
        checks: What to look at.
        ref: Branch to read, None for main.
        rows: The rows that were written, as SQL; None for all.

    Raises:
        InvalidScanError: A check names a column that the table does not have.
        MissingDependencyError: Spark is not installed.
    """
    if not checks:
        return []
    schema = manager.load_table(table).schema()
    for check in checks:
        check_columns(check.columns, schema, table=table, role=f"check '{check.name}'")
    # Rows of other partitions are not even read, unless some check asks for the whole table.
    pushed = rows if not any(check.whole_table for check in checks) else None
    frame = manager.context.plane().frame(ReadRequest(table, row_filter=pushed, ref=ref))
    expressions = [
        f"{expression} as c{number}_{name}"
        for number, check in enumerate(checks)
        for name, expression in _figures(check, rows).items()
    ]
    found = frame.selectExpr(*expressions).head().asDict()
    return [_outcome(check, number, found) for number, check in enumerate(checks)]


def _figures(check: TableCheck, rows: str | None) -> dict[str, str]:
    """Return the aggregates that a check needs, as SQL by name."""
    config = check.config
    scope = [f"({rows})"] if rows and not check.whole_table else []
    scope += [f"({config.where})"] if config.where else []
    names = [".".join(quoted(part) for part in column.split(".")) for column in check.columns]
    match config.type:
        case CheckKind.NOT_NULL:
            return {"bad": _count([*scope, f"{names[0]} is null"])}
        case CheckKind.UNIQUE:
            return {"bad": _repeated(scope, names)}
        case CheckKind.RANGE:
            return _bad(scope, names[0], f"not ({_within(names[0], config)})")
        case CheckKind.ROW_COUNT:
            return {"rows": _count(scope or ["true"])}
        case CheckKind.FRESHNESS:
            newest = f"case when {' and '.join(scope)} then {names[0]} end" if scope else names[0]
            return {"newest": f"unix_seconds(cast(max({newest}) as timestamp))"}
        case CheckKind.ACCEPTED_VALUES:
            values = ", ".join(_literal(value) for value in config.values)
            return _bad(scope, names[0], f"{names[0]} not in ({values})")


def _count(predicates: Sequence[str]) -> str:
    return f"count_if({' and '.join(predicates)})"


def _bad(scope: Sequence[str], column: str, predicate: str) -> dict[str, str]:
    bad = " and ".join([*scope, predicate])
    return {"bad": f"count_if({bad})", "example": f"cast(min(case when {bad} then {column} end) as string)"}


def _repeated(scope: Sequence[str], names: Sequence[str]) -> str:
    """Count the rows beyond the first of each key; a key with a null in it is no key."""
    keyed = _count([*scope, *(f"{name} is not null" for name in names)])
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


def _outcome(check: TableCheck, number: int, found: Mapping[str, Any]) -> CheckOutcome:
    prefix = f"c{number}_"
    figures = {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}
    config = check.config
    match config.type:
        case CheckKind.ROW_COUNT:
            count = figures["rows"]
            low, high = config.min, config.max
            passed = (low is None or count >= float(low)) and (high is None or count <= float(high))
            return CheckOutcome(check, passed, {"num_rows": count})
        case CheckKind.FRESHNESS:
            newest = figures["newest"]
            age = (time.time() - newest) / _SECONDS_AN_HOUR if newest is not None else None
            passed = age is not None and config.max_age_hours is not None and age <= config.max_age_hours
            return CheckOutcome(check, passed, {"age_hours": round(age, 3)} if age is not None else {"rows": 0})
        case _:
            shown = {"failing_rows": figures["bad"]}
            if figures.get("example") is not None:
                shown["example"] = figures["example"]
            return CheckOutcome(check, figures["bad"] == 0, shown)
