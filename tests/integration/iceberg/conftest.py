from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import IcebergTableManager
from floe_testing.audit import assert_audited


@pytest.fixture
def manager(tmp_path):
    """A manager of an embedded catalog, whose tables are audited when the test is over."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    manager = IcebergTableManager(catalog)
    manager.create_namespace("bronze")
    yield manager
    for name in manager.list_tables("bronze"):
        assert_audited(manager, f"bronze.{name}")
    catalog.close()
