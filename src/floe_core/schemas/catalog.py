"""The ``catalog`` section."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from floe_core.schemas.base import FrozenModel, Setting, Text
from floe_core.schemas.resilience import CircuitBreakerConfig, RetryConfig, TimeoutConfig
from floe_core.secrets import SecretReference

POLARIS_DEFAULT_SCOPE = "PRINCIPAL_ROLE:ALL"


class AccessDelegation(StrEnum):
    """How a REST catalog delegates storage access."""

    VENDED_CREDENTIALS = "vended-credentials"
    NONE = "none"


class CatalogCredentials(FrozenModel):
    """How to authenticate against the catalog; secrets by reference only."""

    client_id: Text | None = Field(default=None, description="OAuth2 client id.")
    client_secret: SecretReference | None = Field(default=None, description="OAuth2 client secret.")
    token: SecretReference | None = Field(default=None, description="Existing bearer token.")
    username: Text | None = Field(default=None, description="Database user of a PostgreSQL catalog.")
    password: SecretReference | None = Field(default=None, description="Database password of a PostgreSQL catalog.")
    scope: Text = Field(default=POLARIS_DEFAULT_SCOPE, description="OAuth2 scope.")
    token_endpoint: Text | None = Field(default=None, description="Token endpoint; default: the catalog's own.")
    token_refresh_enabled: bool = Field(default=True, description="Fetch a new token before the old one expires.")


class CatalogConfig(FrozenModel):
    """The catalog of the tables and its connection."""

    type: Text = Field(default="sql", description="Catalog plugin: sql, polaris, rest, hive, glue or a third party's.")
    name: Text = Field(
        default="floe", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name in Spark SQL: letters, digits and _."
    )
    uri: Text | None = Field(default=None, description="REST or database address; default: .floe/catalog.db.")
    warehouse: Text | None = Field(
        default=None, description="Warehouse name (REST) or location (sql); default: the storage section's."
    )
    realm: Text | None = Field(default=None, description="Realm, for a Polaris server with several realms.")
    credentials: CatalogCredentials = Field(default_factory=CatalogCredentials, description="Authentication.")
    access_delegation: AccessDelegation = Field(
        default=AccessDelegation.VENDED_CREDENTIALS, description="How a REST catalog delegates storage access."
    )
    options: dict[Text, Setting] = Field(default_factory=dict, description="Extra properties for the catalog client.")
    retry: RetryConfig = Field(
        default_factory=RetryConfig,
        description="Retry policy for catalog calls; glue uses only max_attempts.",
    )
    circuit_breaker: CircuitBreakerConfig = Field(
        default_factory=CircuitBreakerConfig,
        description="When to stop calling a failing catalog; not used by glue.",
    )
    timeouts: TimeoutConfig = Field(default_factory=TimeoutConfig, description="Deadlines for catalog calls.")
