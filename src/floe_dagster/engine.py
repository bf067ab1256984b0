"""The engine of a project: its name and the dialect of its SQL, known before it is opened."""

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
    """What the compute plugin of a project says about its engine.

    Attributes:
        name: The plugin, which is also the name of the engine's resource and a kind of the assets it computes.
        sql_dialect: The dialect of conditions and SQL models, by sqlglot's name.
    """

    name: str
    sql_dialect: str

    @classmethod
    def of(cls, config: ComputeConfig | None = None, registry: PluginRegistry | None = None) -> Self:
        """Look up the engine of a ``compute`` section.

        Args:
            config: The section; the default engine without one.
            registry: Where the plugin is looked up; the installed plugins by default.

        Raises:
            SecretReferenceError: The type is a variable that is not set.
        """
        name = expand((config or ComputeConfig()).type)
        try:
            dialect = (registry or default_registry()).get(PluginType.COMPUTE, name).sql_dialect
        except PluginError:
            # Opening the engine reports the plugin that is missing, with those that are installed.
            dialect = ""
        return cls(name, dialect)


def reason_of(kind: str, message: str) -> str | None:
    """Return the part of an engine's error that says what happened; None when no installed engine raised it.

    Args:
        kind: Full name of the error's class.
        message: What the error says.
    """
    registry = default_registry()
    for info in registry.list(PluginType.COMPUTE):
        # A plugin that does not load has not raised the error.
        with suppress(PluginError):
            if (reason := registry.get(PluginType.COMPUTE, info.name).reason_of(kind, message)) is not None:
                return reason
    return None
