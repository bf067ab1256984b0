"""The DuckDB plugin satisfies the contract of compute plugins."""

from __future__ import annotations

import pytest
from floe_core.errors import CapabilityError, ConfigurationError
from floe_core.schemas import ComputeConfig
from floe_testing.plugins import ComputePluginContract

from floe_duckdb import DuckDBComputePlugin


class TestDuckDBEngine(ComputePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return DuckDBComputePlugin

    @pytest.fixture
    def catalog(self, catalog):
        return catalog

    @pytest.fixture
    def data_plane(self, data_plane):
        return data_plane

    def test_it_explains_its_own_errors_in_one_line(self, plugin):
        message = 'Binder Error: Referenced column "nope" not found!\nCandidates: "a"\n\nLINE 1: select nope\n  ^'
        expected = 'Referenced column "nope" not found! Candidates: "a"'
        assert plugin.reason_of("_duckdb.BinderException", message) == expected

    def test_it_needs_the_connected_catalog(self, plugin, tmp_path):
        with pytest.raises(CapabilityError, match="connected catalog"):
            plugin.data_plane(ComputeConfig(type="duckdb"), catalog_name="lake", conf={}, project_root=tmp_path)

    def test_settings_that_duckdb_does_not_know_are_refused(self, plugin, catalog, tmp_path):
        config = ComputeConfig(type="duckdb", conf={"memory_limt": "1GB"})
        plane = plugin.data_plane(config, catalog_name="lake", conf={}, project_root=tmp_path, catalog=catalog)
        with pytest.raises(ConfigurationError, match=r"compute\.conf.*memory_limt"):
            _ = plane.session
