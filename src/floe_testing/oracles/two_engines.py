"""A table shared by two engines: a catalog with a manager and a Spark session on the same tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from floe_testing.java.table import JavaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from floe_catalogs.sql.catalog import SharedSqlCatalog
    from floe_iceberg import IcebergTableManager
    from floe_spark.session.settings import SparkSettings

CATALOG = "floe"
NAMESPACE = "n"


@dataclass(frozen=True)
class TwoEngines:
    """A production catalog, accessed by floe and by plain Spark.

    Attributes:
        catalog: The embedded catalog, opened by its plugin.
        manager: A manager with a Spark data plane.
        session: A session of the shared Spark, with the catalog registered as ``floe``.
        root: Folder of the catalog and the warehouse.
    """

    catalog: SharedSqlCatalog
    manager: IcebergTableManager
    session: SparkSession
    root: Path

    def sql(self, text: str) -> list[dict[str, Any]]:
        """Run one Spark SQL statement."""
        return [row.asDict(recursive=True) for row in self.session.sql(text).collect()]

    def java(self, table: str) -> JavaTable:
        """Return a table of the namespace for row deltas through Java."""
        return JavaTable(self.session, f"{CATALOG}.{table}")


def open_two_engines(settings: SparkSettings, root: Path) -> tuple[TwoEngines, Callable[[], None]]:
    """Open a catalog in a folder for both engines; return it with a function that closes it."""
    from floe_catalogs.sql import SqlCatalogPlugin
    from floe_core.schemas import CatalogConfig
    from floe_iceberg import IcebergTableManager
    from floe_spark.plane.plane import SparkDataPlane

    plugin = SqlCatalogPlugin()
    config = CatalogConfig(type="sql", name=CATALOG, uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/w")
    catalog: Any = plugin.connect(config, file_io={}, project_root=root)
    plane = SparkDataPlane(settings, catalog_name=CATALOG, conf=plugin.get_spark_conf(CATALOG, {}))
    manager = IcebergTableManager(catalog, compute=plane)
    manager.create_namespace(NAMESPACE)

    def close() -> None:
        manager.close()
        plane.close()
        catalog.engine.dispose()

    return TwoEngines(catalog, manager, plane.session, root), close


@pytest.fixture
def two_engines(
    spark_engine: Any,  # noqa: ARG001 - keeps Spark running
    spark_settings: SparkSettings,
    tmp_path: Path,
) -> Iterator[TwoEngines]:
    """Provide a new catalog for both engines."""
    engines, close = open_two_engines(spark_settings, tmp_path)
    yield engines
    close()
