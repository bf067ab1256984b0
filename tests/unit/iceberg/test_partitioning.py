"""Partition and sort terms, and the partitions of rows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table.sorting import NullOrder, SortDirection

from floe_core.errors import ConfigurationError
from floe_iceberg.formats import partitioning
from floe_iceberg.formats.partitioning import record_values, split
from floe_iceberg.table.schema import iceberg_schema
from floe_iceberg.table.specs import partition_spec, sort_order

SCHEMA = iceberg_schema(
    pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("s", pa.struct([("city", pa.string())]))])
)


@pytest.mark.req("FR-013")
@pytest.mark.parametrize(
    ("term", "name", "transform"),
    [
        ("id", "id", "identity"),
        ("identity(id)", "id", "identity"),
        ("day(ts)", "ts_day", "day"),
        ("days( ts )", "ts_day", "day"),
        ("hours(ts)", "ts_hour", "hour"),
        ("months(ts)", "ts_month", "month"),
        ("years(ts)", "ts_year", "year"),
        ("bucket(16,id)", "id_bucket_16", "bucket[16]"),
        ("truncate(2, s.city)", "s.city_trunc_2", "truncate[2]"),
    ],
)
def test_terms_become_fields(term, name, transform):
    (field,) = partition_spec([term], SCHEMA).fields
    assert (field.name, str(field.transform)) == (name, transform)


@pytest.mark.parametrize("term", ["", "day(id)", "bucket(id)", "day(3, ts)", "week(ts)", "missing", "a, b"])
def test_a_wrong_term_is_refused(term):
    with pytest.raises(ConfigurationError):
        partition_spec([term], SCHEMA)


def test_sort_terms_put_nulls_where_sql_does():
    first, second, third = sort_order(["id", "ts desc", "s.city asc nulls last"], SCHEMA).fields
    assert (first.direction, first.null_order) == (SortDirection.ASC, NullOrder.NULLS_FIRST)
    assert (second.direction, second.null_order) == (SortDirection.DESC, NullOrder.NULLS_LAST)
    assert (third.direction, third.null_order) == (SortDirection.ASC, NullOrder.NULLS_LAST)
    with pytest.raises(ConfigurationError):
        sort_order(["missing desc"], SCHEMA)


@pytest.mark.parametrize("at_once", [0, 2**40], ids=["a-take-a-partition", "sorted-at-once"])
@pytest.mark.parametrize("clustered", [True, False])
def test_every_row_lands_in_its_partition_in_its_order(monkeypatch, at_once, clustered):
    monkeypatch.setattr(partitioning, "_MAX_SORT_BYTES", at_once)
    monkeypatch.setattr(partitioning, "_MAX_SLICES_PER_PARTITION", 8 if clustered else 0)
    schema = iceberg_schema(pa.schema([("p", pa.string()), ("q", pa.int64()), ("n", pa.int64())]))
    spec = partition_spec(["p", "truncate(10, q)"], schema)
    values = [("a", 1), ("b", 15), ("a", 2), (None, 1), ("a", None), ("b", 15)] * 3
    rows = pa.table({"p": [v[0] for v in values], "q": [v[1] for v in values], "n": range(len(values))})
    found = {record_values(part.record): part.rows["n"].to_pylist() for part in split(rows, spec, schema)}
    expected = {}
    for number, (p, q) in enumerate(values):
        expected.setdefault((p, None if q is None else q // 10 * 10), []).append(number)
    assert found == expected


def test_many_distinct_partitions_are_told_apart(monkeypatch):
    monkeypatch.setattr(partitioning, "_MAX_COUNTERS", 5)
    schema = iceberg_schema(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    rows = pa.table({"a": [1, 2, 3, 1], "b": [7, 8, 9, 7]})
    parts = list(split(rows, partition_spec(["a", "b"], schema), schema))
    assert sorted(record_values(part.record) for part in parts) == [(1, 7), (2, 8), (3, 9)]
