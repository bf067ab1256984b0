"""The plugin registry, under its documented module name."""

from typing import TYPE_CHECKING

from floe_core.runtime.lazy import lazy_names

if TYPE_CHECKING:
    from floe_core.plugins.host.discovery import PluginInfo, PluginStatus
    from floe_core.plugins.metadata import PluginType
    from floe_core.plugins.registry import PluginRegistry, default_registry

__all__ = ["PluginInfo", "PluginRegistry", "PluginStatus", "PluginType", "default_registry"]

_HOMES = {
    "PluginInfo": "floe_core.plugins.host.discovery",
    "PluginRegistry": "floe_core.plugins.registry",
    "PluginStatus": "floe_core.plugins.host.discovery",
    "PluginType": "floe_core.plugins.metadata",
    "default_registry": "floe_core.plugins.registry",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
