"""Contract suites for compute and orchestrator plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from floe_core.dataplane import DataPlane
from floe_testing.plugins.data_plane import DataPlaneContract
from floe_testing.plugins.metadata import PluginContract

if TYPE_CHECKING:
    from floe_core.plugins import ComputePlugin, OrchestratorPlugin
    from floe_core.schemas import CompiledArtifacts


class ComputePluginContract(PluginContract, DataPlaneContract):
    """Tests of a compute plugin and its data plane.

    Override ``data_plane`` with the result of the plugin's ``data_plane`` method for some catalog, and ``catalog`` with
    that PyIceberg catalog.
    """

    def test_its_sql_dialect_is_a_lowercase_name(self, plugin: ComputePlugin) -> None:
        assert plugin.sql_dialect == plugin.sql_dialect.strip().lower()

    def test_it_ignores_errors_of_others(self, plugin: ComputePlugin) -> None:
        assert plugin.reason_of("builtins.KeyError", "'id'") is None

    def test_the_engine_implements_the_protocol(self, data_plane: DataPlane) -> None:
        assert isinstance(data_plane, DataPlane)
        assert data_plane.name

    def test_the_engine_does_not_claim_foreign_data(self, data_plane: DataPlane) -> None:
        assert not data_plane.accepts(object())
        assert not data_plane.accepts({"id": [1]})

    def test_waiting_for_an_unknown_operation_returns(self, data_plane: DataPlane) -> None:
        data_plane.await_quiet("no-such-operation", timeout_seconds=5.0)


class OrchestratorPluginContract(PluginContract):
    """Tests of an orchestrator plugin; override ``artifacts`` with a project that it can run."""

    @pytest.fixture
    def artifacts(self) -> CompiledArtifacts:
        """Return a compiled project."""
        msg = "override the fixture artifacts"
        raise NotImplementedError(msg)

    def test_a_project_becomes_definitions(self, plugin: OrchestratorPlugin, artifacts: CompiledArtifacts) -> None:
        assert plugin.create_definitions(artifacts) is not None
