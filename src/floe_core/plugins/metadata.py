"""The metadata and life cycle of plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

PLUGIN_API_VERSION = "1.0"


class PluginType(StrEnum):
    """The kinds of plugin; each value is an entry-point group."""

    COMPUTE = "floe.computes"
    ORCHESTRATOR = "floe.orchestrators"
    CATALOG = "floe.catalogs"
    STORAGE = "floe.storage"
    TELEMETRY_BACKEND = "floe.telemetry_backends"
    LINEAGE_BACKEND = "floe.lineage_backends"
    DBT = "floe.dbt"
    SEMANTIC_LAYER = "floe.semantic_layers"
    INGESTION = "floe.ingestion"
    SECRETS = "floe.secrets"
    IDENTITY = "floe.identity"
    QUALITY = "floe.quality"


_NOTHING_YET = "nothing in floe uses plugins of this group yet"
# Groups whose plugins are listed and checked but not used by floe.
UNUSED_GROUPS: Mapping[PluginType, str] = {
    PluginType.TELEMETRY_BACKEND: "not used: floe sends its telemetry over OTLP itself (observability.otlp_endpoint)",
    PluginType.LINEAGE_BACKEND: "not used: floe sends OpenLineage events itself (observability.openlineage)",
    PluginType.DBT: _NOTHING_YET,
    PluginType.SEMANTIC_LAYER: _NOTHING_YET,
    PluginType.INGESTION: _NOTHING_YET,
    PluginType.IDENTITY: _NOTHING_YET,
}


class HealthState(StrEnum):
    """The health of a plugin."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """The result of a plugin's health check."""

    state: HealthState
    message: str = ""
    details: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Convert a state given as text.

        Raises:
            ValueError: The state does not exist.
        """
        object.__setattr__(self, "state", HealthState(self.state))

    @property
    def ok(self) -> bool:
        """Whether the plugin is usable."""
        return self.state is not HealthState.UNHEALTHY


class PluginMetadata(ABC):
    """Base class of all plugins.

    A plugin is constructed without arguments, configured once with an instance of its ``get_config_schema()``, started,
    used, and shut down. Construction must be cheap and must not use the network.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifier within the plugin's group; must equal its entry point's name."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The plugin's own version, X.Y.Z."""

    @property
    @abstractmethod
    def floe_api_version(self) -> str:
        """The plugin API version the plugin was written for, X.Y."""

    @property
    def description(self) -> str:
        """A one-line description."""
        return ""

    @property
    def dependencies(self) -> list[str]:
        """Plugins that must be started first, each as ``name`` (same group) or ``group:name``."""
        return []

    def get_config_schema(self) -> type[BaseModel] | None:
        """Return the model of the plugin's configuration; None if it has no configuration."""
        return None

    def configure(self, config: BaseModel) -> None:  # noqa: B027 - most plugins have no configuration
        """Accept the validated configuration; called before ``startup``."""

    def fresh(self) -> Self:
        """Return an independent plugin with the same configuration that is not started and holds no resources."""
        return copy(self)

    def startup(self) -> None:  # noqa: B027 - optional step
        """Acquire resources; must finish within 30 s."""

    def shutdown(self) -> None:  # noqa: B027 - optional step
        """Release resources; called once, in reverse start order."""

    def health_check(self) -> HealthStatus:
        """Return the plugin's health; must finish within 5 s."""
        return HealthStatus(HealthState.HEALTHY)
