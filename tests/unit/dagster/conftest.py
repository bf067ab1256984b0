from __future__ import annotations

import dagster as dg
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_dagster import IcebergIOManager
from floe_iceberg import IcebergTableManager


@pytest.fixture
def catalog(tmp_path):
    """Give an embedded catalog without any namespace."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    yield catalog
    catalog.close()


@pytest.fixture
def tables(catalog):
    """Give a table manager on it."""
    return IcebergTableManager(catalog)


@pytest.fixture
def io_manager(tables):
    """Give an IO manager on it."""
    return IcebergIOManager(table_manager=tables)


@pytest.fixture
def materialize(io_manager):
    """Materialise assets, by default with that IO manager."""

    def run(*assets, io=None, **options):
        resources = {"io_manager": io or io_manager, **options.pop("resources", {})}
        return dg.materialize(list(assets), resources=resources, **options)

    return run


@pytest.fixture
def metadata_of():
    """Give the metadata of an asset's last materialisation as plain values."""

    def read(result, asset):
        [event] = result.asset_materializations_for_node(asset)
        return {key: value.value for key, value in event.metadata.items()}

    return read
