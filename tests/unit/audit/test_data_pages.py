"""Page checksums reveal flipped bytes in data pages that floe wrote."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_audit.files.parquet_footer import footer_length
from floe_iceberg import IcebergTableManager
from floe_testing.faults.planting import Planted


@pytest.fixture
def location(tmp_path):
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    manager = IcebergTableManager(catalog)
    manager.create_namespace("bronze")
    values = np.random.default_rng(1).random(3000)
    rows = pa.table({"id": np.arange(3000), "f": values, "s": [f"name {i * 7919 % 1000}" for i in range(3000)]})
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    yield manager.load_table("bronze.t").metadata_location
    catalog.close()


def test_a_wrong_byte_in_a_page_is_found(location):
    path = Planted(location).file()[0]
    content = Planted(location).read(path)
    pages = len(content) - 8 - footer_length(content)
    dice = random.Random(3)  # noqa: S311 - a seed, so that a failure can be repeated
    found = 0
    for _ in range(60):
        damaged = bytearray(content)
        damaged[dice.randrange(4, pages)] ^= dice.randrange(1, 256)
        table = Planted(location)
        table.replace(path, bytes(damaged))
        found += not table.audit().ok
    # The checksums do not cover the headers of pages.
    assert found >= 58
