"""Plugin contracts and the registry that finds them."""

from floe_core.plugins.builtin import BuiltInPlugin
from floe_core.plugins.catalog import Catalog, CatalogCapabilities, CatalogPlugin
from floe_core.plugins.compute import ComputePlugin
from floe_core.plugins.extensions import (
    DbtPlugin,
    IdentityPlugin,
    IngestionPlugin,
    LineageBackendPlugin,
    SemanticLayerPlugin,
    TelemetryBackendPlugin,
)
from floe_core.plugins.host.discovery import PluginInfo, PluginStatus
from floe_core.plugins.host.lifecycle import PluginFailure, StartupReport
from floe_core.plugins.host.loading import PLUGIN_CONTRACTS
from floe_core.plugins.metadata import (
    PLUGIN_API_VERSION,
    UNUSED_GROUPS,
    HealthState,
    HealthStatus,
    PluginMetadata,
    PluginType,
)
from floe_core.plugins.orchestrator import OrchestratorPlugin
from floe_core.plugins.quality import CheckedData, QualityPlugin, QualityResult
from floe_core.plugins.registry import PluginRegistry, default_registry
from floe_core.plugins.secrets import SecretsPlugin
from floe_core.plugins.storage import FileIO, StoragePlugin

__all__ = [
    "PLUGIN_API_VERSION",
    "PLUGIN_CONTRACTS",
    "UNUSED_GROUPS",
    "BuiltInPlugin",
    "Catalog",
    "CatalogCapabilities",
    "CatalogPlugin",
    "CheckedData",
    "ComputePlugin",
    "DbtPlugin",
    "FileIO",
    "HealthState",
    "HealthStatus",
    "IdentityPlugin",
    "IngestionPlugin",
    "LineageBackendPlugin",
    "OrchestratorPlugin",
    "PluginFailure",
    "PluginInfo",
    "PluginMetadata",
    "PluginRegistry",
    "PluginStatus",
    "PluginType",
    "QualityPlugin",
    "QualityResult",
    "SecretsPlugin",
    "SemanticLayerPlugin",
    "StartupReport",
    "StoragePlugin",
    "TelemetryBackendPlugin",
    "default_registry",
]
