"""Drift: where a table is not what floe.yaml declares."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import Field

from floe_core.schemas.base import FrozenModel

if TYPE_CHECKING:
    from floe_core.schemas import TableConfig


class DriftKind(StrEnum):
    """What differs."""

    TABLE = "table"
    MISSING_COLUMN = "missing_column"
    EXTRA_COLUMN = "extra_column"
    RENAME = "rename"
    TYPE = "type"
    NULLABILITY = "nullability"
    DOC = "doc"
    COLUMN_ORDER = "column_order"
    PARTITIONING = "partitioning"
    SORT_ORDER = "sort_order"
    KEYS = "keys"
    PROPERTY = "property"
    LOCATION = "location"


class DriftSeverity(StrEnum):
    """What a difference can lead to."""

    INFO = "info"
    WARNING = "warning"
    BREAKING = "breaking"


class DriftRemedy(StrEnum):
    """What floe does about a difference.

    Attributes:
        RUN: ``floe apply`` changes the table, and so does the next run that writes to it.
        APPLY: ``floe apply`` changes the table.
        CONFIRM: ``floe apply`` changes the table, and asks first.
        FLAG: Only ``floe apply --drop-columns`` changes the table, and asks first.
        NONE: Nothing does; the item's ``fix`` says what to do.
    """

    RUN = "run"
    APPLY = "apply"
    CONFIRM = "confirm"
    FLAG = "flag"
    NONE = "none"


class DriftItem(FrozenModel):
    """One difference."""

    kind: DriftKind = Field(description="What differs.")
    path: str = Field(description="Where: a column, dotted for nested fields, or a property.")
    declared: str | None = Field(description="What floe.yaml says; none: nothing.")
    actual: str | None = Field(description="What the table has; none: nothing.")
    severity: DriftSeverity = Field(description="What it can lead to.")
    fix: str = Field(description="The way out.")
    remedy: DriftRemedy = Field(default=DriftRemedy.NONE, description="What floe does about it.")

    def __str__(self) -> str:
        """Render as ``severity kind path: declared X, the table has Y. fix``."""
        declared = "nothing" if self.declared is None else self.declared
        actual = "nothing" if self.actual is None else self.actual
        what = self.kind.value.replace("_", " ")
        return f"{self.severity.value} {what} {self.path}: declared {declared}, the table has {actual}. {self.fix}"

    @property
    def destructive(self) -> bool:
        """Whether the change takes something away, so that somebody has to agree first."""
        return self.remedy in {DriftRemedy.CONFIRM, DriftRemedy.FLAG}


class DriftReport(FrozenModel):
    """Everything that differs between one table and its declaration."""

    table: str = Field(description="The table, as namespace.name.")
    items: tuple[DriftItem, ...] = Field(default=(), description="The differences, most severe first.")

    @property
    def drifted(self) -> bool:
        """Whether anything differs."""
        return bool(self.items)

    @property
    def breaking(self) -> bool:
        """Whether a difference can break readers or writers."""
        return any(item.severity is DriftSeverity.BREAKING for item in self.items)

    def of(self, kind: DriftKind) -> tuple[DriftItem, ...]:
        """Return the differences of one kind."""
        return tuple(item for item in self.items if item.kind is kind)


@runtime_checkable
class DriftDetectorProtocol(Protocol):
    """Compares declared tables with real ones."""

    def detect(self, target: str, declared: TableConfig) -> DriftReport:
        """Compare one table with its declaration; a table that is not there is a difference too."""
        ...
