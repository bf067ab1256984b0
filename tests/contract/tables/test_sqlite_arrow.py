"""The table manager on the embedded catalog, in process."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import Engine, IcebergTableManager
from floe_testing.tables import NAMESPACE, TableManagerContract


class TestSqliteArrow(TableManagerContract):
    engine = Engine.ARROW

    @pytest.fixture
    def manager(self, tmp_path):
        catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
        manager = IcebergTableManager(catalog)
        manager.create_namespace(NAMESPACE)
        yield manager
        catalog.close()
