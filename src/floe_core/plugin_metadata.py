"""The plugin metadata, under its documented module name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_core.plugins.metadata import PLUGIN_API_VERSION, HealthState, HealthStatus, PluginMetadata, PluginType

__all__ = ["PLUGIN_API_VERSION", "HealthState", "HealthStatus", "PluginMetadata", "PluginType"]

_HOMES = {
    "PLUGIN_API_VERSION": "floe_core.plugins.metadata",
    "HealthState": "floe_core.plugins.metadata",
    "HealthStatus": "floe_core.plugins.metadata",
    "PluginMetadata": "floe_core.plugins.metadata",
    "PluginType": "floe_core.plugins.metadata",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
