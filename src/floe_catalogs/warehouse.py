"""What every catalog here needs to know: where files lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_core.errors import ConfigProblem, ConfigurationError

if TYPE_CHECKING:
    from floe_core.schemas import CatalogConfig

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


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
