"""The ``tenancy`` section: how tenants share the catalog."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from floe_core.schemas.base import FrozenModel, Text, WholeNumber
from floe_core.schemas.tables import TableConfig

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
TenantTableName = Annotated[str, StringConstraints(pattern=f"^{_NAME}$")]


class TenancyConfig(FrozenModel):
    """The namespaces of tenants and their initial tables."""

    namespace_prefix: Text = Field(
        default="tenants",
        pattern=rf"^{_NAME}(\.{_NAME})*$",
        description="Dotted name of the parent namespace of all tenants.",
    )
    metadata_bucket: Text | None = Field(
        default=None, description="Bucket for table metadata, in the same kind of store; default: the warehouse's."
    )
    metadata_prefix: str = Field(default="", description="Path of the metadata in its bucket.")
    tables: dict[TenantTableName, TableConfig] = Field(
        default_factory=dict, description="Tables of every tenant; default: main, events and metrics."
    )
    concurrency: WholeNumber = Field(default=4, ge=1, le=64, description="Number of tenants processed concurrently.")
