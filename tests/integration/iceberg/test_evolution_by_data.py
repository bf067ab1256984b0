"""Schema evolution by writes: new columns are added and types widened."""

from __future__ import annotations

import decimal

import pyarrow as pa
import pytest

from floe_core.errors import SchemaEvolutionError
from floe_iceberg import IcebergTableManager
from floe_testing.embedded_tables import open_catalog

NAME = "bronze.t"


@pytest.fixture
def manager(tmp_path):
    catalog = open_catalog(tmp_path)
    yield IcebergTableManager(catalog)
    catalog.close()


WRITES = {
    "append": lambda m, rows: m.append(NAME, rows),
    "append of a stream": lambda m, rows: m.append(NAME, rows.to_reader()),
    "overwrite": lambda m, rows: m.overwrite(NAME, rows, overwrite_filter=f"id = {rows['id'][0]}"),
    "upsert": lambda m, rows: m.upsert(NAME, rows, keys=["id"]),
}
WIDER = {
    "int to long": (pa.int32(), 1, pa.int64(), 2**40, "long"),
    "float to double": (pa.float32(), 0.5, pa.float64(), 1e300, "double"),
    "decimal of more digits": (
        pa.decimal128(4, 2),
        decimal.Decimal("12.34"),
        pa.decimal128(12, 2),
        decimal.Decimal("1234567890.12"),
        "decimal(12, 2)",
    ),
}


def rows(number, column, value, kind):
    return pa.table({"id": pa.array([number], pa.int64()), column: pa.array([value], kind)})


def found(manager, column):
    return {row["id"]: row[column] for row in manager.scan(NAME).to_pylist()}


@pytest.mark.req("FR-020", "RD-03")
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("widening", WIDER)
def test_a_wider_type_of_the_data_widens_the_column(manager, widening, write):
    narrow, small, wide, large, name = WIDER[widening]
    manager.create_table(NAME, rows(1, "value", small, narrow).schema)
    manager.append(NAME, rows(1, "value", small, narrow))
    before = manager.load_table(NAME).schema().find_field("value")
    WRITES[write](manager, rows(2, "value", large, wide))
    after = manager.load_table(NAME).schema().find_field("value")
    assert (after.field_id, str(after.field_type)) == (before.field_id, name)
    assert found(manager, "value") == {1: small, 2: large}
    # Narrower data needs no change.
    WRITES[write](manager, rows(3, "value", small, narrow))
    assert found(manager, "value") == {1: small, 2: large, 3: small}


@pytest.mark.req("FR-020", "RD-03")
@pytest.mark.parametrize("write", WRITES)
def test_a_new_column_of_the_data_is_added_and_empty_in_the_rows_before(manager, write):
    manager.create_table(NAME, pa.schema([("id", pa.int64())]))
    manager.append(NAME, pa.table({"id": [1]}))
    WRITES[write](manager, rows(2, "city", "Rome", pa.string()))
    assert manager.load_table(NAME).schema().column_names == ["id", "city"]
    assert found(manager, "city") == {1: None, 2: "Rome"}


@pytest.mark.req("FR-020", "RD-03")
@pytest.mark.parametrize("write", WRITES)
def test_a_type_that_holds_fewer_values_is_refused_and_nothing_is_written(manager, write):
    manager.create_table(NAME, rows(1, "value", 1, pa.int64()).schema)
    first = manager.append(NAME, rows(1, "value", 1, pa.int64()))
    with pytest.raises(SchemaEvolutionError) as caught:
        WRITES[write](manager, rows(2, "value", "two", pa.string()))
    assert [str(one) for one in caught.value.mismatches] == [
        "value: table has long, data has string (incompatible types)"
    ]
    assert manager.get_current_snapshot(NAME).snapshot_id == first.snapshot_id
