"""Counts and bounds in data files: no row may be outside of the bounds."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)

LONG = "z" * 5000


def append(manager, rows, properties=None, **options):
    manager.create_table("bronze.t", rows.schema, properties=properties or {}, **options)
    manager.append("bronze.t", rows)


def only_file(manager):
    (task,) = manager.load_table("bronze.t").scan().plan_files()
    return task.file


def bounds(manager, column):
    field = manager.load_table("bronze.t").schema().find_field(column)
    file = only_file(manager)
    low, high = file.lower_bounds.get(field.field_id), file.upper_bounds.get(field.field_id)
    return tuple(None if bound is None else from_bytes(field.field_type, bound) for bound in (low, high))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()])
def test_a_row_group_with_very_long_values_is_within_the_bounds(manager, kind):
    long = LONG if pa.types.is_string(kind) or pa.types.is_large_string(kind) else LONG.encode()
    small, other = (long[:0] + type(long)(text if isinstance(long, str) else text.encode()) for text in "am")
    rows = pa.table({"id": pa.array([small, other, long, other], kind), "n": [1, 2, 3, 4]})
    append(manager, rows, {"write.parquet.row-group-limit": "2"})
    low, high = bounds(manager, "id")
    assert low == small
    assert high > long
    assert len(high) == 16
    changed = pa.table({"id": pa.array([long], kind), "n": [30]})
    manager.upsert("bronze.t", changed, keys=["id"])
    assert sorted(row["n"] for row in manager.scan("bronze.t").to_pylist()) == [1, 2, 4, 30]
    if isinstance(long, str):
        assert manager.scan("bronze.t", row_filter=f"id >= '{long}'").num_rows == 1
        manager.delete("bronze.t", f"id = '{long}'")
        assert manager.scan("bronze.t").num_rows == 3


def test_text_just_as_long_as_parquet_keeps_is_within_the_bounds(manager):
    texts = ["m" * 4096, "a" * 4097, "b", "q" * 4095, None, "é" * 2049]
    append(manager, pa.table({"s": texts}), {"write.metadata.metrics.default": "full"})
    assert bounds(manager, "s") == (min(filter(None, texts)), max(filter(None, texts)))


@pytest.mark.parametrize(
    ("texts", "upper"),
    [
        (["a" * 17], "a" * 15 + "b"),
        (["a" * 16], "a" * 16),
        (["\U0010ffff" * 17], None),
        (["a" + "\U0010ffff" * 16], "b"),
        (["\ud7ff" * 17], "\ud7ff" * 15 + "\ue000"),
        (["🧊" * 16], "🧊" * 16),
        (["é" * 20], "é" * 15 + "ê"),
    ],
)
def test_truncated_text_is_rounded_up_by_code_points(manager, texts, upper):
    append(manager, pa.table({"s": texts}))
    assert bounds(manager, "s") == (texts[0][:16], upper)


@pytest.mark.parametrize(
    ("value", "upper"),
    [
        (b"a" * 17, b"a" * 15 + b"b"),
        (b"\xff" * 17, None),
        (b"\xff" * 16, b"\xff" * 16),
        (b"a" + b"\xff" * 20, b"b"),
    ],
)
def test_truncated_bytes_are_rounded_up(manager, value, upper):
    append(manager, pa.table({"b": [value]}))
    assert bounds(manager, "b") == (value[:16], upper)


def test_nan_is_counted_and_in_no_bounds(manager):
    inner = pa.struct([("f", pa.float64())])
    rows = pa.table(
        {
            "some": [1.0, math.nan, None, 3.0],
            "all": pa.array([math.nan, None, math.nan, math.nan], pa.float32()),
            "s": pa.array([{"f": math.nan}, None, {"f": None}, {"f": -1.5}], inner),
            "zeros": [0.0, -0.0, None, 0.0],
        }
    )
    append(manager, rows, {"write.parquet.row-group-limit": "2"})
    table, file = manager.load_table("bronze.t"), only_file(manager)
    ids = {name: table.schema().find_field(name).field_id for name in ["some", "all", "s.f", "zeros"]}
    assert {name: file.nan_value_counts[key] for name, key in ids.items()} == {
        "some": 1, "all": 3, "s.f": 1, "zeros": 0,
    }  # fmt: skip
    assert bounds(manager, "some") == (1.0, 3.0)
    assert bounds(manager, "all") == (None, None)
    assert bounds(manager, "s.f") == (-1.5, -1.5)
    assert struct.pack("<d", -0.0) == file.lower_bounds[ids["zeros"]]
    assert struct.pack("<d", 0.0) == file.upper_bounds[ids["zeros"]]


def test_every_type_has_its_bounds_in_icebergs_serialization(manager):
    identifiers = sorted(uuid.UUID(int=number) for number in (2**127 + 5, 7))
    rows = pa.table(
        {
            "b": [False, True, None],
            "d9": pa.array([Decimal("-12345.67"), Decimal("0.01"), None], pa.decimal128(9, 2)),
            "d18": pa.array([Decimal(-(2**50)), Decimal(127), None], pa.decimal128(18, 0)),
            "d38": pa.array([Decimal("-" + "9" * 38), Decimal("9" * 38), None], pa.decimal128(38, 0)),
            "edge": pa.array([Decimal(-128), Decimal(128), None], pa.decimal128(30, 0)),
            "u": pa.array([value.bytes for value in identifiers] + [None], pa.uuid()),
            "f": pa.array([b"\x00\x01", b"\xff\x00", None], pa.binary(2)),
            "date": [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
            "ts": pa.array([-1, 2**60, None], pa.timestamp("us")),
            "tz": pa.array([-(2**61), 0, None], pa.timestamp("us", tz="UTC")),
            "time": pa.array([0, 86_399_999_999, None], pa.time64("us")),
            "i": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
            "l": [-(2**63), 2**63 - 1, None],
        }
    )
    append(manager, rows, {"write.parquet.row-group-limit": "1"})
    file = only_file(manager)
    for number, name in enumerate(rows.column_names, start=1):
        if name in {"ts", "tz"}:
            found = tuple(struct.unpack("<q", bound[number])[0] for bound in (file.lower_bounds, file.upper_bounds))
            assert found == tuple(rows[name].cast(pa.int64()).to_pylist()[:2])
        elif name == "u":
            # Engines do not agree on the order.
            assert bounds(manager, name) == (None, None)
            assert file.null_value_counts[number] == 1
        elif name == "date":
            days = rows[name].cast(pa.int32()).to_pylist()
            assert bounds(manager, name) == (days[0], days[1])
        elif name == "time":
            assert bounds(manager, name) == (0, 86_399_999_999)
        else:
            assert bounds(manager, name) == tuple(rows[name].to_pylist()[:2])
        assert (file.value_counts[number], file.null_value_counts[number]) == (3, 1)
    # The shortest two's complement of the value.
    assert (file.lower_bounds[5], file.upper_bounds[5]) == (b"\x80", b"\x00\x80")
    assert file.split_offsets == sorted(file.split_offsets)
    assert len(file.split_offsets) == 3
    assert set(file.column_sizes) == set(range(1, 14))


def test_repeated_fields_have_sizes_and_nothing_else(manager):
    rows = pa.table(
        {
            "l": [[1.0, math.nan], None],
            "m": pa.array([[("k", "v")], None], pa.map_(pa.string(), pa.string())),
            "s": [{"a": "x", "b": [1]}, None],
        }
    )
    append(manager, rows)
    schema, file = manager.load_table("bronze.t").schema(), only_file(manager)
    inside = {schema.find_field(name).field_id for name in ["l.element", "m.key", "m.value", "s.b.element"]}
    nested = schema.find_field("s.a").field_id
    assert set(file.column_sizes) == {*inside, nested}
    assert set(file.value_counts) == set(file.null_value_counts) == set(file.lower_bounds) == {nested}
    assert file.value_counts[nested] == 2
    assert file.null_value_counts[nested] == 1


@pytest.mark.parametrize(
    ("properties", "counted", "bounded"),
    [
        ({}, {1, 2, 3}, {1: b"abcdefghijklmnop", 2: b"abcdefghijklmnop", 3: struct.pack("<d", 1.0)}),
        ({"write.metadata.metrics.default": "none"}, set(), {}),
        ({"write.metadata.metrics.default": "counts"}, {1, 2, 3}, {}),
        ({"write.metadata.metrics.default": "nonsense"}, {1, 2, 3}, {1: b"abcdefghijklmnop"}),
        ({"write.metadata.metrics.default": "truncate(0)"}, {1, 2, 3}, {1: b"abcdefghijklmnop"}),
        (
            {
                "write.metadata.metrics.default": "NONE",
                "write.metadata.metrics.column.a": "full",
                "write.metadata.metrics.column.b": " Truncate(3) ",
            },
            {1, 2},
            {1: b"abcdefghijklmnopqrstuvw", 2: b"abc"},
        ),
        ({"write.metadata.metrics.max-inferred-column-defaults": "2"}, {1, 2}, {1: b"abcdefghijklmnop"}),
        ({"write.metadata.metrics.max-inferred-column-defaults": "3"}, {1, 2, 3}, {1: b"abcdefghijklmnop"}),
    ],
)
def test_metrics_modes_decide_what_is_kept(manager, properties, counted, bounded):
    text = "abcdefghijklmnopqrstuvw"
    append(manager, pa.table({"a": [text], "b": [text], "c": [1.0]}), properties)
    file = only_file(manager)
    assert set(file.value_counts) == set(file.null_value_counts) == counted
    assert set(file.nan_value_counts) == counted & {3}
    assert {key: file.lower_bounds[key] for key in bounded} == bounded
    assert bool(file.lower_bounds) == bool(bounded)
    assert set(file.column_sizes) == {1, 2, 3}


def test_a_sort_column_keeps_bounds_where_others_keep_none(manager):
    properties = {"write.metadata.metrics.default": "counts"}
    append(manager, pa.table({"a": [1], "b": [2]}), properties, sort_order=["b"])
    assert set(only_file(manager).lower_bounds) == {2}


def test_a_table_of_many_columns_keeps_metrics_of_the_first_hundred(manager):
    rows = pa.table({f"c{number}": [number] for number in range(103)})
    append(manager, rows, {"write.metadata.metrics.column.c102": "full"})
    assert set(only_file(manager).lower_bounds) == {*range(1, 101), 103}


def test_pyiceberg_still_leaves_out_row_groups_without_statistics(manager):
    """When this fails, PyIceberg has caught up with the first of the faults ``column_metrics`` goes round."""
    append(manager, pa.table({"s": ["a", "b", LONG, "c"]}), {"write.parquet.row-group-limit": "2"})
    table = manager.load_table("bronze.t")
    stock = data_file_statistics_from_parquet_metadata(
        pq.read_metadata(only_file(manager).file_path.removeprefix("file://")),
        compute_statistics_plan(table.schema(), table.properties),
        parquet_path_to_id_mapping(table.schema()),
    )
    assert stock.to_serialized_dict()["upper_bounds"] == {1: b"b"}
