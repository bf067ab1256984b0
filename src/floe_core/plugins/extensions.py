"""Contracts of the groups that nothing in floe uses yet: metadata and life cycle, nothing else.

A method joins one of these when the first part of floe calls it; ``UNUSED_GROUPS`` says why there is none.
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
    """Brings data in from elsewhere."""


class IdentityPlugin(PluginMetadata):
    """Authenticates people and services."""
