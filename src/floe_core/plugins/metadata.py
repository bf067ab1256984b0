"""What every plugin says about itself, and its life cycle."""

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
# Groups whose plugins are listed and checked, and that no part of floe asks for anything.
UNUSED_GROUPS: Mapping[PluginType, str] = {
    PluginType.TELEMETRY_BACKEND: "not used: floe sends its telemetry over OTLP itself (observability.otlp_endpoint)",
    PluginType.LINEAGE_BACKEND: "not used: floe sends OpenLineage events itself (observability.openlineage)",
    PluginType.DBT: _NOTHING_YET,
    PluginType.SEMANTIC_LAYER: _NOTHING_YET,
    PluginType.INGESTION: _NOTHING_YET,
    PluginType.IDENTITY: _NOTHING_YET,
}


class HealthState(StrEnum):
    """How a plugin is."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


@dataclass(frozen=True, slots=True)
class HealthStatus:
    """A plugin's answer to a health check."""

    state: HealthState
    message: str = ""
    details: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take a state by its text, too.

        Raises:
            ValueError: There is no such state.
        """
        object.__setattr__(self, "state", HealthState(self.state))

    @property
    def ok(self) -> bool:
        """Whether the plugin can be used."""
        return self.state is not HealthState.UNHEALTHY


class PluginMetadata(ABC):
    """Base of all plugins.

    A plugin is constructed without arguments, configured once with a value of its ``get_config_schema()``, started,
    used, and shut down. Construction must be cheap and must not touch the network.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Identifier within the plugin's group; the same as its entry point's name."""

    @property
    @abstractmethod
    def version(self) -> str:
        """The plugin's own version, X.Y.Z."""

    @property
    @abstractmethod
    def floe_api_version(self) -> str:
        """The plugin API it was written for, X.Y."""

    @property
    def description(self) -> str:
        """One line for people."""
        return ""

    @property
    def dependencies(self) -> list[str]:
        """Plugins that must be started first, each as ``name`` (same group) or ``group:name``."""
        return []

    def get_config_schema(self) -> type[BaseModel] | None:
        """Return the model of the plugin's configuration, None when it takes none."""
        return None

    def configure(self, config: BaseModel) -> None:  # noqa: B027 - most plugins take no configuration
        """Take the validated configuration; called before ``startup``."""

    def fresh(self) -> Self:
        """Return a plugin with the same configuration for somebody else, with nothing open or started."""
        return copy(self)

    def startup(self) -> None:  # noqa: B027 - optional step
        """Acquire resources; limited to 30 s."""

    def shutdown(self) -> None:  # noqa: B027 - optional step
        """Release resources; called once, in reverse order of start."""

    def health_check(self) -> HealthStatus:
        """Tell how the plugin is; limited to 5 s."""
        return HealthStatus(HealthState.HEALTHY)
