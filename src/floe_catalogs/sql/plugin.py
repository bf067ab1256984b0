"""The ``sql`` catalog plugin: an embedded catalog in a SQLite file, or a shared catalog in PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from floe_catalogs.warehouse import spark_catalog, warehouse_of
from floe_core.plugins import BuiltInPlugin, CatalogCapabilities
from floe_core.telemetry import traced
from floe_iceberg.catalog.plugin import PyIcebergCatalogPlugin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog

    from floe_catalogs.sql.database import Database
    from floe_core.schemas import CatalogConfig


class SqlCatalogPlugin(BuiltInPlugin, PyIcebergCatalogPlugin):
    """Registers tables in a database shared by PyIceberg and Spark's JDBC catalog."""

    def __init__(self) -> None:
        """Start unconnected."""
        self._database: Database | None = None

    def fresh(self) -> Self:
        """Return an unconnected plugin with the same configuration."""
        plugin = super().fresh()
        plugin._database = None  # noqa: SLF001 - our own copy
        return plugin

    @property
    def name(self) -> str:
        """``sql``."""
        return "sql"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "Embedded catalog in a SQLite file, or shared through PostgreSQL"

    @property
    def capabilities(self) -> CatalogCapabilities:
        """Everything except vended credentials."""
        return CatalogCapabilities(warehouse_is_location=True, resilience=("retry", "circuit_breaker"))

    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> Catalog:
        """Open the database; create a SQLite file and the catalog's tables if they are missing.

        Raises:
            ConfigurationError: The URI does not name a SQLite or PostgreSQL database, or no warehouse is configured.
            MissingDependencyError: The URI names a PostgreSQL database, and the extra ``postgres`` is not installed.
            CatalogConnectionError: The database is unreachable.
            CatalogAuthenticationError: The database rejected the user or the password.
        """
        # Imported when connecting: listing plugins and compiling a project must not require a database library.
        from floe_catalogs.retried import policy_for
        from floe_catalogs.sql.catalog import RetriedSqlCatalog
        from floe_catalogs.sql.database import Database

        database = Database.from_config(config, project_root=project_root or Path.cwd())
        warehouse = warehouse_of(config, catalog=self.name)
        properties = {**(file_io or {}), **config.options, "warehouse": warehouse, "uri": database.display_url}
        with traced("iceberg.connect", catalog=config.name, catalog_type=self.name, uri=database.display_url):
            policy = policy_for(config, address=database.display_url)
            catalog = policy.call(RetriedSqlCatalog, config.name, database, **properties)
        catalog.retry_policy = policy
        self.adopt(catalog, database)
        return catalog

    def adopt(self, catalog: Catalog, database: Database) -> Self:
        """Use a catalog that is already connected, and its database."""
        self._catalog, self._database = catalog, database
        return self

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration for the same database, including its password."""
        del properties
        prefix = f"spark.sql.catalog.{catalog_name}"
        catalog, database = self.catalog, self._database
        conf = {
            **spark_catalog(prefix, "jdbc", catalog.properties["warehouse"]),
            f"{prefix}.jdbc.schema-version": "V1",
        }
        if database is not None:
            conf |= {f"{prefix}.{key}": value for key, value in database.jdbc_properties().items()}
        return conf

    def get_spark_packages(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        """Return the Maven package of the database's JDBC driver."""
        del properties
        return (self._database.jdbc_package,) if self._database is not None else ()
