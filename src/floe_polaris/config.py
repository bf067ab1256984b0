"""The configuration of a connection to a REST catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from floe_core.schemas import (
    AccessDelegation,
    CatalogConfig,
    CircuitBreakerConfig,
    FrozenModel,
    RetryConfig,
    TimeoutConfig,
)
from floe_core.schemas.base import Text
from floe_core.schemas.catalog import POLARIS_DEFAULT_SCOPE
from floe_polaris.transport.origin import origin_of

if TYPE_CHECKING:
    from collections.abc import Mapping

CA_BUNDLE_OPTION = "ca_bundle"
REALM_HEADER_OPTION = "realm_header"
REALM_HEADER = "Polaris-Realm"
_HEADER_PREFIX = "header."


class PolarisCatalogConfig(FrozenModel):
    """A connection to Polaris, or to any catalog that implements the Iceberg REST specification.

    Authenticates with ``client_id`` and ``client_secret``, with an existing ``token``, or not at all.
    """

    uri: Text = Field(description="Address of the REST catalog, such as https://polaris.example.com/api/catalog.")
    warehouse: Text | None = Field(default=None, description="Warehouse name; for Polaris, the catalog's name.")
    name: Text = Field(default="polaris", description="Name of the catalog in messages and in Spark SQL.")
    realm: Text | None = Field(default=None, description="Realm, for a Polaris server with several realms.")
    realm_header: Text = Field(default=REALM_HEADER, description="Name of the realm header.")
    client_id: Text | None = Field(default=None, description="OAuth2 client id.")
    client_secret: SecretStr | None = Field(default=None, description="OAuth2 client secret.")
    token: SecretStr | None = Field(default=None, description="Existing bearer token.")
    scope: Text = Field(default=POLARIS_DEFAULT_SCOPE, description="OAuth2 scope.")
    token_endpoint: Text | None = Field(
        default=None, description="Token endpoint; default: the catalog's own. May be on another host."
    )
    token_refresh_enabled: bool = Field(default=True, description="Fetch a new token before the old one expires.")
    access_delegation: AccessDelegation = Field(
        default=AccessDelegation.VENDED_CREDENTIALS, description="Whether the catalog vends storage credentials."
    )
    ca_bundle: Text | None = Field(
        default=None, description="File with the certificate authorities to trust instead of the default ones."
    )
    properties: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Storage and client properties, as PyIceberg names them."
    )
    timeouts: TimeoutConfig = Field(default_factory=TimeoutConfig, description="Deadlines for every call.")
    retry: RetryConfig = Field(default_factory=RetryConfig, description="Retry policy for catalog calls.")
    circuit_breaker: CircuitBreakerConfig = Field(
        default_factory=CircuitBreakerConfig, description="When to stop calling a failing catalog."
    )

    @field_validator("uri", "token_endpoint")
    @classmethod
    def _validate_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            msg = "use an address such as https://polaris.example.com/api/catalog"
            raise ValueError(msg)
        if parts.username or parts.password:
            msg = "an address must not contain a user or a password; use client_id and client_secret, or token"
            raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _validate_authentication(self) -> Self:
        if (self.client_id is None) != (self.client_secret is None):
            missing = "client_secret" if self.client_secret is None else "client_id"
            msg = f"OAuth2 needs both client_id and client_secret; {missing} is not set"
            raise ValueError(msg)
        if self.token is not None and self.client_id is not None:
            msg = "set either token, or client_id and client_secret"
            raise ValueError(msg)
        return self

    @property
    def origin(self) -> str:
        """Scheme, host and port that credentials may be sent to."""
        return origin_of(self.uri)

    def realm_headers(self, url: str) -> dict[str, str]:
        """Return the realm header, if the address is on the catalog's own server."""
        return {self.realm_header: self.realm} if self.realm and origin_of(url) == self.origin else {}

    @property
    def token_uri(self) -> str:
        """The address of the token endpoint."""
        return self.token_endpoint or f"{self.uri.rstrip('/')}/v1/oauth/tokens"

    @classmethod
    def from_catalog_config(cls, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None) -> Self:
        """Build the configuration from the ``catalog`` section of floe.yaml and resolve its secrets.

        Raises:
            SecretReferenceError: A secret reference cannot be resolved.
            ValidationError: A setting required by a REST catalog is missing or invalid.
        """
        credentials = config.credentials
        options = dict(config.options)
        header = str(options.pop(REALM_HEADER_OPTION, REALM_HEADER))
        # A realm given as a plain header must also reach the token endpoint.
        given = [options.pop(key) for key in list(options) if key.lower() == f"{_HEADER_PREFIX}{header}".lower()]
        return cls.model_validate(
            {
                "uri": config.uri or "",
                "warehouse": config.warehouse,
                "name": config.name,
                "realm": config.realm or next(iter(given), None),
                "realm_header": header,
                "client_id": credentials.client_id,
                "client_secret": credentials.client_secret.resolve() if credentials.client_secret else None,
                "token": credentials.token.resolve() if credentials.token else None,
                "scope": credentials.scope,
                "token_endpoint": credentials.token_endpoint,
                "token_refresh_enabled": credentials.token_refresh_enabled,
                "access_delegation": config.access_delegation,
                "ca_bundle": options.pop(CA_BUNDLE_OPTION, None),
                "properties": {**(file_io or {}), **options},
                "timeouts": config.timeouts,
                "retry": config.retry,
                "circuit_breaker": config.circuit_breaker,
            }
        )
