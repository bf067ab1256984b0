"""Conversion of rows to a schema."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from floe_core.errors import InvalidDataError
from floe_iceberg.formats.cast import fit
from floe_iceberg.table.schema import compare, iceberg_schema

POINT = pa.struct([("x", pa.int64()), ("y", pa.int64())])
SCHEMA = iceberg_schema(
    pa.schema([("id", pa.int64()), ("p", POINT), ("l", pa.list_(POINT)), ("m", pa.map_(pa.string(), POINT))])
)


def test_columns_come_in_the_schemas_order_with_their_ids():
    rows = fit(pa.table({"p": [{"x": 1, "y": 2}], "id": [1]}), SCHEMA)
    assert rows.column_names == ["id", "p", "l", "m"]
    assert [field.metadata[b"PARQUET:field_id"] for field in rows.schema] == [b"1", b"2", b"3", b"4"]
    assert rows.schema.field("p").type.field("x").metadata[b"PARQUET:field_id"] == b"5"
    assert rows.to_pylist() == [{"id": 1, "p": {"x": 1, "y": 2}, "l": None, "m": None}]


def test_nested_fields_are_found_by_name_and_absent_ones_are_null():
    flipped = pa.struct([("y", pa.int32())])
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "p": pa.array([{"y": 2}, None, {"y": None}], flipped),
            "l": pa.array([[{"y": 1}, None], [], None], pa.list_(flipped)),
            "m": pa.array([[("k", {"y": 5})], None, []], pa.map_(pa.string(), flipped)),
        }
    )
    expected = [
        {"id": 1, "p": {"x": None, "y": 2}, "l": [{"x": None, "y": 1}, None], "m": [("k", {"x": None, "y": 5})]},
        {"id": 2, "p": None, "l": [], "m": None},
        {"id": 3, "p": {"x": None, "y": None}, "l": None, "m": []},
    ]
    assert fit(rows, SCHEMA).to_pylist() == expected
    assert fit(rows.slice(1), SCHEMA).to_pylist() == expected[1:]


def test_uint64_goes_into_a_long_as_long_as_it_fits():
    schema = iceberg_schema(pa.schema([("n", pa.int64())]))
    assert compare(schema, pa.schema([("n", pa.uint64())])).mismatches == ()
    assert fit(pa.table({"n": pa.array([7], pa.uint64())}), schema)["n"].to_pylist() == [7]
    with pytest.raises(InvalidDataError, match="'n'"):
        fit(pa.table({"n": pa.array([2**64 - 1], pa.uint64())}), schema)


def test_sixteen_bytes_are_a_uuid():
    schema = iceberg_schema(pa.schema([("u", pa.uuid())]))
    value = uuid.uuid4()
    rows = pa.table({"u": pa.array([value.bytes], pa.binary(16))})
    assert compare(schema, rows.schema).mismatches == ()
    assert fit(rows, schema)["u"].to_pylist() == [value]


def test_binary_goes_into_a_fixed_column_if_each_value_has_its_length():
    schema = iceberg_schema(pa.schema([("f", pa.binary(2)), ("p", pa.struct([("g", pa.binary(1))]))]))
    rows = pa.table({"f": [b"ab", None], "p": [{"g": b"c"}, {"g": None}]})
    assert compare(schema, rows.schema).mismatches == ()
    assert fit(rows, schema).to_pylist() == rows.to_pylist()
    for wrong in ({"f": [b"abc"]}, {"f": [b""]}, {"p": [{"g": b"cd"}]}):
        with pytest.raises(InvalidDataError, match="widths must match"):
            fit(pa.table(wrong), schema)


def test_a_column_of_nulls_takes_the_tables_type():
    rows = pa.table({"id": pa.nulls(2), "p": pa.nulls(2)})
    assert compare(SCHEMA, rows.schema).changes == ()
    assert fit(rows, SCHEMA)["id"].to_pylist() == [None, None]


def test_nested_differences_are_named_by_their_full_path():
    other = pa.struct([("x", pa.string()), ("z", pa.int64())])
    difference = compare(SCHEMA, pa.schema([("p", other), ("l", pa.list_(other)), ("m", pa.map_(pa.string(), other))]))
    assert [mismatch.column for mismatch in difference.mismatches] == ["p.x", "l.element.x", "m.value.x"]
    assert [change.column for change in difference.changes] == ["p.z", "l.element.z", "m.value.z"]


INNER = pa.struct([pa.field("x", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        (INNER, [{"x": None}], [None, {"x": 1}]),
        (pa.list_(pa.field("element", pa.int64(), nullable=False)), [[1, None]], [None, [], [1]]),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [[("k", None)]], [None, [], [("k", 1)]]),
        (pa.list_(INNER), [[{"x": None}]], [None, [None, {"x": 1}]]),
        (
            pa.struct([("l", pa.list_(pa.field("element", INNER, nullable=False)))]),
            [{"l": [None]}],
            [None, {"l": None}],
        ),
    ],
)
def test_null_where_a_nested_field_is_required_is_refused(kind, bad, good):
    schema = iceberg_schema(pa.schema([("c", kind)]))

    def optional(dtype):
        if isinstance(dtype, pa.MapType):
            return pa.map_(pa.string(), dtype.item_type)
        if isinstance(dtype, pa.ListType):
            return pa.list_(optional(dtype.value_type))
        return pa.struct([(f.name, optional(f.type)) for f in dtype]) if isinstance(dtype, pa.StructType) else dtype

    with pytest.raises(InvalidDataError, match="'c"):
        fit(pa.table({"c": pa.array(bad, optional(kind))}), schema)
    rows = pa.table({"c": pa.array([*bad, *good], optional(kind))}).slice(len(bad))
    assert fit(rows, schema)["c"].to_pylist() == good
