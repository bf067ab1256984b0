"""Nulls of a PySpark frame in required columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import InvalidDataError
from floe_iceberg import IcebergTableManager

pytestmark = [pytest.mark.spark, pytest.mark.req("RD-03")]


def test_a_frame_with_nulls_makes_its_required_column_optional(spark_tables):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("id", "x", "y")])
    manager.create_table("bronze.t", schema)
    session = spark_tables.plane.session
    frame = session.createDataFrame([(1, None, 1), (2, 2, 2)], "id long, x long, y long")
    with pytest.raises(InvalidDataError):
        manager.append("bronze.t", frame, evolve_schema=False)
    with pytest.raises(InvalidDataError):
        manager.append("bronze.t", frame, keep_required=["x"])
    assert manager.load_table("bronze.t").schema().find_field("x").required
    manager.append("bronze.t", frame)
    manager.upsert("bronze.t", session.createDataFrame([(2, 3, None)], "id long, x long, y long"), keys=["id"])
    fields = manager.load_table("bronze.t").schema().fields
    assert {field.name: field.required for field in fields} == {"id": True, "x": False, "y": False}
    assert manager.scan("bronze.t").sort_by("id").to_pylist() == [
        {"id": 1, "x": None, "y": 1},
        {"id": 2, "x": 3, "y": None},
    ]
    assert len(manager.list_snapshots("bronze.t")) == 2
