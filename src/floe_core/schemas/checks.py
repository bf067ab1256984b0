"""The ``checks`` of a table: conditions that must be met before its rows are published."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from floe_core.schemas.base import FrozenModel, Number, Setting, Text, WholeNumber

CheckName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
OtherTable = Annotated[str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)+$")]
Scalar = bool | int | float | str

_DURATION = re.compile(r"^(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[mhdw])$")
_SECONDS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def _duration(text: str) -> str:
    found = _DURATION.match(text)
    if found is None or float(found["number"]) <= 0:
        msg = f"'{text}' is not a valid age; use a number with m, h, d or w, such as 90m, 26h or 2d"
        raise ValueError(msg)
    return text


Duration = Annotated[Text, AfterValidator(_duration)]


class CheckKind(StrEnum):
    """The type of a check."""

    NOT_NULL = "not_null"
    UNIQUE = "unique"
    RANGE = "range"
    ROW_COUNT = "row_count"
    ROW_COUNT_CHANGE = "row_count_change"
    FRESHNESS = "freshness"
    ACCEPTED_VALUES = "accepted_values"
    EXPRESSION = "expression"
    RELATIONSHIP = "relationship"
    PLUGIN = "plugin"


# Settings of each type in addition to the column: at least one required, all required, and optional.
_ANY_OF: dict[CheckKind, tuple[str, ...]] = {
    CheckKind.RANGE: ("min", "max"),
    CheckKind.ROW_COUNT: ("min", "max"),
    CheckKind.ROW_COUNT_CHANGE: ("min_ratio", "max_ratio", "min_change", "max_change"),
    CheckKind.FRESHNESS: ("max_age", "max_age_hours"),
}
_ALL_OF: dict[CheckKind, tuple[str, ...]] = {
    CheckKind.ACCEPTED_VALUES: ("values",),
    CheckKind.EXPRESSION: ("expression",),
    CheckKind.RELATIONSHIP: ("to",),
    CheckKind.PLUGIN: ("plugin",),
}
_OPTIONAL: dict[CheckKind, tuple[str, ...]] = {
    CheckKind.RELATIONSHIP: ("to_columns",),
    CheckKind.PLUGIN: ("options",),
}
_WITHOUT_COLUMN = (CheckKind.ROW_COUNT, CheckKind.ROW_COUNT_CHANGE, CheckKind.EXPRESSION)


class CheckConfig(FrozenModel):
    """One check; rows are not published while a blocking check fails."""

    type: CheckKind = Field(description="Type of the check.")
    name: CheckName | None = Field(default=None, description="Name in the orchestrator; default: type and columns.")
    column: Text | None = Field(default=None, description="Column to check.")
    columns: tuple[Text, ...] = Field(
        default=(), description="Columns to check: each one separately, or together for unique and relationship."
    )
    min: Number | Text | None = Field(default=None, description="Inclusive minimum of a range or row_count.")
    max: Number | Text | None = Field(default=None, description="Inclusive maximum of a range or row_count.")
    values: tuple[Scalar, ...] = Field(default=(), description="Values allowed by accepted_values.")
    expression: Text | None = Field(
        default=None,
        description="Condition for every row in the engine's SQL; a row fails if it is false, but not if it is null.",
    )
    to: OtherTable | None = Field(default=None, description="Table that a relationship refers to, as namespace.table.")
    to_columns: tuple[Text, ...] = Field(
        default=(), description="Columns of that table, in the order of columns; default: the same names."
    )
    max_age: Duration | None = Field(
        default=None,
        description="Age at which data is stale, such as 90m, 26h or 2d: the age of the column's newest value or, "
        "without a column, of the newest snapshot that changed rows. Dates and timestamps without a zone are UTC.",
    )
    max_age_hours: Number | None = Field(default=None, gt=0, description="The same age, in hours.")
    min_ratio: Number | None = Field(
        default=None, ge=0, description="Minimum ratio of the row count to the previous one, such as 0.8."
    )
    max_ratio: Number | None = Field(default=None, ge=0, description="Maximum of that ratio, such as 1.5.")
    min_change: WholeNumber | None = Field(
        default=None, description="Minimum difference to the previous row count; a negative value allows fewer rows."
    )
    max_change: WholeNumber | None = Field(default=None, description="Maximum of that difference.")
    plugin: Text | None = Field(default=None, description="Quality plugin that checks the rows.")
    options: dict[Text, Setting] = Field(default_factory=dict, description="Settings of the plugin for this check.")
    where: Text | None = Field(default=None, description="SQL predicate that selects the rows to check.")
    scope: Literal["partition", "table"] = Field(
        default="partition", description="Check the rows of the written partitions, or the whole table."
    )
    severity: Literal["error", "warn"] = Field(default="error", description="Severity of a failure.")
    blocking: bool = Field(
        default=True, description="Whether a failure with severity error prevents publishing the rows."
    )

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns, from ``column`` or ``columns``."""
        return (self.column,) if self.column is not None else self.columns

    @property
    def other_columns(self) -> tuple[str, ...]:
        """The columns of the other table of a relationship, in the order of ``all_columns``."""
        return self.to_columns or self.all_columns

    @property
    def max_age_seconds(self) -> float:
        """The age at which data is stale, in seconds."""
        if self.max_age_hours is not None:
            return self.max_age_hours * _SECONDS["h"]
        found = _DURATION.match(self.max_age or "")
        return float(found["number"]) * _SECONDS[found["unit"]] if found else 0.0

    @property
    def age_text(self) -> str:
        """The age at which data is stale, as text."""
        return self.max_age or f"{self.max_age_hours:g} hours"

    @property
    def holds_back(self) -> bool:
        """Whether a failure prevents publishing the rows."""
        return self.blocking and self.severity == "error"

    @model_validator(mode="after")
    def _complete(self) -> CheckConfig:
        for problem in (self._column_problem(), self._setting_problem()):
            if problem:
                raise ValueError(problem)
        return self

    def _column_problem(self) -> str | None:
        if self.type in _WITHOUT_COLUMN:
            return f"{self.type} does not accept a column" if self.all_columns else None
        if self.type is CheckKind.FRESHNESS and not self.all_columns:
            return (
                "freshness without a column applies to the whole table and does not accept where"
                if self.where
                else None
            )
        if (self.column is None) == (not self.columns) and (self.all_columns or self.type is not CheckKind.PLUGIN):
            return f"{self.type} needs either column or columns"
        if len(set(self.columns)) < len(self.columns):
            return "columns contains a duplicate column"
        if self.to_columns and len(self.to_columns) != len(self.all_columns):
            return f"to_columns has {len(self.to_columns)} columns, but columns has {len(self.all_columns)}"
        return None

    def _setting_problem(self) -> str | None:
        wanted, any_of = _ALL_OF.get(self.type, ()), _ANY_OF.get(self.type, ())
        every = dict.fromkeys(
            name for groups in (_ANY_OF, _ALL_OF, _OPTIONAL) for names in groups.values() for name in names
        )
        given = {name for name in every if getattr(self, name) not in (None, (), {})}
        if missing := [name for name in wanted if name not in given]:
            return f"{self.type} needs {' and '.join(missing)}"
        if any_of and not given & set(any_of):
            return f"{self.type} needs {' or '.join(any_of)}"
        if foreign := sorted(given - {*wanted, *any_of, *_OPTIONAL.get(self.type, ())}):
            return f"{self.type} does not accept {' or '.join(foreign)}"
        return self._order_problem()

    def _order_problem(self) -> str | None:
        if self.type is CheckKind.ROW_COUNT and any(isinstance(bound, str) for bound in (self.min, self.max)):
            return "min and max of row_count must be numbers"
        if self.max_age is not None and self.max_age_hours is not None:
            return "freshness needs either max_age or max_age_hours"
        pairs = {"": (self.min, self.max), "_ratio": (self.min_ratio, self.max_ratio)}
        pairs["_change"] = (self.min_change, self.max_change)
        for suffix, (low, high) in pairs.items():
            if isinstance(low, int | float) and isinstance(high, int | float) and low > high:
                return f"min{suffix} {low:g} is greater than max{suffix} {high:g}"
        return None
