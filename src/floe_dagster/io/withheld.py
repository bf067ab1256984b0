"""Keeps the secrets of a resource out of the fields that Dagster shows to all users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dagster import EnvVar
from pydantic import SecretStr

from floe_core.errors import ConfigurationError
from floe_core.observing.redaction import MASK, is_secret_key, redact_text, remember_secret
from floe_core.secrets import SecretReference

SECRET_FIELDS = ("client_secret", "token")
PROPERTIES_FIELD = "catalog_properties"


@dataclass(frozen=True)
class Withheld:
    """Secrets that were passed as values; an ``EnvVar`` stays in its field, which shows only the name of the variable.

    Attributes:
        fields: Secrets by field.
        properties: Secrets among the catalog's properties.
    """

    fields: Mapping[str, SecretStr] = field(default_factory=dict)
    properties: Mapping[str, SecretStr] = field(default_factory=dict)

    @classmethod
    def taken_from(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Withheld]:
        """Split settings into those that can be shown and the secrets."""
        given = {name: settings[name] for name in SECRET_FIELDS if settings.get(name) is not None}
        shown = {name: _shown(value, secret=True) for name, value in given.items()}
        fields = {name: _secret(value) for name, value in given.items() if shown[name] == MASK != value}
        properties = settings.get(PROPERTIES_FIELD)
        if not isinstance(properties, Mapping):
            return {**settings, **shown}, cls(fields)
        visible = {key: _shown(value, secret=is_secret_key(key)) for key, value in properties.items()}
        taken = {key: _secret(value) for key, value in properties.items() if visible[key] == MASK != value}
        return {**settings, **shown, PROPERTIES_FIELD: visible}, cls(fields, taken)

    def and_(self, later: Withheld) -> Withheld:
        """Combine both; a later secret replaces an earlier one of the same name."""
        return Withheld({**self.fields, **later.fields}, {**self.properties, **later.properties})

    def secret(self, name: str, shown: str | None) -> SecretStr | None:
        """Return the secret behind a field.

        Raises:
            SecretReferenceError: The secret is an environment variable that is not set.
        """
        if shown == MASK and name in self.fields:
            return self.fields[name]
        return None if shown is None else SecretStr(value_of(shown))

    def plain_properties(self, shown: Mapping[str, str]) -> dict[str, str]:
        """Return the catalog's properties with their secrets: never log or store them.

        Raises:
            SecretReferenceError: A property is an environment variable that is not set.
        """
        return {
            key: self.properties[key].get_secret_value()
            if value == MASK and key in self.properties
            else value_of(value)
            for key, value in shown.items()
        }


def require_no_credentials(address: object) -> None:
    """Refuse an address that contains a secret, because Dagster shows it to all users.

    Raises:
        ConfigurationError: The address contains a password or a token.
    """
    if isinstance(address, str) and not isinstance(address, EnvVar) and redact_text(address) != address:
        msg = "catalog_uri contains a secret, but Dagster shows it to all users."
        raise ConfigurationError(msg, hint="Use client_id and client_secret, or token.")


def value_of(given: str) -> str:
    """Return a setting's value; outside of a run Dagster does not resolve an ``EnvVar``.

    Raises:
        SecretReferenceError: The variable is not set.
    """
    if isinstance(given, EnvVar):
        return SecretReference(env=given.env_var_name).resolve().get_secret_value()
    return given


def from_environment(value: Any) -> Any:  # noqa: ANN401 - any setting
    """Convert ``{"env": "VARIABLE"}``, as in Dagster's configuration, into an ``EnvVar``."""
    if isinstance(value, Mapping) and list(value) == ["env"] and isinstance(value["env"], str):
        return EnvVar(value["env"])
    return value


def _shown(value: Any, *, secret: bool) -> Any:  # noqa: ANN401 - any setting
    value = from_environment(value)
    if isinstance(value, EnvVar):
        return value
    if isinstance(value, SecretStr):
        return MASK
    if isinstance(value, str) and value and (secret or redact_text(value) != value):
        return MASK
    return value


def _secret(value: SecretStr | str) -> SecretStr:
    secret = value if isinstance(value, SecretStr) else SecretStr(value)
    remember_secret(secret.get_secret_value())
    return secret
