"""S32: deletes, overwrites by filter and scans follow SQL for nulls, NaN and literals of other types."""

from __future__ import annotations

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from floe_core.errors import InvalidScanError
from floe_iceberg import WriteMode

pytest_plugins = ["floe_testing.table_fixtures"]

INTS = pa.table({"id": pa.array([1, 2, None, 3], pa.int32())})
NUMBERS = pa.table({"x": pa.array([0.0, -0.0, 1.5, math.nan, None])})
PRICES = pa.table({"price": pa.array([Decimal("1.00"), Decimal("1.01"), None], pa.decimal128(10, 2))})


def on(*specs):
    """Run on every partitioning on the embedded catalog, and on the last of them over REST."""
    cases = [pytest.param("embedded", spec, id=f"embedded-{spec}") for spec in specs]
    cases.append(pytest.param("rest", specs[-1], id=f"rest-{specs[-1]}", marks=pytest.mark.live))
    return pytest.mark.parametrize(("site", "spec"), cases, indirect=["site"])


OF_INTS = on([], ["truncate(2, id)"], ["bucket(2, id)"], ["id"])


def left(manager, name, column):
    return sorted(map(repr, manager.scan(name)[column].to_pylist()))


@OF_INTS
@pytest.mark.parametrize(
    ("row_filter", "kept"),
    [
        ("id not in (1, 2)", [1, 2, None]),
        ("not (id in (1, 2))", [1, 2, None]),
        ("id != 1", [1, None]),
        ("not id = 1", [1, None]),
        ("not (id = 1 or id is null)", [1, None]),
        ("id not in (1, null)", [1, 2, None, 3]),
        ("not (id > 1)", [2, None, 3]),
        ("id is null or id > 2", [1, 2]),
        ("id is not null", [None]),
        ("id not between 1 and 2", [1, 2, None]),
    ],
)
def test_s32_a_delete_and_an_overwrite_keep_rows_for_which_the_filter_is_null(site, manager, spec, row_filter, kept):
    for operation in ("delete", "overwrite"):
        name = site.name(operation)
        manager.create_table(name, INTS.schema, partition_spec=spec)
        manager.append(name, INTS)
        rest = pa.table({"id": manager.scan(name, row_filter=row_filter)["id"]})
        assert sorted(map(repr, rest["id"].to_pylist())) == sorted(map(repr, _without(INTS["id"].to_pylist(), kept)))
        if operation == "delete":
            manager.delete(name, row_filter)
        else:
            manager.write_data(name, INTS.slice(0, 0), WriteMode.OVERWRITE, overwrite_filter=row_filter)
        assert left(manager, name, "id") == sorted(map(repr, kept))


def _without(values, kept):
    values = list(values)
    for value in kept:
        values.remove(value)
    return values


@OF_INTS
@pytest.mark.parametrize(
    ("row_filter", "found"),
    [
        ("id = 1.5", []),
        ("id > 1.5", [2, 3]),
        ("id >= 1.5", [2, 3]),
        ("id < 2.5", [1, 2]),
        ("id != 1.5", [1, 2, 3]),
        ("id in (1.0, 2.5)", [1]),
        ("id not in (1.0, 2.5)", [2, 3]),
        ("id between 0.5 and 2.5", [1, 2]),
        ("id > 3000000000", []),
        ("id < 3000000000", [1, 2, 3]),
        ("id != 3000000000", [1, 2, 3]),
        ("id > -99999999999999999999", [1, 2, 3]),
        ("id = 2e0", [2]),
    ],
)
def test_s32_a_number_is_compared_exactly_with_an_integer_column(manager, name, spec, row_filter, found):
    manager.create_table(name, INTS.schema, partition_spec=spec)
    manager.append(name, INTS)
    assert sorted(manager.scan(name, row_filter=row_filter)["id"].to_pylist()) == found
    manager.delete(name, row_filter)
    assert left(manager, name, "id") == sorted(map(repr, _without([1, 2, None, 3], found)))


