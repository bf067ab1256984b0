"""The ``json-file`` secrets plugin: reads secrets from a JSON file that only its owner may access."""

from __future__ import annotations

import json
from pathlib import Path

from floe_core.errors import ConfigurationError
from floe_core.plugins import HealthState, HealthStatus, SecretsPlugin
from pydantic import BaseModel, ConfigDict, Field, SecretStr, TypeAdapter

_SECRETS = TypeAdapter(dict[str, SecretStr])
_OTHERS = 0o077


class JsonFileSettings(BaseModel):
    """Configuration of the plugin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path = Field(description="Path of the file, which contains a JSON object with string values.")


class JsonFileSecretsPlugin(SecretsPlugin):
    """Looks up secrets in a file that is read on startup."""

    name = "json-file"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "Secrets from a JSON file"

    def __init__(self) -> None:
        """Create a plugin without secrets."""
        self._path: Path | None = None
        self._secrets: dict[str, SecretStr] = {}

    def get_config_schema(self) -> type[JsonFileSettings]:
        """Return the configuration model."""
        return JsonFileSettings

    def configure(self, config: BaseModel) -> None:
        """Apply the validated configuration."""
        self._path = JsonFileSettings.model_validate(config.model_dump()).path

    def startup(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: No file is configured, other users may read it, or its content is invalid.
        """
        if self._path is None:
            msg = "No file is configured for the secrets plugin 'json-file'."
            raise ConfigurationError(msg, hint="Set vault.options.path.")
        if self._path.stat().st_mode & _OTHERS:
            msg = f"Other users can read the secrets in {self._path}."
            raise ConfigurationError(msg, hint=f"Run: chmod 600 {self._path}")
        try:
            self._secrets = _SECRETS.validate_python(json.loads(self._path.read_text(encoding="utf-8")))
        except ValueError:
            # The cause is dropped because its message contains the invalid input.
            msg = f"{self._path} must contain a JSON object with string values."
            raise ConfigurationError(msg) from None

    def shutdown(self) -> None:
        """Drop the secrets from memory."""
        self._secrets = {}

    def health_check(self) -> HealthStatus:
        """Report whether any secrets are loaded."""
        state = HealthState.HEALTHY if self._secrets else HealthState.DEGRADED
        return HealthStatus(state, f"{len(self._secrets)} secrets")

    def get_secret(self, name: str) -> SecretStr | None:
        """Return a secret; None if the file does not contain it."""
        return self._secrets.get(name)
