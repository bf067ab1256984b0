"""The ``checks`` of a table: what must hold before its rows are published."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from floe_core.schemas.base import FrozenModel, Number, Text

CheckName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_]+$")]
Scalar = bool | int | float | str


class CheckKind(StrEnum):
    """What a check looks at."""

    NOT_NULL = "not_null"
    UNIQUE = "unique"
    RANGE = "range"
    ROW_COUNT = "row_count"
    FRESHNESS = "freshness"
    ACCEPTED_VALUES = "accepted_values"


# Settings of each kind beside the column: those it needs one of, or all of.
_ANY_OF = {CheckKind.RANGE: ("min", "max"), CheckKind.ROW_COUNT: ("min", "max")}
_ALL_OF = {CheckKind.FRESHNESS: ("max_age_hours",), CheckKind.ACCEPTED_VALUES: ("values",)}


class CheckConfig(FrozenModel):
    """One check; its rows are not published while a blocking one fails."""

    type: CheckKind = Field(description="What is checked.")
    name: CheckName | None = Field(default=None, description="Name in the orchestrator; default: type and columns.")
    column: Text | None = Field(default=None, description="Column that is checked.")
    columns: tuple[Text, ...] = Field(default=(), description="Several columns: each by itself, for unique together.")
    min: Number | Text | None = Field(default=None, description="Least value of a range or row_count, itself allowed.")
    max: Number | Text | None = Field(default=None, description="Most of a range or row_count, itself allowed.")
    values: tuple[Scalar, ...] = Field(default=(), description="Values that accepted_values lets through.")
    max_age_hours: Number | None = Field(
        default=None, gt=0, description="Age of the newest row at which data is stale."
    )
    where: Text | None = Field(default=None, description="SQL predicate: only these rows are checked.")
    scope: Literal["partition", "table"] = Field(
        default="partition", description="Rows of the partitions that were written, or the whole table."
    )
    severity: Literal["error", "warn"] = Field(default="error", description="How a failure is shown.")
    blocking: bool = Field(default=True, description="Whether a failure of severity error holds the rows back.")

    @property
    def all_columns(self) -> tuple[str, ...]:
        """The columns, however they were written."""
        return (self.column,) if self.column is not None else self.columns

    @property
    def holds_back(self) -> bool:
        """Whether a failure keeps the rows from being published."""
        return self.blocking and self.severity == "error"

    @model_validator(mode="after")
    def _complete(self) -> CheckConfig:
        for problem in (self._column_problem(), self._setting_problem()):
            if problem:
                raise ValueError(problem)
        return self

    def _column_problem(self) -> str | None:
        if self.type is CheckKind.ROW_COUNT:
            return "row_count takes no column" if self.all_columns else None
        if (self.column is None) == (not self.columns):
            return f"{self.type} needs column or columns, and not both"
        if len(set(self.columns)) < len(self.columns):
            return "columns names a column twice"
        return None

    def _setting_problem(self) -> str | None:
        wanted, any_of = _ALL_OF.get(self.type, ()), _ANY_OF.get(self.type, ())
        settings = {
            "min": self.min,
            "max": self.max,
            "values": self.values or None,
            "max_age_hours": self.max_age_hours,
        }
        given = {name for name, value in settings.items() if value is not None}
        if missing := [name for name in wanted if name not in given]:
            return f"{self.type} needs {' and '.join(missing)}"
        if any_of and not given & set(any_of):
            return f"{self.type} needs {' or '.join(any_of)}"
        if foreign := sorted(given - set(wanted) - set(any_of)):
            return f"{self.type} takes no {' and no '.join(foreign)}"
        return self._order_problem()

    def _order_problem(self) -> str | None:
        low, high = self.min, self.max
        if self.type is CheckKind.ROW_COUNT and any(isinstance(bound, str) for bound in (low, high)):
            return "row_count needs numbers"
        if isinstance(low, float) and isinstance(high, float) and low > high:
            return f"min {low:g} is above max {high:g}"
        return None
