"""What every catalog here needs: where files lie, and how Spark opens the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import ConfigProblem, ConfigurationError

if TYPE_CHECKING:
    from floe_core.schemas import CatalogConfig

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def spark_catalog(prefix: str, kind: str, warehouse: str) -> dict[str, str]:
    """Return what Spark's configuration of any of these catalogs begins with."""
    return {
        prefix: SPARK_CATALOG,
        f"{prefix}.type": kind,
        f"{prefix}.warehouse": warehouse,
        # A caching catalog misses what PyIceberg commits.
        f"{prefix}.cache-enabled": "false",
    }


def warehouse_of(config: CatalogConfig, *, catalog: str) -> str:
    """Return the warehouse's location, without a slash at its end.

    Raises:
        ConfigurationError: There is none.
    """
    if config.warehouse:
        return config.warehouse.rstrip("/")
    problem = ConfigProblem(
        f"the {catalog} catalog needs a warehouse location",
        path="catalog.warehouse",
        fix="Write a location such as s3://bucket/warehouse, or configure the storage section.",
    )
    msg = f"The {catalog} catalog does not know where files lie."
    raise ConfigurationError(msg, problems=[problem])
