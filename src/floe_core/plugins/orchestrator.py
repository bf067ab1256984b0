"""Orchestrator plugins, which run the assets."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

from floe_core.plugins.metadata import PluginMetadata

if TYPE_CHECKING:
    from floe_core.schemas import CompiledArtifacts


class OrchestratorPlugin(PluginMetadata):
    """Turns compiled artifacts into the definitions of an orchestrator."""

    @abstractmethod
    def create_definitions(self, artifacts: CompiledArtifacts) -> Any:  # noqa: ANN401 - the orchestrator's own type
        """Return the orchestrator's definitions: assets, resources, schedules and jobs."""
