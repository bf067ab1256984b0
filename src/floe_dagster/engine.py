"""The name and SQL dialect of a project's engine, without starting the engine."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from floe_core.errors import PluginError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import default_registry
from floe_core.schemas import ComputeConfig
from floe_core.secrets import expand

if TYPE_CHECKING:
    from floe_core.plugins import PluginRegistry


@dataclass(frozen=True)
class ProjectEngine:
    """The engine of a project, as described by its compute plugin.

    Attributes:
        name: Name of the plugin, of the engine's resource, and of the asset kind in Dagster's UI.
        sql_dialect: Dialect of conditions and SQL models, as named by sqlglot.
    """

    name: str
    sql_dialect: str

    @classmethod
    def of(cls, config: ComputeConfig | None = None, registry: PluginRegistry | None = None) -> Self:
        """Look up the engine of a ``compute`` section.

        Args:
            config: The section; the default engine if None.
            registry: The plugin registry; all installed plugins by default.

        Raises:
            SecretReferenceError: The type refers to a variable that is not set.
        """
        name = expand((config or ComputeConfig()).type)
        try:
            dialect = (registry or default_registry()).get(PluginType.COMPUTE, name).sql_dialect
        except PluginError:
            # Opening the engine raises this error with the list of installed plugins.
            dialect = ""
        return cls(name, dialect)


def reason_of(kind: str, message: str) -> str | None:
    """Return the part of an engine's error message that explains the failure; None if it is from no installed engine.

    Args:
        kind: Full name of the error's class.
        message: The error's message.
    """
    registry = default_registry()
    for info in registry.list(PluginType.COMPUTE):
        # A plugin that cannot be loaded did not raise the error.
        with suppress(PluginError):
            if (reason := registry.get(PluginType.COMPUTE, info.name).reason_of(kind, message)) is not None:
                return reason
    return None
