"""Connection settings of an IO manager."""

from __future__ import annotations

from typing import Any

from dagster import EnvVar
from pydantic import Field, SecretStr, field_validator

from floe_core.schemas import FrozenModel
from floe_dagster.io.withheld import from_environment, value_of
from floe_iceberg.models import WriteMode


class _SecretOfVariable(SecretStr):
    """A secret that is read on use, so that definitions can be loaded without the variable."""

    def __init__(self, variable: EnvVar) -> None:
        super().__init__("")
        self._variable = variable

    def get_secret_value(self) -> str:
        """Read the variable.

        Raises:
            SecretReferenceError: The variable is not set.
        """
        return value_of(self._variable)


class IcebergIOManagerConfig(FrozenModel):
    """Settings of an IO manager; secrets are masked, and can be an ``EnvVar``."""

    catalog_uri: str = Field(description="Address of the REST catalog.")
    warehouse: str = Field(description="Warehouse name.")
    client_id: str | None = Field(default=None, description="OAuth2 client id.")
    client_secret: SecretStr | None = Field(default=None, description="OAuth2 client secret.")
    token: SecretStr | None = Field(default=None, description="Existing bearer token.")
    default_namespace: str = Field(default="public", description="Namespace of assets whose key has one part.")
    write_mode: WriteMode = Field(default=WriteMode.APPEND, description="Write mode of assets that do not set one.")
    schema_evolution_enabled: bool = Field(default=True, description="Whether the schema of tables follows the data.")
    auto_create_tables: bool = Field(default=True, description="Whether the first write creates a missing table.")
    partition_column: str | dict[str, str] | None = Field(
        default=None, description="Column that partition keys refer to, or columns by dimension."
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Storage and client properties of PyIceberg."
    )
    column_projection_enabled: bool = Field(
        default=True, description="Whether inputs load only the columns that they specify."
    )

    @field_validator("client_secret", "token", mode="before")
    @classmethod
    def _read_later(cls, value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
        given = from_environment(value)
        return _SecretOfVariable(given) if isinstance(given, EnvVar) else given

    @field_validator("catalog_properties", mode="before")
    @classmethod
    def _read_now(cls, value: Any) -> Any:  # noqa: ANN401 - a before-validator sees raw input
        if not isinstance(value, dict):
            return value
        return {key: value_of(from_environment(one)) for key, one in value.items()}
