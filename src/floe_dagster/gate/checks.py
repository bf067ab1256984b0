"""Checks declared in floe.yaml, with their names and outcomes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from floe_core.errors import ConfigurationError, FloeStorageError
from floe_core.schemas import CheckKind
from floe_dagster.engine import ProjectEngine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from floe_core.schemas import CheckConfig
    from floe_dagster.gate.conditions import Condition

PUBLISHED = "published"
# Metadata with the older staged writes that a published one replaced.
RETIRED = "retired"
# Metadata of a check that was not evaluated although Dagster requires a result.
NOT_EVALUATED = "not_evaluated"
# Metadata with the reason why the results were not stored.
NOT_KEPT = "results_not_kept"

_PER_COLUMN = {CheckKind.NOT_NULL, CheckKind.RANGE, CheckKind.FRESHNESS, CheckKind.ACCEPTED_VALUES}
_UNNAMEABLE = re.compile(r"[^A-Za-z0-9_]+")
_PERCENT = 100


@dataclass(frozen=True)
class TableCheck:
    """One check with its name.

    Attributes:
        name: Its name in Dagster.
        config: Its declaration in floe.yaml.
        columns: The columns to check.
        sql_dialect: The SQL dialect of its conditions.
    """

    name: str
    config: CheckConfig
    columns: tuple[str, ...]
    sql_dialect: str

    @property
    def description(self) -> str:
        """The expectation, as a sentence without a period."""
        config = self.config
        text = self._expectation()
        return f"{text}, where {config.where}" if config.where else text

    def _expectation(self) -> str:  # noqa: C901, PLR0911 - one sentence for each kind
        config, names = self.config, ", ".join(self.columns)
        match config.type:
            case CheckKind.NOT_NULL:
                return f"{names} is not null"
            case CheckKind.UNIQUE:
                return f"no two rows have the same {names}"
            case CheckKind.RANGE:
                return f"{names} is {_bounds(config)}"
            case CheckKind.ROW_COUNT:
                return f"the row count is {_bounds(config)}"
            case CheckKind.ROW_COUNT_CHANGE:
                return f"the row count is {_change(config)} compared with the previous version"
            case CheckKind.FRESHNESS:
                newest = f"the newest {names}" if names else "the newest snapshot"
                return f"{newest} is at most {config.age_text} old"
            case CheckKind.ACCEPTED_VALUES:
                return f"{names} is one of {', '.join(map(str, config.values))}"
            case CheckKind.EXPRESSION:
                return f"no row violates {config.expression}"
            case CheckKind.RELATIONSHIP:
                return f"every {names} exists as {', '.join(config.other_columns)} in {config.to}"
            case CheckKind.PLUGIN:
                return f"the quality plugin {config.plugin} accepts {names or 'the rows'}"

    @property
    def whole_table(self) -> bool:
        """Whether it also covers other partitions; freshness always applies to the whole table."""
        return self.config.scope == "table" or self.config.type is CheckKind.FRESHNESS

    @property
    def counts_rows(self) -> bool:
        """Whether it checks a row count."""
        return self.config.type in {CheckKind.ROW_COUNT, CheckKind.ROW_COUNT_CHANGE}

    @property
    def conditions(self) -> list[Condition]:
        """The parsed conditions.

        Raises:
            ConfigurationError: A condition is not valid.
        """
        # Imported late: only checks with SQL conditions need the parser.
        from floe_dagster.gate.conditions import parse_condition

        texts = (self.config.expression, self.config.where)
        return [parse_condition(text, self.sql_dialect) for text in texts if text is not None]


@dataclass(frozen=True)
class CheckOutcome:
    """The outcome of a check.

    Attributes:
        check: The check.
        passed: Whether it passed; false if it was not evaluated.
        figures: Measured values by name.
        seconds: Duration; checks evaluated in one pass have the same.
        error: Why it could not be evaluated.
    """

    check: TableCheck
    passed: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: FloeStorageError | None = None

    @property
    def holds_back(self) -> bool:
        """Whether the rows must not be published."""
        return not self.passed and self.check.config.holds_back


def expand_checks(configs: Sequence[CheckConfig], *, table: str, sql_dialect: str | None = None) -> list[TableCheck]:
    """Assign names and columns to checks; most types with several columns become one check per column.

    Args:
        configs: The declarations in floe.yaml.
        table: The table, for messages.
        sql_dialect: The SQL dialect of the project's engine; None for that of the default engine.

    Raises:
        ConfigurationError: Two checks have the same name, or a condition is not valid.
    """
    dialect = ProjectEngine.of().sql_dialect if sql_dialect is None else sql_dialect
    checks = [check for config in configs for check in _expanded(config, dialect)]
    names = [check.name for check in checks]
    if duplicates := sorted({name for name in names if names.count(name) > 1 or name == PUBLISHED}):
        msg = f"Checks of table '{table}' have the same name or a reserved one: {', '.join(duplicates)}."
        raise ConfigurationError(msg, hint="Give each check a unique name.", table=table)
    for check in checks:
        if check.config.expression or check.config.where:
            _validate_conditions(check, table)
    return checks


def _validate_conditions(check: TableCheck, table: str) -> None:
    try:
        _ = check.conditions
    except ConfigurationError as err:
        msg = f"The check '{check.name}' of table '{table}' is not valid: {err.message}"
        raise ConfigurationError(msg, hint=err.hint, table=table) from err


def _expanded(config: CheckConfig, dialect: str) -> list[TableCheck]:
    per_column = config.type in _PER_COLUMN and config.all_columns
    groups = [(name,) for name in config.all_columns] if per_column else [config.all_columns]
    single = len(groups) == 1
    return [TableCheck(_name(config, columns, single=single), config, columns, dialect) for columns in groups]


def _name(config: CheckConfig, columns: tuple[str, ...], *, single: bool) -> str:
    stem = config.name or config.plugin or config.type.value
    if config.name and single:
        return stem
    return _UNNAMEABLE.sub("_", "_".join([stem, *columns]))


def _bounds(config: CheckConfig) -> str:
    if config.min is not None and config.max is not None:
        return f"between {_shown(config.min)} and {_shown(config.max)}"
    return f"at least {_shown(config.min)}" if config.min is not None else f"at most {_shown(config.max)}"


def _change(config: CheckConfig) -> str:
    parts = []
    for sign, ratio, change in (
        ("at least", config.min_ratio, config.min_change),
        ("at most", config.max_ratio, config.max_change),
    ):
        parts += [f"{sign} {ratio * _PERCENT:g} %"] if ratio is not None else []
        parts += [f"{sign} {change:+d} rows"] if change is not None else []
    return " and ".join(parts)


def _shown(bound: Any) -> str:  # noqa: ANN401 - a number or text
    return f"{bound:g}" if isinstance(bound, float) else str(bound)
