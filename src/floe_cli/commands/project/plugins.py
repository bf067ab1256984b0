"""``floe plugins``."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from floe_cli.command import command, command_group
from floe_cli.output import Report, count, grid, mark

if TYPE_CHECKING:
    from floe_core.plugins.host.discovery import PluginInfo
    from floe_core.plugins.metadata import PluginType

app = command_group("List and check installed plugins.")


class PluginKind(StrEnum):
    """Names of plugin groups on the command line."""

    COMPUTE = "compute"
    ORCHESTRATOR = "orchestrator"
    CATALOG = "catalog"
    STORAGE = "storage"
    TELEMETRY_BACKEND = "telemetry-backend"
    LINEAGE_BACKEND = "lineage-backend"
    DBT = "dbt"
    SEMANTIC_LAYER = "semantic-layer"
    INGESTION = "ingestion"
    SECRETS = "secrets"
    IDENTITY = "identity"
    QUALITY = "quality"


KindOption = Annotated[PluginKind | None, typer.Option("--type", help="Only plugins of this type.", show_default=False)]


@command(app, "list")
def list_plugins(kind: KindOption = None) -> Report:
    """List installed plugins, without importing them.

    Examples:
        floe plugins list
        floe plugins list --type catalog
    """
    from floe_core.plugins.registry import PluginRegistry

    infos = PluginRegistry().list(_plugin_type(kind))
    rows = [(_kind(info), info.name, info.distribution, info.distribution_version, info.target) for info in infos]
    table = grid(["TYPE", "NAME", "DISTRIBUTION", "VERSION", "CLASS"], rows)
    unused = {_kind(info): info.unused for info in infos if info.unused} | _unused(kind)
    notes = ["", *(f"{name}: {why}." for name, why in unused.items())] if unused else []
    return Report(data=[_data(info) for info in infos], text=[table if rows else "No plugins are installed.", *notes])


@command(app)
def check(kind: KindOption = None) -> Report:
    """Import and start each plugin, check its health, and stop it.

    The exit code is 1 if a plugin is incompatible with this version of floe, does not start, or is unhealthy. Plugins
    that need configuration are only started within a project: use floe doctor.

    Examples:
        floe plugins check
    """
    from floe_core.plugins.host.examination import examine_plugins
    from floe_core.plugins.registry import PluginRegistry

    infos = examine_plugins(PluginRegistry(), _plugin_type(kind))
    failed = [info for info in infos if info.reason]
    rows = [
        (
            _kind(info),
            info.name,
            info.version,
            info.api_version,
            mark(info.status.value),
            info.health.state.value if info.health else "",
            "\n".join(filter(None, (info.reason or info.description, _remark(info)))),
        )
        for info in infos
    ]
    verdict = f"{len(failed)} of {count(len(infos), 'plugin')} not usable." if failed else "All plugins are usable."
    return Report(
        data=[_data(info) for info in infos],
        text=[grid(["TYPE", "NAME", "VERSION", "API", "STATUS", "HEALTH", ""], rows), "", verdict],
        exit_code=1 if failed else 0,
    )


def _unused(kind: PluginKind | None) -> dict[str, str]:
    """Return why floe does not use the selected plugin group."""
    from floe_core.plugins.metadata import UNUSED_GROUPS

    plugin_type = _plugin_type(kind)
    return {kind.value: UNUSED_GROUPS[plugin_type]} if kind and plugin_type and plugin_type in UNUSED_GROUPS else {}


def _remark(info: "PluginInfo") -> str:
    if info.health and info.health.message and not info.reason:
        return info.health.message
    return info.unused


def _plugin_type(kind: PluginKind | None) -> "PluginType | None":
    from floe_core.plugins.metadata import PluginType

    return PluginType[kind.name] if kind else None


def _kind(info: "PluginInfo") -> str:
    return PluginKind[info.type.name].value


def _data(info: "PluginInfo") -> dict[str, Any]:
    return {
        "type": _kind(info),
        "group": info.type.value,
        "name": info.name,
        "distribution": info.distribution,
        "distribution_version": info.distribution_version,
        "target": info.target,
        "status": info.status.value,
        "version": info.version or None,
        "api_version": info.api_version or None,
        "description": info.description or None,
        "reason": info.reason or None,
        "health": info.health.state.value if info.health else None,
        "health_message": info.health.message if info.health else None,
        "unused": info.unused or None,
    }
