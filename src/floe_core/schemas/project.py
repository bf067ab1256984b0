"""The complete floe.yaml."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from floe_core.schemas.base import SCHEMA_VERSION, FrozenModel, Text, WholeNumber
from floe_core.schemas.catalog import CatalogConfig
from floe_core.schemas.compute import ComputeConfig, OrchestrationConfig
from floe_core.schemas.storage import StorageConfig, VaultConfig
from floe_core.schemas.tables import GovernanceConfig, ObservabilityConfig, TableConfig, TableName
from floe_core.schemas.tenancy import TenancyConfig


class ProjectConfig(FrozenModel):
    """floe.yaml with its environment applied: the configuration of a project."""

    schema_version: WholeNumber = Field(default=SCHEMA_VERSION, ge=0, description="Version of this file's format.")
    name: Text = Field(pattern=r"^[a-z][a-z0-9_-]*$", description="Project name: lowercase letters, digits, - and _.")
    description: str | None = Field(default=None, description="What the project is for.")
    catalog: CatalogConfig = Field(default_factory=CatalogConfig, description="The catalog of the tables.")
    storage: StorageConfig = Field(default_factory=StorageConfig, description="Where files are stored.")
    vault: VaultConfig = Field(default_factory=VaultConfig, description="The plugin that looks up secret_ref.")
    compute: ComputeConfig = Field(default_factory=ComputeConfig, description="The engine that runs the pipeline.")
    orchestration: OrchestrationConfig = Field(
        default_factory=OrchestrationConfig, description="The orchestrator that runs the assets."
    )
    tables: dict[TableName, TableConfig] = Field(default_factory=dict, description="Declared tables by name.")
    tenancy: TenancyConfig = Field(default_factory=TenancyConfig, description="How tenants share the catalog.")
    governance: GovernanceConfig = Field(default_factory=GovernanceConfig, description="Retention per level.")
    observability: ObservabilityConfig = Field(
        default_factory=ObservabilityConfig, description="Logs, traces, metrics and lineage."
    )


class ProjectFile(ProjectConfig):
    """floe.yaml as written: the project and its environments."""

    environments: dict[Text, dict[str, Any]] = Field(
        default_factory=dict, description="Overrides by environment, such as dev and prod."
    )
