"""What the plugins that come with floe have in common."""

from __future__ import annotations

from floe_core.plugins.metadata import PLUGIN_API_VERSION, PluginMetadata
from floe_core.runtime.distribution import version as installed


class BuiltInPlugin(PluginMetadata):
    """A plugin that is released with floe, and so has its version and speaks its plugin API."""

    @property
    def version(self) -> str:
        """Floe's version: the plugin comes with it."""
        return installed()

    @property
    def floe_api_version(self) -> str:
        """The plugin API it was written for."""
        return PLUGIN_API_VERSION
