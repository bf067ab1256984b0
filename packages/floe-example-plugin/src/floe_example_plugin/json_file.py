"""The ``json-file`` secrets plugin: secrets from one JSON file that only its owner may read."""

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

    path: Path = Field(description="The file: one object, with a text for each name.")


class JsonFileSecretsPlugin(SecretsPlugin):
    """Looks secrets up in a file that is read when the plugin starts."""

    name = "json-file"
    version = "0.1.0"
    floe_api_version = "1.0"
    description = "Secrets from a JSON file"

    def __init__(self) -> None:
        """Start without secrets."""
        self._path: Path | None = None
        self._secrets: dict[str, SecretStr] = {}

    def get_config_schema(self) -> type[JsonFileSettings]:
        """Return the model of the configuration."""
        return JsonFileSettings

    def configure(self, config: BaseModel) -> None:
        """Take the validated configuration."""
        self._path = JsonFileSettings.model_validate(config.model_dump()).path

    def startup(self) -> None:
        """Read the file.

        Raises:
            ConfigurationError: No file is configured, others may read it, or it holds something else.
        """
        if self._path is None:
            msg = "The secrets plugin 'json-file' has no file."
            raise ConfigurationError(msg, hint="Write vault.options.path.")
        if self._path.stat().st_mode & _OTHERS:
            msg = f"Others may read the secrets in {self._path}."
            raise ConfigurationError(msg, hint=f"Run: chmod 600 {self._path}")
        try:
            self._secrets = _SECRETS.validate_python(json.loads(self._path.read_text(encoding="utf-8")))
        except ValueError:
            # The cause is dropped: it prints what it could not read.
            msg = f"{self._path} does not hold one object with a text for each name."
            raise ConfigurationError(msg) from None

    def shutdown(self) -> None:
        """Forget the secrets."""
        self._secrets = {}

    def health_check(self) -> HealthStatus:
        """Tell whether there is anything to look up."""
        state = HealthState.HEALTHY if self._secrets else HealthState.DEGRADED
        return HealthStatus(state, f"{len(self._secrets)} secrets")

    def get_secret(self, name: str) -> SecretStr | None:
        """Return the secret; None when the file has none of that name."""
        return self._secrets.get(name)
