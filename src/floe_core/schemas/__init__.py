"""Configuration and artifact models: frozen, typed and without secrets."""

from floe_core.schemas.artifacts import CompiledArtifacts, EffectiveRetention
from floe_core.schemas.base import SCHEMA_VERSION, FrozenModel
from floe_core.schemas.catalog import POLARIS_DEFAULT_SCOPE, AccessDelegation, CatalogConfig, CatalogCredentials
from floe_core.schemas.checks import CheckConfig, CheckKind
from floe_core.schemas.compute import CheckResultsConfig, ComputeConfig, OrchestrationConfig, ScheduleConfig
from floe_core.schemas.project import ProjectConfig, ProjectFile
from floe_core.schemas.resilience import CircuitBreakerConfig, RetryConfig, TimeoutConfig
from floe_core.schemas.storage import StorageConfig, StorageCredentials, VaultConfig
from floe_core.schemas.tables import (
    ColumnConfig,
    GovernanceConfig,
    ObservabilityConfig,
    OpenLineageConfig,
    RetentionConfig,
    RetentionPolicy,
    TableConfig,
)
from floe_core.schemas.tenancy import TenancyConfig

__all__ = [
    "POLARIS_DEFAULT_SCOPE",
    "SCHEMA_VERSION",
    "AccessDelegation",
    "CatalogConfig",
    "CatalogCredentials",
    "CheckConfig",
    "CheckKind",
    "CheckResultsConfig",
    "CircuitBreakerConfig",
    "ColumnConfig",
    "CompiledArtifacts",
    "ComputeConfig",
    "EffectiveRetention",
    "FrozenModel",
    "GovernanceConfig",
    "ObservabilityConfig",
    "OpenLineageConfig",
    "OrchestrationConfig",
    "ProjectConfig",
    "ProjectFile",
    "RetentionConfig",
    "RetentionPolicy",
    "RetryConfig",
    "ScheduleConfig",
    "StorageConfig",
    "StorageCredentials",
    "TableConfig",
    "TenancyConfig",
    "TimeoutConfig",
    "VaultConfig",
]