@on([], ["x"])
@pytest.mark.parametrize(
    ("row_filter", "found"),
    [
        ("x is nan", [math.nan]),
        ("x is not nan", [0.0, -0.0, 1.5, None]),
        ("x != 1.5", [0.0, -0.0, math.nan]),
        ("x = 0", [0.0, -0.0]),
        ("x = -0.0", [0.0, -0.0]),
        ("x in (0.0, 1.5)", [0.0, -0.0, 1.5]),
        ("x not in (0.0, 1.5)", [math.nan]),
        ("x > 1", [1.5, math.nan]),
        ("x >= 0", [0.0, -0.0, 1.5, math.nan]),
        ("x <= 0", [0.0, -0.0]),
        ("not (x <= 1)", [1.5, math.nan]),
    ],
)
def test_s32_nan_is_the_greatest_number_and_the_zeros_are_equal(manager, name, spec, row_filter, found):
    manager.create_table(name, NUMBERS.schema, partition_spec=spec)
    for number in range(NUMBERS.num_rows):  # one file per value, to test the use of statistics
        manager.append(name, NUMBERS.slice(number, 1))
    assert sorted(map(repr, manager.scan(name, row_filter=row_filter)["x"].to_pylist())) == sorted(map(repr, found))


@on([], ["price"], ["bucket(2, price)"], ["truncate(10, price)"])
@pytest.mark.parametrize(
    ("row_filter", "found"),
    [
        ("price = 1.005", []),
        ("price > 1.005", ["1.01"]),
        ("price < 1.005", ["1.00"]),
        ("price != 1.005", ["1.00", "1.01"]),
        ("price = 1", ["1.00"]),
        ("price < 1e30", ["1.00", "1.01"]),
    ],
)
def test_s32_a_decimal_of_another_scale_is_compared_exactly(manager, name, spec, row_filter, found):
    manager.create_table(name, PRICES.schema, partition_spec=spec)
    manager.append(name, PRICES)
    assert sorted(str(v) for v in manager.scan(name, row_filter=row_filter)["price"].to_pylist()) == found


def test_s32_a_float_column_is_compared_as_double(manager, name):
    rows = pa.table({"f": pa.array([0.1, 0.5], pa.float32())})
    manager.create_table(name, rows.schema)
    manager.append(name, rows)
    assert manager.scan(name, row_filter="f = 0.1").num_rows == 0
    assert manager.scan(name, row_filter="f > 0.1").num_rows == 2
    assert manager.scan(name, row_filter="f = 0.5").num_rows == 1


@pytest.mark.parametrize(
    ("kind", "row_filter", "hint"),
    [
        (pa.int64(), "c = 'five'", "a number, without quotes"),
        (pa.string(), "c = 5", "single quotes"),
        (pa.float64(), "c = 'NaN'", "is nan"),
        (pa.bool_(), "c = 1", "true or false"),
        (pa.date32(), "c = '2024-01-01T00:00:00'", "such as '2026-01-31'"),
        (pa.timestamp("us"), "c = '2024-01-01T00:00:00Z'", "without a time zone"),
        (pa.timestamp("us", "UTC"), "c = '2024-01-01T00:00:00'", "with a time zone"),
        (pa.timestamp("us", "UTC"), "c > '2024-01-01'", "with a time zone"),
        (pa.binary(), "c = 'abc'", "X'00ff'"),
        (pa.list_(pa.int64()), "c = 5", "is null"),
        (pa.int64(), "c like 'a%'", "LIKE requires a string column"),
        (pa.int64(), "c", "Compare it"),
    ],
)
def test_s32_a_value_of_another_type_is_refused_with_the_way_to_write_it(manager, name, kind, row_filter, hint):
    manager.create_table(name, pa.schema([("c", kind)]))
    for use in (manager.scan, manager.delete):
        with pytest.raises(InvalidScanError, match="column 'c'") as caught:
            use(name, row_filter=row_filter)
        assert hint in str(caught.value)


def test_s32_the_whole_partition_goes_by_metadata_only_when_every_row_matches(manager, name, opened_files):
    rows = pa.table({"p": pa.array([1, 1, None, None], pa.int32()), "v": pa.array([1, None, 1, None], pa.int32())})
    manager.create_table(name, rows.schema, partition_spec=["p"])
    manager.append(name, rows)
    with opened_files(".parquet") as opened:
        manager.delete(name, "p = 1 and p is not null")
    assert opened == []
    manager.delete(name, "p is null and v != 1")
    assert manager.scan(name)["v"].to_pylist() == [1, None]
