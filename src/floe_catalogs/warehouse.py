"""The warehouse of a catalog, and the Spark configuration shared by all catalogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import ConfigProblem, ConfigurationError

if TYPE_CHECKING:
    from floe_core.schemas import CatalogConfig

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def spark_catalog(prefix: str, kind: str, warehouse: str) -> dict[str, str]:
    """Return the Spark configuration that these catalogs share."""
    return {
        prefix: SPARK_CATALOG,
        f"{prefix}.type": kind,
        f"{prefix}.warehouse": warehouse,
        # A caching catalog would not see PyIceberg's commits.
        f"{prefix}.cache-enabled": "false",
    }


def warehouse_of(config: CatalogConfig, *, catalog: str) -> str:
    """Return the warehouse's location without a trailing slash.

    Raises:
        ConfigurationError: No warehouse is configured.
    """
    if config.warehouse:
        return config.warehouse.rstrip("/")
    problem = ConfigProblem(
        f"the {catalog} catalog needs a warehouse location",
        path="catalog.warehouse",
        fix="Set a location such as s3://bucket/warehouse, or configure the storage section.",
    )
    msg = f"No warehouse location is configured for the {catalog} catalog."
    raise ConfigurationError(msg, problems=[problem])
