"""The sql catalog keeps the contract of catalog plugins."""

from __future__ import annotations

import pytest

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig
from floe_testing.plugins import CatalogPluginContract


@pytest.mark.req("PL-01", "PL-02", "PL-06")
class TestSqlCatalogOnSqlite(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return SqlCatalogPlugin

    @pytest.fixture
    def catalog_config(self, tmp_path):
        return CatalogConfig(name="lake", warehouse=f"file://{tmp_path}/warehouse")
