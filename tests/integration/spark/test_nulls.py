"""Nulls in required columns, from PySpark frames."""

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


@pytest.mark.parametrize("kind", ["frame", "table", "stream"])
def test_a_refused_upsert_leaves_required_columns_as_they_are(spark_tables, kind):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    schema = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("id", "x")])
    name = f"bronze.refused_{kind}"
    manager.create_table(name, schema)
    manager.append(name, pa.table({"id": [1], "x": [1]}, schema=schema))
    rows = pa.table({"id": [2, None], "x": [2, 2]})
    data = {
        "frame": lambda: spark_tables.plane.session.createDataFrame([(2, None), (None, 2)], "id long, x long"),
        "table": lambda: rows,
        "stream": rows.to_reader,
    }[kind]()
    with pytest.raises(InvalidDataError, match="nulls in key columns"):
        manager.upsert(name, data, keys=["id"], engine="spark")
    assert [field.required for field in manager.load_table(name).schema().fields] == [True, True]
    assert manager.scan(name).to_pylist() == [{"id": 1, "x": 1}]
