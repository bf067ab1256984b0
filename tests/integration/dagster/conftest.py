from __future__ import annotations

import itertools

import dagster as dg
import pytest

from floe_core.schemas import CompiledArtifacts
from floe_dagster import IcebergIOManager
from floe_iceberg import IcebergTableManager

_numbers = itertools.count()


@pytest.fixture
def new_project(tmp_path):
    """Give compiled projects on an embedded catalog of their own."""

    def create(root=tmp_path, **sections):
        settings = {
            "name": "shop",
            "floe_version": "0.1.0",
            # One driver serves all projects and identifies their catalogs by name.
            "catalog": {"name": f"lake_{next(_numbers)}"},
            "compute": {"master": "local[2]", "driver_memory": "1g"},
            **sections,
        }
        return CompiledArtifacts.model_validate(settings).rooted_at(root)

    return create


@pytest.fixture
def tables(spark_tables):
    """Give a table manager with Spark behind it."""
    return IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)


@pytest.fixture
def io_manager(tables):
    """Give an IO manager on it."""
    return IcebergIOManager(table_manager=tables)


@pytest.fixture
def materialize(io_manager):
    """Materialise assets with that IO manager."""

    def run(*assets, **options):
        return dg.materialize(list(assets), resources={"io_manager": io_manager}, **options)

    return run


@pytest.fixture
def metadata_of():
    """Give the metadata of an asset's materialisation as plain values."""

    def read(result, asset):
        [event] = result.asset_materializations_for_node(asset)
        return {key: value.value for key, value in event.metadata.items()}

    return read
