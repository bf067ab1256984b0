"""The ``hive`` catalog plugin: tables registered in a Hive metastore."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_catalogs.warehouse import spark_catalog, warehouse_of
from floe_core.errors import ConfigProblem, ConfigurationError, MissingDependencyError
from floe_core.plugins import BuiltInPlugin, CatalogCapabilities
from floe_core.telemetry import traced
from floe_iceberg.catalog.plugin import PyIcebergCatalogPlugin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from floe_core.schemas import CatalogConfig, TimeoutConfig

_DEFAULTS = {
    # Matches what Spark's Hive client writes; only Hive reads the columns in the metastore.
    "hive.hive2-compatible": "true",
    # A commit holds its lock for a fraction of a second, so waiting writers poll often.
    "lock-check-max-wait-time": "0.5",
    "lock-check-retries": "20",
}


class HiveCatalogPlugin(BuiltInPlugin, PyIcebergCatalogPlugin):
    """Registers tables in a Hive metastore shared by PyIceberg and Spark."""

    def __init__(self) -> None:
        """Start unconnected."""
        self._timeouts: TimeoutConfig | None = None

    @property
    def name(self) -> str:
        """``hive``."""
        return "hive"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Hive metastore"

    @property
    def capabilities(self) -> CatalogCapabilities:
        """A namespace is a database, so nested namespaces are not supported."""
        return CatalogCapabilities(
            nested_namespaces=False, warehouse_is_location=True, resilience=("retry", "circuit_breaker")
        )

    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> Catalog:
        """Connect to the metastore.

        Raises:
            ConfigurationError: The URI does not start with ``thrift://``, or no warehouse is configured.
            MissingDependencyError: The extra ``hive`` is not installed.
            CatalogUnavailableError: The metastore is unreachable.
            DeadlineExceededError: The metastore accepts connections but does not respond.
        """
        del project_root
        uri = _addresses(config)
        try:
            from floe_catalogs.hive.metastore import RetriedHiveCatalog
            from floe_catalogs.retried import policy_for
        except ImportError as err:
            what = "The hive catalog"
            raise MissingDependencyError(what, extra="hive") from err
        warehouse = warehouse_of(config, catalog=self.name)
        properties = {**_DEFAULTS, **(file_io or {}), **config.options, "warehouse": warehouse, "uri": uri}
        with traced("iceberg.connect", catalog=config.name, catalog_type=self.name, uri=uri):
            catalog = RetriedHiveCatalog(config.name, config.timeouts, **properties)
            catalog.retry_policy = policy_for(config, address=uri)
            catalog.list_namespaces()
        self._catalog, self._timeouts = catalog, config.timeouts
        return catalog

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration for the same metastore."""
        del properties
        prefix = f"spark.sql.catalog.{catalog_name}"
        known = self.catalog.properties
        conf = {**spark_catalog(prefix, "hive", known["warehouse"]), f"{prefix}.uri": known["uri"]}
        if self._timeouts is not None:
            hadoop = f"{prefix}.hadoop.hive.metastore"
            conf[f"{hadoop}.client.socket.timeout"] = f"{max(1, round(self._timeouts.read_seconds))}s"
            conf[f"{hadoop}.connect.retries"] = "1"
        return conf


def _addresses(config: CatalogConfig) -> str:
    addresses = [address.strip() for address in (config.uri or "").split(",")]
    if all(address.startswith("thrift://") for address in addresses):
        return ",".join(addresses)
    problem = ConfigProblem(
        "the hive catalog needs the metastore's address",
        path="catalog.uri",
        fix="Set thrift://host:9083, or several such addresses separated by commas.",
    )
    msg = "Invalid Hive metastore address."
    raise ConfigurationError(msg, problems=[problem])
