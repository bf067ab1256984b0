"""Conversion of a file's columns to a schema."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, LongType, NestedField, TimestamptzType, UUIDType

from floe_iceberg.read.rows import Projection

FILE = Schema(NestedField(1, "id", LongType()))
ROWS = pa.record_batch({"id": [1, 2]})
IDENTIFIER = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")


@pytest.mark.parametrize(
    ("kind", "stored", "value"),
    [
        ("boolean", True, True),
        ("int", 5, 5),
        ("double", 1.5, 1.5),
        ("decimal(10,2)", "14.20", Decimal("14.20")),
        ("date", "2024-01-01", dt.date(2024, 1, 1)),
        ("time", "10:00:00.000001", dt.time(10, 0, 0, 1)),
        ("timestamptz", "1969-12-31T23:59:59+00:00", dt.datetime(1969, 12, 31, 23, 59, 59, tzinfo=dt.UTC)),
        ("string", "x", "x"),
        ("uuid", str(IDENTIFIER), IDENTIFIER),
        ("fixed[2]", "00ff", b"\x00\xff"),
        ("binary", "00ff", b"\x00\xff"),
    ],
)
@pytest.mark.parametrize("required", [True, False])
def test_a_column_that_a_file_lacks_has_its_initial_default(kind, stored, value, required):
    field = {"id": 2, "name": "c", "type": kind, "required": required, "initial-default": stored}
    schema = Schema(*FILE.fields, NestedField.model_validate(field))
    assert Projection(FILE).of(schema, ROWS).column(1).to_pylist() == [value, value]


@pytest.mark.parametrize(
    ("kind", "partition", "value"),
    [
        (DateType(), -1, dt.date(1969, 12, 31)),
        (TimestamptzType(), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
        (UUIDType(), IDENTIFIER, IDENTIFIER),
    ],
)
def test_a_column_that_a_file_lacks_has_its_partitions_value(kind, partition, value):
    schema = Schema(*FILE.fields, NestedField(2, "c", kind))
    found = Projection(FILE, projected_missing_fields={2: partition}).of(schema, ROWS)
    assert found.column(1).to_pylist() == [value, value]
