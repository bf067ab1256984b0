"""The ``tables`` and ``governance`` sections: the declared tables and the retention of their history."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from floe_core.dataplane import NullKeys
from floe_core.declaration.column_types import parse_column_type
from floe_core.schemas.base import FrozenModel, Number, Setting, Text, WebAddress, WholeNumber
from floe_core.schemas.checks import CheckConfig

TableName = Annotated[str, StringConstraints(pattern=r"^[^.\s]+(\.[^.\s]+)+$")]

_PARTITION_TERM = re.compile(
    r"^(?:(?P<column>[\w.]+)|(?:identity|day|days|month|months|year|years|hour|hours)\(\s*[\w.]+\s*\)"
    r"|(?:bucket|truncate)\(\s*\d+\s*,\s*[\w.]+\s*\))$"
)
_SORT_TERM = re.compile(r"^[\w.]+(\s+(asc|desc))?(\s+nulls\s+(first|last))?$", re.IGNORECASE)


def _partition_term(term: str) -> str:
    if term.count("(") != term.count(")"):
        msg = f"'{term}' is not a valid partition term; use quotes if it contains a comma: [\"bucket(16, id)\"]"
        raise ValueError(msg)
    if not _PARTITION_TERM.match(term):
        msg = (
            f"'{term}' is not a valid partition term; use a column, day(c), month(c), year(c), hour(c), "
            "bucket(n, c) or truncate(n, c)"
        )
        raise ValueError(msg)
    return term


def _sort_term(term: str) -> str:
    if not _SORT_TERM.match(term):
        msg = f"'{term}' is not a valid sort term; use column [asc|desc] [nulls first|last]"
        raise ValueError(msg)
    return term


def _column_type(text: str) -> str:
    parse_column_type(text)
    return text


PartitionTerm = Annotated[Text, AfterValidator(_partition_term)]
SortTerm = Annotated[Text, AfterValidator(_sort_term)]
ColumnTypeText = Annotated[Text, AfterValidator(_column_type)]


class ColumnConfig(FrozenModel):
    """One declared column."""

    name: Text = Field(description="Column name.")
    type: ColumnTypeText = Field(description="Iceberg type: long, string, decimal(10, 2), timestamptz, list<string>, …")
    required: bool = Field(default=False, description="Whether null is rejected.")
    doc: str | None = Field(default=None, description="Comment stored in the table.")
    renamed_from: Text | None = Field(
        default=None, description="Previous name of the column; floe apply renames it. May remain after the rename."
    )


class RetentionConfig(FrozenModel):
    """How long history is kept."""

    snapshot_days: WholeNumber | None = Field(
        default=None, ge=0, le=36500, description="Minimum number of days to keep a snapshot."
    )
    min_snapshots: WholeNumber | None = Field(
        default=None, ge=1, description="Number of snapshots that are always kept."
    )
    orphan_days: WholeNumber = Field(
        default=3, ge=1, description="Minimum age of an unreferenced file before it may be deleted."
    )


class TableConfig(FrozenModel):
    """One declared table."""

    description: str | None = Field(default=None, description="Description of the table.")
    columns: tuple[ColumnConfig, ...] = Field(default=(), description="Columns in order; empty: derived from the data.")
    partition_by: tuple[PartitionTerm, ...] | None = Field(
        default=None, description="Terms such as day(ts), bucket(16, id), region; []: none. Default: unchanged."
    )
    sort_by: tuple[SortTerm, ...] | None = Field(
        default=None, description="Terms such as ts desc nulls last; []: none. Default: unchanged."
    )
    keys: tuple[Text, ...] = Field(default=(), description="Columns that identify a row, for upserts.")
    null_keys: NullKeys | None = Field(
        default=None,
        description="How an upsert treats null in a key: refuse (the default), or match null with null.",
    )
    location: Text | None = Field(default=None, description="Storage location; default: warehouse/namespace/table.")
    properties: dict[Text, Setting] = Field(default_factory=dict, description="Iceberg table properties.")
    retention: RetentionConfig = Field(default_factory=RetentionConfig, description="How long history is kept.")
    checks: tuple[CheckConfig, ...] = Field(default=(), description="Checks that must pass before rows are published.")

    @model_validator(mode="after")
    def _unique_columns(self) -> TableConfig:
        counts = Counter(column.name for column in self.columns)
        if twice := sorted(name for name, count in counts.items() if count > 1):
            msg = f"column declared twice: {', '.join(twice)}"
            raise ValueError(msg)
        folded = Counter(column.name.casefold() for column in self.columns)
        if alike := sorted(column.name for column in self.columns if folded[column.name.casefold()] > 1):
            msg = f"columns differ only in case, and Spark cannot tell them apart: {', '.join(alike)}"
            raise ValueError(msg)
        return self

    @model_validator(mode="after")
    def _possible_renames(self) -> TableConfig:
        former = Counter(column.renamed_from.casefold() for column in self.columns if column.renamed_from)
        for column in self.columns:
            old = column.renamed_from
            if old is None:
                continue
            others = {other.name.casefold() for other in self.columns if other is not column}
            if old == column.name or old.casefold() in others:
                msg = f"renamed_from of {column.name} is '{old}', which is a declared column"
                raise ValueError(msg)
            if former[old.casefold()] > 1:
                msg = f"two columns have renamed_from '{old}'"
                raise ValueError(msg)
        return self


class RetentionPolicy(FrozenModel):
    """The requirements of one level of the organization."""

    snapshot_retention_days: WholeNumber | None = Field(
        default=None, ge=0, le=36500, description="Minimum number of days to keep snapshots."
    )
    legal_hold_days: WholeNumber | None = Field(
        default=None, ge=0, le=36500, description="Days required by a legal hold."
    )
    reason: str | None = Field(default=None, description="Reason, shown in the derivation.")


class GovernanceConfig(FrozenModel):
    """Retention required by each level; the strictest wins."""

    enterprise: RetentionPolicy = Field(default_factory=RetentionPolicy, description="The whole company.")
    domain: RetentionPolicy = Field(default_factory=RetentionPolicy, description="The business domain.")
    product: RetentionPolicy = Field(default_factory=RetentionPolicy, description="This data product.")


class OpenLineageConfig(FrozenModel):
    """Lineage of runs, sent as OpenLineage events."""

    url: WebAddress = Field(description="Address of the receiver, such as http://lineage.example.com:5000.")
    endpoint: Text = Field(default="api/v1/lineage", description="Path of the receiver's endpoint.")
    namespace: Text | None = Field(default=None, description="Namespace of the jobs; default: the project's name.")
    timeout_seconds: Number = Field(default=5.0, gt=0, le=60, description="Time limit for sending one event.")


class ObservabilityConfig(FrozenModel):
    """Logs, traces, metrics and lineage."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] | None = Field(
        default=None, description="Minimum log level; default: ERROR, or INFO with --verbose."
    )
    log_format: Literal["console", "json"] | None = Field(
        default=None, description="Readable text or JSON; default: console."
    )
    otlp_endpoint: WebAddress | None = Field(
        default=None,
        description="OTLP/HTTP address for spans and metrics, such as http://localhost:4318; none: not sent.",
    )
    service_name: Text = Field(default="floe", description="Service name on spans and metrics.")
    openlineage: OpenLineageConfig | None = Field(
        default=None, description="Where to send lineage events of runs; none: not sent."
    )
