"""The header of a SQL model."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Setting, Text


class SqlModelConfig(FrozenModel):
    """How the rows of a SQL model are written; the names match those of an asset's metadata."""

    description: Text | None = Field(default=None, description="Description of the table.")
    write_mode: Literal["append", "overwrite", "upsert"] | None = Field(
        default=None, description="How to treat existing rows; required for a model without partitions."
    )
    upsert_keys: tuple[Text, ...] = Field(default=(), description="Columns that identify a row, for upserts.")
    partitions: Text | None = Field(default=None, description="Table whose partitions this model shares and reads.")
    incremental: tuple[Text, ...] = Field(
        default=(), description="Tables of which only the rows added since the last run are read."
    )
    partition_column: Text | None = Field(default=None, description="Column that the partition keys refer to.")
    schema_evolution_enabled: bool | None = Field(
        default=None, description="Whether the table's columns follow the query's columns."
    )
    table_properties: dict[Text, Setting] = Field(default_factory=dict, description="Table properties.")

    def metadata(self) -> dict[str, Any]:
        """Return the header as an asset's metadata."""
        values = self.model_dump(exclude={"description", "partitions", "incremental"}, exclude_none=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items() if value != ()}
