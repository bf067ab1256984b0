"""Secrets plugins, which look up ``secret_ref``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from floe_core.declaration.expansion import expand_section
from floe_core.errors import CapabilityError, SecretReferenceError
from floe_core.observing.redaction import redact_text
from floe_core.plugins.host.connecting import options_schema
from floe_core.plugins.host.discovery import plugin_key
from floe_core.plugins.host.lifecycle import call_within
from floe_core.plugins.metadata import PluginMetadata, PluginType

if TYPE_CHECKING:
    from floe_core.plugins.registry import PluginRegistry
    from floe_core.schemas import ProjectConfig

LOOKUP_SECONDS = 30.0


class SecretsPlugin(PluginMetadata):
    """Looks secrets up in a vault.

    The ``vault`` section of floe.yaml selects the plugin. It starts before all other plugins of a project and stops
    after them.
    """

    def get_secret(self, name: str) -> SecretStr | str | None:
        """Return the secret of a ``secret_ref``; None if the plugin does not have it, so floe uses its other sources.

        Must finish within 30 s.

        Raises:
            CapabilityError: The plugin does not look up secrets.
        """
        msg = f"The secrets plugin '{self.name}' does not look up secrets, such as '{name}'."
        raise CapabilityError(msg, hint="It must implement get_secret(name).")


@dataclass(frozen=True)
class SecretLookup:
    """Looks up secrets with a plugin.

    Attributes:
        plugin: The started plugin.
        seconds: Time limit for one lookup.
    """

    plugin: SecretsPlugin
    seconds: float = LOOKUP_SECONDS

    def __call__(self, name: str) -> str | None:
        """Return a secret's value; None if the plugin does not have it.

        Raises:
            SecretReferenceError: The lookup failed; the message names the plugin.
        """
        key = plugin_key(PluginType.SECRETS, self.plugin.name)
        try:
            found: object = call_within(
                self.seconds, lambda: self.plugin.get_secret(name), plugin=key, what=f"look up the secret '{name}'"
            )
        except Exception as err:
            reason = redact_text(str(err) or type(err).__name__)
            msg = f"The plugin {key} could not look up the secret '{name}': {reason}"
            raise SecretReferenceError(msg, hint=getattr(err, "hint", None)) from err
        value = found.get_secret_value() if isinstance(found, SecretStr) else found
        if value is None or isinstance(value, str):
            return value or None
        msg = f"The plugin {key} returned {type(value).__name__} instead of text for the secret '{name}'."
        raise SecretReferenceError(msg)


def open_secrets(project: ProjectConfig, plugins: PluginRegistry) -> SecretLookup | None:
    """Configure and start the plugin of the ``vault`` section; return None if no plugin is set.

    Raises:
        PluginNotFoundError: The plugin is not installed.
        PluginError: The plugin did not start; the message names it.
        ConfigurationError: The plugin's options are not valid.
    """
    section = expand_section(project.vault, path="vault")
    if section.type is None:
        return None
    plugin = plugins.get(PluginType.SECRETS, section.type)
    if options_schema(plugin, type(section)) is not None:
        plugins.configure(PluginType.SECRETS, section.type, section.options)
    plugins.startup([(PluginType.SECRETS, section.type)]).raise_for_failures()
    return SecretLookup(plugin)
