"""Drift: differences between a table and its declaration in floe.yaml."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pydantic import Field

from floe_core.schemas.base import FrozenModel

if TYPE_CHECKING:
    from floe_core.schemas import TableConfig


class DriftKind(StrEnum):
    """The kind of a difference."""

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
    """The possible impact of a difference."""

    INFO = "info"
    WARNING = "warning"
    BREAKING = "breaking"


class DriftRemedy(StrEnum):
    """How floe can fix a difference.

    Attributes:
        RUN: ``floe apply`` changes the table, and so does the next run that writes to it.
        APPLY: ``floe apply`` changes the table.
        CONFIRM: ``floe apply`` changes the table after confirmation.
        FLAG: Only ``floe apply --drop-columns`` changes the table, after confirmation.
        NONE: floe cannot change the table; the item's ``fix`` says what to do.
    """

    RUN = "run"
    APPLY = "apply"
    CONFIRM = "confirm"
    FLAG = "flag"
    NONE = "none"


class DriftItem(FrozenModel):
    """One difference."""

    kind: DriftKind = Field(description="Kind of difference.")
    path: str = Field(description="Column, dotted for nested fields, or property.")
    declared: str | None = Field(description="Value in floe.yaml; none: not declared.")
    actual: str | None = Field(description="Value in the table; none: not in the table.")
    severity: DriftSeverity = Field(description="Possible impact.")
    fix: str = Field(description="How to fix it.")
    remedy: DriftRemedy = Field(default=DriftRemedy.NONE, description="How floe can fix it.")

    def __str__(self) -> str:
        """Render as ``severity kind path: declared X, actual Y. fix``."""
        return f"{self.severity.value} {self.kind.value.replace('_', ' ')} {self.difference}"

    @property
    def difference(self) -> str:
        """The difference as ``path: declared X, actual Y. fix``."""
        return f"{self.path}: declared {self.declared or 'none'}, actual {self.actual or 'none'}. {self.fix}"

    @property
    def destructive(self) -> bool:
        """Whether the change removes something, so it needs confirmation."""
        return self.remedy in {DriftRemedy.CONFIRM, DriftRemedy.FLAG}


class DriftReport(FrozenModel):
    """All differences between a table and its declaration."""

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
    """Compares tables with their declarations."""

    def detect(self, target: str, declared: TableConfig) -> DriftReport:
        """Compare one table with its declaration; a missing table is also a difference."""
        ...
