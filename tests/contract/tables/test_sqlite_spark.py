"""The table manager on the embedded catalog, on Spark."""

from __future__ import annotations

import pytest

from floe_iceberg import Engine, IcebergTableManager
from floe_testing.tables import NAMESPACE, TableManagerContract


@pytest.mark.spark
class TestSqliteSpark(TableManagerContract):
    engine = Engine.SPARK

    @pytest.fixture
    def manager(self, spark_tables):
        manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
        manager.create_namespace(NAMESPACE)
        return manager
