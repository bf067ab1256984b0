"""S25: very wide tables, and extreme partition values."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pytest


def test_s25_ten_thousand_columns(open_manager):
    manager = open_manager()
    data = pa.table({f"c{number}": pa.array([number], pa.int32()) for number in range(10_000)})
    manager.create_table("bronze.wide", data.schema)
    manager.append("bronze.wide", data)
    found = manager.scan("bronze.wide", columns=["c0", "c9999"]).to_pylist()
    assert found == [{"c0": 0, "c9999": 9999}]


def test_s25_nan_and_infinity_as_partition_values(open_manager):
    manager = open_manager()
    manager.create_table("bronze.t", pa.schema([("x", pa.float64()), ("n", pa.int64())]), partition_spec=["x"])
    values = [math.nan, math.inf, -math.inf, 0.0, None]
    data = pa.table({"x": pa.array(values), "n": range(5)})
    manager.append("bronze.t", data)
    manager.append("bronze.t", data)
    assert manager.scan("bronze.t").num_rows == 10
    manager.overwrite_partitions("bronze.t", data)
    assert sorted(manager.scan("bronze.t")["n"].to_pylist()) == [0, 1, 2, 3, 4]
    assert manager.scan("bronze.t", row_filter="x is nan")["n"].to_pylist() == [0]


@pytest.mark.parametrize("term", ["ts", "day(ts)", "month(ts)", "year(ts)", "hour(ts)"])
def test_s25_dates_from_year_one_to_9999(open_manager, term):
    manager = open_manager()
    schema = pa.schema([("ts", pa.timestamp("us")), ("n", pa.int64())])
    manager.create_table("bronze.t", schema, partition_spec=[term])
    moments = [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23), None]  # noqa: DTZ001
    data = pa.table({"ts": moments, "n": range(4)}, schema=schema)
    manager.append("bronze.t", data)
    assert manager.scan("bronze.t").sort_by("n").to_pylist() == data.to_pylist()
    late = manager.scan("bronze.t", row_filter="ts > '9999-01-01T00:00:00'")
    assert late["n"].to_pylist() == [0]
    manager.overwrite_partitions("bronze.t", data.slice(0, 1))
    assert manager.scan("bronze.t").num_rows == 4


def test_s25_names_that_need_care(open_manager):
    manager = open_manager()
    names = ["a.b", "with space", "ünïcode", "1starts_with_digit", "select", "quote'd", "per%cent"]
    data = pa.table({name: [number] for number, name in enumerate(names)})
    manager.create_table("bronze.t", data.schema)
    manager.append("bronze.t", data)
    manager.append("bronze.t", data)
    assert manager.scan("bronze.t").to_pylist() == data.to_pylist() * 2
