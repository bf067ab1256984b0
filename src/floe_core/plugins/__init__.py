"""Plugin contracts and the registry that finds them."""

from floe_core.plugins.catalog import Catalog, CatalogCapabilities, CatalogPlugin
from floe_core.plugins.compute import ComputePlugin
from floe_core.plugins.metadata import PLUGIN_API_VERSION, HealthState, HealthStatus, PluginMetadata, PluginType
from floe_core.plugins.orchestrator import OrchestratorPlugin
from floe_core.plugins.storage import FileIO, StoragePlugin

__all__ = [
    "PLUGIN_API_VERSION",
    "Catalog",
    "CatalogCapabilities",
    "CatalogPlugin",
    "ComputePlugin",
    "FileIO",
    "HealthState",
    "HealthStatus",
    "OrchestratorPlugin",
    "PluginMetadata",
    "PluginType",
    "StoragePlugin",
]
