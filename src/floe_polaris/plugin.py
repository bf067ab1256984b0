"""The catalog plugins ``polaris`` and ``rest``: one connection for PyIceberg and Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import ValidationError

from floe_core.errors import CatalogAuthorizationError, CatalogConnectionError, ConfigProblem, ConfigurationError
from floe_core.observing.redaction import redact_text
from floe_core.plugins import BuiltInPlugin, CatalogCapabilities, HealthState, HealthStatus
from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
from floe_iceberg.catalog.plugin import PyIcebergCatalogPlugin
from floe_polaris.client import PolarisCatalog, breaker_for, create_catalog
from floe_polaris.config import PolarisCatalogConfig
from floe_polaris.spark import spark_conf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from floe_core.retry import CircuitBreaker
    from floe_core.schemas import CatalogConfig

_NESSIE_PROPERTY = "nessie.is-nessie-catalog"
# Fields of the connection whose settings are elsewhere in floe.yaml.
_SETTINGS = {
    "client_id": "catalog.credentials.client_id",
    "client_secret": "catalog.credentials.client_secret",
    "token": "catalog.credentials.token",
    "scope": "catalog.credentials.scope",
    "token_endpoint": "catalog.credentials.token_endpoint",
}


class RestCatalogPlugin(BuiltInPlugin, PyIcebergCatalogPlugin):
    """Connects to any catalog that implements the Iceberg REST specification."""

    def __init__(self) -> None:
        """Start unconnected."""
        self._config: PolarisCatalogConfig | None = None
        self._breaker: CircuitBreaker | None = None

    def fresh(self) -> Self:
        """Return an unconnected plugin with the same configuration."""
        plugin = super().fresh()
        plugin._config, plugin._breaker = None, None  # noqa: SLF001 - our own copy
        return plugin

    @property
    def name(self) -> str:
        """``rest``."""
        return "rest"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Any catalog that implements the Iceberg REST specification"

    @property
    def capabilities(self) -> CatalogCapabilities:
        """The server's capabilities; Nessie does not support Iceberg branches."""
        properties = self._catalog.properties if self._catalog is not None else {}
        return CatalogCapabilities(
            branches=properties.get(_NESSIE_PROPERTY) != "true",
            vended_credentials=True,
            resilience=("retry", "circuit_breaker"),
        )

    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> PolarisCatalog:
        """Connect with the ``catalog`` section and resolve its secrets.

        Raises:
            ConfigurationError: A setting required by a REST catalog is missing or invalid.
            CatalogAuthenticationError: The catalog rejected the credentials.
            WarehouseNotFoundError: The warehouse does not exist.
            CatalogConnectionError: The catalog is unreachable.
        """
        del project_root
        settings = self._connection_settings(config, file_io or {})
        if self._breaker is None or settings != self._config:
            self._breaker = breaker_for(settings)
        self._config = settings
        catalog = create_catalog(settings, breaker=self._breaker)
        self._catalog = catalog
        return catalog

    def adopt(self, catalog: PolarisCatalog) -> Self:
        """Use a catalog that is already connected."""
        self._catalog, self._config = catalog, catalog.config
        return self

    def _connection_settings(self, config: CatalogConfig, file_io: Mapping[str, str]) -> PolarisCatalogConfig:
        if config.uri is None:
            problem = ConfigProblem("the catalog's address is missing", path="catalog.uri", fix=self._uri_hint)
            msg = f"The {self.name} catalog needs an address."
            raise ConfigurationError(msg, problems=[problem])
        try:
            return PolarisCatalogConfig.from_catalog_config(config, file_io=file_io)
        except ValidationError as err:
            problems = [
                ConfigProblem(item["msg"], path=_setting_of(item["loc"]))
                for item in err.errors(include_input=False, include_url=False)
            ]
            msg = f"Invalid connection settings for the {self.name} catalog."
            raise ConfigurationError(msg, problems=problems) from None

    @property
    def _uri_hint(self) -> str:
        return "Set it to an address such as https://catalog.example.com"

    def health_check(self) -> HealthStatus:
        """Check the connection by listing namespaces; a denied request also proves that the catalog responds."""
        if self._catalog is not None:
            try:
                self._catalog.list_namespaces()
            except CatalogAuthorizationError:
                return HealthStatus(HealthState.HEALTHY, "responding, but this principal may not list all namespaces")
            except Exception as err:  # noqa: BLE001 - a health check reports any failure
                return HealthStatus(HealthState.UNHEALTHY, redact_text(f"{type(err).__name__}: {err}"))
            return HealthStatus(HealthState.HEALTHY)
        return super().health_check()

    def vend_credentials(self, table_path: str, operations: Sequence[str]) -> dict[str, str]:
        """Return short-lived storage credentials for one table.

        Raises:
            CapabilityError: The catalog does not vend credentials.
        """
        catalog = self.catalog
        if not isinstance(catalog, PolarisCatalog):
            msg = f"The catalog plugin '{self.name}' is connected to another kind of catalog."
            raise CatalogConnectionError(msg)
        return catalog.vend_credentials(table_path, operations)

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration for the same connection, including its credentials."""
        del properties
        config = self._config
        if config is None:
            msg = f"The catalog plugin '{self.name}' is not connected."
            raise CatalogConnectionError(msg, hint="Call connect(…) first.")
        return spark_conf(config, catalog_name)

    def get_spark_packages(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        """Return Iceberg's AWS bundle, whose S3 client uses the vended credentials."""
        del properties
        return (ICEBERG_AWS_BUNDLE,)


class PolarisCatalogPlugin(RestCatalogPlugin):
    """Connects to Apache Polaris."""

    @property
    def name(self) -> str:
        """``polaris``."""
        return "polaris"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Apache Polaris"

    @property
    def _uri_hint(self) -> str:
        return "Set it to an address such as https://polaris.example.com/api/catalog"

    def _connection_settings(self, config: CatalogConfig, file_io: Mapping[str, str]) -> PolarisCatalogConfig:
        if config.warehouse is None:
            problem = ConfigProblem(
                "the warehouse is missing", path="catalog.warehouse", fix="Set it to the name of the Polaris catalog."
            )
            msg = "Polaris needs a warehouse name."
            raise ConfigurationError(msg, problems=[problem])
        return super()._connection_settings(config, file_io)


def _setting_of(location: tuple[int | str, ...]) -> str:
    if not location:
        return "catalog.credentials"
    first, *rest = map(str, location)
    return ".".join([_SETTINGS.get(first, f"catalog.{first}"), *rest])
