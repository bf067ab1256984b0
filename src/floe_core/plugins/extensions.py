"""Contracts of plugin groups that floe does not use yet; they define only metadata and the life cycle.

A contract gets methods once floe calls them; ``UNUSED_GROUPS`` gives the reason for each group.
"""

from __future__ import annotations

from floe_core.plugins.metadata import PluginMetadata


class TelemetryBackendPlugin(PluginMetadata):
    """Receives logs, metrics and spans."""


class LineageBackendPlugin(PluginMetadata):
    """Receives lineage events."""


class DbtPlugin(PluginMetadata):
    """Compiles and runs dbt models."""


class SemanticLayerPlugin(PluginMetadata):
    """Serves metrics and dimensions over tables."""


class IngestionPlugin(PluginMetadata):
    """Ingests data from external systems."""


class IdentityPlugin(PluginMetadata):
    """Authenticates users and services."""
