"""What the header of a SQL model can say."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Setting, Text


class SqlModelConfig(FrozenModel):
    """How the rows of a SQL model are written: what the metadata of an asset says, with the same names."""

    description: Text | None = Field(default=None, description="What the table holds, for people.")
    write_mode: Literal["append", "overwrite", "upsert"] | None = Field(
        default=None, description="What happens to the rows already there; has to be said for one without partitions."
    )
    upsert_keys: tuple[Text, ...] = Field(default=(), description="Columns that identify a row, for an upsert.")
    partitions: Text | None = Field(default=None, description="Table whose partitions this one has, and reads.")
    incremental: tuple[Text, ...] = Field(
        default=(), description="Tables of which only what was added since the last run is read."
    )
    partition_column: Text | None = Field(default=None, description="Column that the partitions' keys speak of.")
    schema_evolution_enabled: bool | None = Field(
        default=None, description="Whether the table follows the columns of the query."
    )
    table_properties: dict[Text, Setting] = Field(default_factory=dict, description="Table properties.")

    def metadata(self) -> dict[str, Any]:
        """Return it as an asset's metadata."""
        said = self.model_dump(exclude={"description", "partitions", "incremental"}, exclude_none=True)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items() if value != ()}
