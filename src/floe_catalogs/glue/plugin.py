"""The ``glue`` catalog plugin: tables registered in the AWS Glue data catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_catalogs.warehouse import spark_catalog, warehouse_of
from floe_core.errors import MissingDependencyError
from floe_core.plugins import BuiltInPlugin, CatalogCapabilities
from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
from floe_core.telemetry import traced
from floe_iceberg.catalog.plugin import PyIcebergCatalogPlugin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyiceberg.catalog import Catalog

    from floe_core.schemas import CatalogConfig

HADOOP_FILE_IO = "org.apache.iceberg.hadoop.HadoopFileIO"

# Settings shared by both clients. Access keys are omitted: Spark's Glue client does not accept them as properties.
_SHARED = ("glue.endpoint", "glue.id", "glue.skip-archive")


class GlueCatalogPlugin(BuiltInPlugin, PyIcebergCatalogPlugin):
    """Registers tables in AWS Glue; PyIceberg and Spark use AWS's default credential chain."""

    @property
    def name(self) -> str:
        """``glue``."""
        return "glue"

    @property
    def description(self) -> str:
        """A one-line description."""
        return "AWS Glue data catalog"

    @property
    def capabilities(self) -> CatalogCapabilities:
        """A namespace is a database, so nested namespaces are not supported."""
        # The AWS client chooses its own delays between attempts.
        return CatalogCapabilities(
            nested_namespaces=False, warehouse_is_location=True, resilience=("retry.max_attempts",)
        )

    def connect(
        self, config: CatalogConfig, *, file_io: Mapping[str, str] | None = None, project_root: Path | None = None
    ) -> Catalog:
        """Connect to Glue; set ``catalog.uri`` for an endpoint other than Amazon's.

        Raises:
            ConfigurationError: No warehouse or no region is configured.
            MissingDependencyError: The extra ``glue`` is not installed.
            CatalogAuthenticationError: No credentials were found, or Glue rejected them.
            CatalogAuthorizationError: The credentials may not list databases.
            CatalogUnavailableError: Glue is unreachable.
        """
        del project_root
        try:
            from floe_catalogs.glue.client import SharedGlueCatalog, glue_client
        except ImportError as err:
            what = "The glue catalog"
            raise MissingDependencyError(what, extra="glue") from err
        warehouse = warehouse_of(config, catalog=self.name)
        properties = {**(file_io or {}), **config.options, "warehouse": warehouse}
        if config.uri:
            properties["glue.endpoint"] = config.uri
        if region := properties.get("client.region") or properties.get("s3.region"):
            properties["client.region"] = region
        with traced("iceberg.connect", catalog=config.name, catalog_type=self.name, uri=config.uri):
            catalog = SharedGlueCatalog(config.name, glue_client(config, properties), **properties)
            catalog.list_namespaces()
        self._catalog = catalog
        return catalog

    def get_spark_conf(self, catalog_name: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the Spark configuration for the same Glue catalog."""
        del properties
        prefix = f"spark.sql.catalog.{catalog_name}"
        known = self.catalog.properties
        conf = spark_catalog(prefix, "glue", known["warehouse"])
        shared = [key for key in known if key in _SHARED or (key.startswith("client.") and not _is_key(key))]
        conf |= {f"{prefix}.{key}": known[key] for key in shared}
        if not known["warehouse"].startswith("s3"):
            conf[f"{prefix}.io-impl"] = HADOOP_FILE_IO
        return conf

    def get_spark_packages(self, properties: Mapping[str, str]) -> tuple[str, ...]:
        """Return Iceberg's AWS bundle, which contains the Glue client."""
        del properties
        return (ICEBERG_AWS_BUNDLE,)


def _is_key(name: str) -> bool:
    return name in {"client.access-key-id", "client.secret-access-key", "client.session-token"}
