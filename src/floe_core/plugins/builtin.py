"""The base class of the plugins that ship with floe."""

from __future__ import annotations

from floe_core.plugins.metadata import PLUGIN_API_VERSION, PluginMetadata
from floe_core.runtime.distribution import version as installed


class BuiltInPlugin(PluginMetadata):
    """A plugin that is released with floe and therefore has floe's version and plugin API version."""

    @property
    def version(self) -> str:
        """Floe's version."""
        return installed()

    @property
    def floe_api_version(self) -> str:
        """The plugin API version the plugin was written for."""
        return PLUGIN_API_VERSION
