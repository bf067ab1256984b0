"""The ``dagster`` orchestrator plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import MissingDependencyError
from floe_core.plugins import BuiltInPlugin, OrchestratorPlugin

if TYPE_CHECKING:
    from dagster import Definitions

    from floe_core.schemas import CompiledArtifacts


class DagsterOrchestratorPlugin(BuiltInPlugin, OrchestratorPlugin):
    """Runs a project's assets with Dagster."""

    @property
    def name(self) -> str:
        """Name of the plugin."""
        return "dagster"

    @property
    def description(self) -> str:
        """One-line description."""
        return "Dagster: assets are Iceberg tables, with checks that run before publication"

    def create_definitions(self, artifacts: CompiledArtifacts) -> Definitions:
        """Return Dagster definitions; see ``floe_dagster.definitions.create_definitions``.

        Raises:
            MissingDependencyError: The extra ``dagster`` is not installed.
        """
        try:
            from floe_dagster.definitions import create_definitions
        except ImportError as err:
            if err.name is None or err.name.partition(".")[0] != "dagster":
                raise
            what = "The orchestrator 'dagster'"
            raise MissingDependencyError(what, extra="dagster") from err
        return create_definitions(artifacts)
