"""The warehouse of a catalog, and the part of Spark's configuration that all catalogs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import ConfigProblem, ConfigurationError

if TYPE_CHECKING:
    from floe_core.schemas import CatalogConfig

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def spark_catalog(prefix: str, kind: str, warehouse: str) -> dict[str, str]:
    """Return the part of Spark's configuration that is the same for all of these catalogs."""
    return {
        prefix: SPARK_CATALOG,
        f"{prefix}.type": kind,
        f"{prefix}.warehouse": warehouse,
        # A catalog with a cache does not see what PyIceberg commits.
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
    msg = f"The {catalog} catalog has no warehouse location."
    raise ConfigurationError(msg, problems=[problem])
