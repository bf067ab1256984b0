"""Conversion of Arrow columns to types that Spark supports."""

from __future__ import annotations

from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from floe_core.errors import CapabilityError, InvalidDataError
from floe_spark.plane.arrow_input import arrow_type, spark_table


def target(**kinds):
    return spark.StructType([spark.StructField(name, kind) for name, kind in kinds.items()])


def converted(column, kind):
    table = spark_table(pa.table({"c": column}), target(c=kind))
    table.validate(full=True)
    return table.column("c")


@pytest.mark.parametrize("slicing", [slice(None), slice(1, None), slice(2, 3)])
@pytest.mark.parametrize("form", ["extension", "binary"])
def test_uuids_become_text(form, slicing):
    ids = [uuid4(), None, UUID(int=0), uuid4()]
    stored = pa.array([item and item.bytes for item in ids], pa.binary(16))
    column = pa.ExtensionArray.from_storage(pa.uuid(), stored) if form == "extension" else stored
    expected = [item and str(item) for item in ids][slicing]
    sliced = column[slicing.start or 0 : slicing.stop or len(ids)]
    assert converted(sliced, spark.StringType()).to_pylist() == expected


def test_uuids_without_rows_or_without_values():
    assert converted(pa.array([], pa.binary(16)), spark.StringType()).to_pylist() == []
    assert converted(pa.array([None], pa.binary(16)), spark.StringType()).to_pylist() == [None]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["a", None], None, []], pa.list_(pa.string_view())),
        pa.array([["a", None], None, []], pa.large_list(pa.large_string())),
        pa.array([["a", None], None, []], pa.large_list(pa.string())).slice(0),
    ],
)
def test_lists_of_any_text(column):
    assert converted(column, spark.ArrayType(spark.StringType())).to_pylist() == [["a", None], None, []]
    assert converted(column.slice(1), spark.ArrayType(spark.StringType())).to_pylist() == [None, []]


def test_structs_gain_the_fields_they_lack_and_keep_nulls():
    kind = target(x=spark.LongType(), label=spark.StringType())
    column = pa.array([{"x": 1}, None], pa.struct([("x", pa.int32())]))
    assert converted(column, kind).to_pylist() == [{"x": 1, "label": None}, None]


def test_maps_convert_keys_and_values():
    column = pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int8()))
    assert converted(column, spark.MapType(spark.StringType(), spark.LongType())).to_pylist() == [[("a", 1)], None, []]


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        (pa.array([2**40]), spark.IntegerType()),
        (pa.array(["x"]), spark.LongType()),
        (pa.array([1], pa.time64("us")), spark.LongType()),
        (pa.array([{"y": 1}]), spark.StructType([spark.StructField("x", spark.LongType())])),
        (pa.array([1_001], pa.timestamp("ns")), spark.TimestampNTZType()),
    ],
    ids=["overflow", "text as number", "time", "unknown field", "nanoseconds"],
)
def test_what_would_lose_something_is_refused_by_column(column, kind):
    if pa.types.is_time(column.type):
        kind = spark.BooleanType()
    with pytest.raises(InvalidDataError, match="'c'"):
        converted(column, kind)


def test_a_column_the_table_lacks_is_named():
    with pytest.raises(InvalidDataError, match="extra"):
        spark_table(pa.table({"extra": [1]}), target(c=spark.LongType()))


def test_a_type_without_arrow_form_is_refused():
    with pytest.raises(CapabilityError):
        arrow_type(spark.VariantType())
