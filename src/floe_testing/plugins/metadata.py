"""Contract suite for all plugins: metadata, configuration and life cycle."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel

from floe_core.plugins import PLUGIN_API_VERSION, HealthState, HealthStatus, PluginMetadata, PluginRegistry, PluginType
from floe_core.plugins.host.loading import check_api_version, contract_type
from floe_testing.plugins.network import no_network

_NAME = re.compile(r"^[a-z][a-z0-9_-]*$")
_VERSION = re.compile(r"^\d+\.\d+\.\d+([-+.]?[0-9A-Za-z.-]+)?$")
_API_VERSION = re.compile(r"^\d+\.\d+$")


class PluginContract:
    """Tests of a plugin's metadata and life cycle.

    Override ``plugin_class``, and ``plugin_config`` if the plugin has a configuration.
    """

    @pytest.fixture
    def plugin_class(self) -> type[PluginMetadata]:
        """Return the plugin class."""
        msg = "override the fixture plugin_class"
        raise NotImplementedError(msg)

    @pytest.fixture
    def plugin_config(self) -> dict[str, object]:
        """Return a configuration that the plugin's schema accepts."""
        return {}

    @pytest.fixture
    def plugin(self, plugin_class: type[PluginMetadata]) -> PluginMetadata:
        """Return a new plugin, created like the registry does."""
        return plugin_class()

    @pytest.fixture
    def registry(self, plugin: PluginMetadata, plugin_config: dict[str, object]) -> PluginRegistry:
        """Return a registry that contains only the configured plugin."""
        registry = PluginRegistry(source=list)
        registry.register(plugin)
        if plugin_config:
            registry.configure(contract_type(plugin), plugin.name, plugin_config)
        return registry

    def test_it_is_constructed_without_arguments_and_without_the_network(
        self, plugin_class: type[PluginMetadata]
    ) -> None:
        with no_network():
            assert isinstance(plugin_class(), PluginMetadata)

    def test_it_implements_the_contract_of_a_group(self, plugin: PluginMetadata) -> None:
        assert contract_type(plugin) in PluginType

    def test_its_name_is_valid_in_floe_yaml(self, plugin: PluginMetadata) -> None:
        assert _NAME.match(plugin.name)

    def test_its_version_has_the_form_major_minor_patch(self, plugin: PluginMetadata) -> None:
        assert _VERSION.match(plugin.version)

    def test_its_api_version_is_supported(self, plugin: PluginMetadata) -> None:
        assert _API_VERSION.match(plugin.floe_api_version)
        check_api_version(plugin, contract_type(plugin), api_version=PLUGIN_API_VERSION)

    def test_its_description_is_one_line(self, plugin: PluginMetadata) -> None:
        assert isinstance(plugin.description, str)
        assert len(plugin.description.splitlines()) <= 1

    def test_its_dependencies_name_plugins(self, plugin: PluginMetadata) -> None:
        groups = {plugin_type.value for plugin_type in PluginType}
        for dependency in plugin.dependencies:
            group, separator, name = dependency.rpartition(":")
            assert name
            assert not separator or group in groups

    def test_its_metadata_is_constant(self, plugin_class: type[PluginMetadata]) -> None:
        first, second = plugin_class(), plugin_class()
        assert (first.name, first.version, first.floe_api_version) == (
            second.name,
            second.version,
            second.floe_api_version,
        )

    def test_its_configuration_schema_is_a_model_with_a_json_schema(self, plugin: PluginMetadata) -> None:
        schema = plugin.get_config_schema()
        if schema is not None:
            assert issubclass(schema, BaseModel)
            assert schema.model_json_schema()["type"] == "object"

    def test_fresh_returns_another_instance_of_the_plugin(self, plugin: PluginMetadata) -> None:
        fresh = plugin.fresh()
        assert fresh is not plugin
        assert (type(fresh), fresh.name) == (type(plugin), plugin.name)

    def test_its_entry_point_refers_to_its_class(
        self, plugin: PluginMetadata, plugin_class: type[PluginMetadata]
    ) -> None:
        found = PluginRegistry().get(contract_type(plugin), plugin.name)
        assert type(found) is plugin_class

    def test_it_starts_and_stops(self, registry: PluginRegistry, plugin: PluginMetadata) -> None:
        report = registry.startup()
        report.raise_for_failures()
        assert report.started == (f"{contract_type(plugin).value}:{plugin.name}",)
        assert registry.shutdown() == ()

    def test_it_can_be_restarted(self, registry: PluginRegistry) -> None:
        for _ in range(2):
            registry.startup().raise_for_failures()
            assert registry.shutdown() == ()

    def test_stopping_it_twice_or_before_a_start_is_harmless(self, plugin: PluginMetadata) -> None:
        plugin.shutdown()
        plugin.shutdown()

    def test_it_responds_to_a_health_check_before_it_is_started(self, plugin: PluginMetadata) -> None:
        assert isinstance(plugin.health_check(), HealthStatus)

    def test_it_is_usable_once_started(self, registry: PluginRegistry, plugin: PluginMetadata) -> None:
        registry.startup().raise_for_failures()
        try:
            status = registry.health_check(contract_type(plugin), plugin.name)
            assert status.state is not HealthState.UNHEALTHY, status.message
        finally:
            registry.shutdown()
