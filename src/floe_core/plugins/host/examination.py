"""Check every installed plugin: whether it loads, starts and is healthy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from floe_core.plugins.host.discovery import PluginStatus
from floe_core.plugins.metadata import HealthState, HealthStatus

if TYPE_CHECKING:
    from floe_core.plugins.host.discovery import PluginInfo
    from floe_core.plugins.metadata import PluginMetadata, PluginType
    from floe_core.plugins.registry import PluginRegistry

NOT_CONFIGURED = "not configured, so it was not started"


def examine_plugins(registry: PluginRegistry, plugin_type: PluginType | None = None) -> list[PluginInfo]:
    """Load, start and check every plugin, then stop all of them; failures are reported with a reason.

    A plugin that requires a configuration is not started, because only a project provides one.

    Args:
        registry: The plugin registry.
        plugin_type: Check only this group; dependencies of its plugins are started as well.
    """
    plugins = registry.for_project()
    try:
        return [_examined(plugins, info) for info in plugins.list(plugin_type, load=True)]
    finally:
        plugins.shutdown()


def _examined(plugins: PluginRegistry, info: PluginInfo) -> PluginInfo:
    if info.status is not PluginStatus.OK:
        return info
    if _needs_configuration(plugins.get(info.type, info.name)):
        return replace(info, health=HealthStatus(HealthState.DEGRADED, NOT_CONFIGURED))
    report = plugins.startup([(info.type, info.name)])
    if not report.ok:
        return replace(info, status=PluginStatus.FAILED, reason="; ".join(map(str, report.failures)))
    health = plugins.health_check(info.type, info.name)
    if health.ok:
        return replace(info, health=health)
    return replace(info, status=PluginStatus.FAILED, reason=health.message or health.state.value, health=health)


def _needs_configuration(plugin: PluginMetadata) -> bool:
    schema = plugin.get_config_schema()
    if schema is None:
        return False
    try:
        schema.model_validate({})
    except ValidationError:
        return True
    return False
