"""An embedded catalog with a DuckDB data plane; fails every test that imports PySpark."""

from __future__ import annotations

import sys

import pytest
from floe_catalogs.sql.plugin import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig, ComputeConfig

from floe_duckdb import DuckDBComputePlugin


@pytest.fixture(autouse=True)
def _without_spark():
    yield
    assert "pyspark" not in sys.modules


@pytest.fixture
def catalog(tmp_path):
    config = CatalogConfig(type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    opened = SqlCatalogPlugin().connect(config, project_root=tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def data_plane(catalog, tmp_path):
    config = ComputeConfig(type="duckdb", conf={"memory_limit": "512MB"})
    plane = DuckDBComputePlugin().data_plane(
        config, catalog_name=catalog.name, conf={}, project_root=tmp_path, catalog=catalog
    )
    yield plane
    plane.close()
