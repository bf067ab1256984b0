"""The ``sql`` plugin passes the catalog contract on PostgreSQL."""

from __future__ import annotations

import pytest

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig
from floe_testing.plugins import CatalogPluginContract


@pytest.mark.req("PL-06")
class TestSqlCatalogOnPostgres(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return SqlCatalogPlugin

    @pytest.fixture
    def catalog_config(self, postgres_catalog):
        return CatalogConfig(name="lake", **postgres_catalog)

    @pytest.fixture
    def catalog_secrets(self, postgres_server):
        return (postgres_server["password"],)
