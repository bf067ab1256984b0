"""Tables written by Iceberg's Java library, created once; tests change copies of their files."""

from __future__ import annotations

import pytest

from floe_testing.faults.planting import Planted
from floe_testing.java.samples import build
from floe_testing.spark import embedded_catalog


@pytest.fixture(scope="session")
def java_tables(spark_plane_for, tmp_path_factory):
    """Give the metadata file of a table of each format version."""
    catalog = embedded_catalog(tmp_path_factory.mktemp("java"))
    plane = spark_plane_for(catalog)
    catalog.create_namespace("db")
    for version in (1, 2, 3):
        build(plane.session, version)
    locations = {version: catalog.load_table(f"db.v{version}").metadata_location for version in (1, 2, 3)}
    yield locations
    plane.close()
    catalog.close()


@pytest.fixture
def java_table(java_tables):
    """Give one of them, to be changed without a trace."""
    return lambda version: Planted(java_tables[version])
