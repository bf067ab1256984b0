"""Discover installed plugins from entry points without importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from floe_core.plugins.metadata import UNUSED_GROUPS, HealthStatus, PluginType

if TYPE_CHECKING:
    from importlib.metadata import Distribution

EntryPointSource = Callable[[], Iterable[EntryPoint]]


class PluginStatus(StrEnum):
    """The status of a plugin."""

    AVAILABLE = "available"
    OK = "ok"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """One installed plugin, as a listing shows it.

    Attributes:
        type: The plugin's group.
        name: Name within the group.
        status: AVAILABLE until the plugin is loaded, then OK or FAILED.
        reason: Why it failed.
        version: The plugin's own version, known once loaded.
        api_version: The plugin API it was written for, known once loaded.
        description: A one-line description, known once loaded.
        distribution: Distribution that provides it; empty if it was registered manually.
        distribution_version: Version of that distribution.
        target: The entry point's ``module:Class``.
        health: The result of its health check, known once checked.
    """

    type: PluginType
    name: str
    status: PluginStatus = PluginStatus.AVAILABLE
    reason: str = ""
    version: str | None = None
    api_version: str | None = None
    description: str = ""
    distribution: str = ""
    distribution_version: str = ""
    target: str = ""
    health: HealthStatus | None = None

    @property
    def unused(self) -> str:
        """Why floe does not use it; empty if it does."""
        return UNUSED_GROUPS.get(self.type, "")


@dataclass(frozen=True, slots=True)
class Offer:
    """A plugin as provided by one distribution."""

    type: PluginType
    name: str
    entry_point: EntryPoint

    @property
    def key(self) -> str:
        """The plugin as ``group:name``."""
        return plugin_key(self.type, self.name)

    @property
    def distribution(self) -> Distribution | None:
        """The distribution that declares the entry point."""
        return self.entry_point.dist

    @property
    def origin(self) -> str:
        """The distribution as ``name version``."""
        return f"{self.distribution.name} {self.distribution.version}" if self.distribution else "an unknown package"

    def info(self) -> PluginInfo:
        """Describe the offer without loading it."""
        return PluginInfo(
            type=self.type,
            name=self.name,
            distribution=self.distribution.name if self.distribution else "",
            distribution_version=self.distribution.version if self.distribution else "",
            target=self.entry_point.value,
        )


def plugin_key(plugin_type: PluginType, name: str) -> str:
    """Return ``group:name``, as shown in messages."""
    return f"{plugin_type.value}:{name}"


def type_label(plugin_type: PluginType) -> str:
    """Return the group's readable name, such as ``catalog`` or ``lineage backend``."""
    return plugin_type.name.lower().replace("_", " ")


def installed_entry_points() -> list[EntryPoint]:
    """Return the entry points of floe's groups in the running environment."""
    found = entry_points()
    return [entry_point for plugin_type in PluginType for entry_point in found.select(group=plugin_type.value)]


def discover(source: EntryPointSource = installed_entry_points) -> list[Offer]:
    """List every offer in floe's groups, ordered by group and name."""
    groups = {plugin_type.value: plugin_type for plugin_type in PluginType}
    offers: dict[tuple[str, str, str], Offer] = {}
    for entry_point in source():
        if plugin_type := groups.get(entry_point.group):
            offer = Offer(plugin_type, entry_point.name, entry_point)
            # A distribution may be on sys.path twice, for example as a checkout and an installation. Count it once.
            offers.setdefault((offer.key, offer.origin, entry_point.value), offer)
    order = list(PluginType)
    return sorted(offers.values(), key=lambda offer: (order.index(offer.type), offer.name, offer.origin))
