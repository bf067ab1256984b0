"""Conversion of inputs to Arrow data."""

from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from floe_core.errors import InvalidDataError
from floe_iceberg.formats.arrow_types import normalized, supported_type, to_arrow
from floe_iceberg.table.schema import iceberg_schema


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pa.string_view(), pa.string()),
        (pa.binary_view(), pa.binary()),
        (pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int8(), pa.string()), pa.string()),
        (pa.run_end_encoded(pa.int32(), pa.int64()), pa.int64()),
        (pa.int8(), pa.int32()),
        (pa.uint16(), pa.int32()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.time32("s"), pa.time64("us")),
        (pa.time64("ns"), pa.time64("us")),
        (pa.timestamp("ns"), pa.timestamp("us")),
        (pa.timestamp("ms", tz="Europe/Oslo"), pa.timestamp("us", tz="UTC")),
        (pa.decimal256(30, 2), pa.decimal128(30, 2)),
        (pa.list_view(pa.string_view()), pa.list_(pa.string())),
        (pa.list_(pa.int8(), 3), pa.list_(pa.int32())),
        (pa.struct([("a", pa.uint8())]), pa.struct([("a", pa.int32())])),
        (pa.map_(pa.string_view(), pa.uint32()), pa.map_(pa.string(), pa.int64())),
        (pa.uuid(), pa.uuid()),
        (pa.json_(), pa.string()),
    ],
    ids=str,
)
def test_a_type_iceberg_does_not_know_is_replaced(given, expected):
    assert supported_type(given, "c") == expected


@pytest.mark.parametrize(
    "given",
    [pa.duration("us"), pa.month_day_nano_interval(), pa.decimal256(50, 2), pa.dense_union([pa.field("a", pa.int8())])],
    ids=str,
)
def test_a_type_without_a_replacement_is_refused_by_column(given):
    with pytest.raises(InvalidDataError, match="'c'"):
        supported_type(given, "c")


def test_nanoseconds_that_microseconds_cannot_hold_are_refused():
    table = pa.table({"ts": pa.array([1_000_000_001], pa.timestamp("ns"))})
    with pytest.raises(InvalidDataError, match="microseconds"):
        normalized(table)


def test_whole_microseconds_pass():
    table = normalized(
        pa.table({"ts": pa.array([1_000_000], pa.timestamp("ns")), "d": pa.array([86_400_000], pa.date64())})
    )
    assert table.to_pylist() == [{"ts": dt.datetime(1970, 1, 1, 0, 0, 0, 1000), "d": dt.date(1970, 1, 2)}]  # noqa: DTZ001


def test_values_survive():
    table = normalized(
        pa.table(
            {
                "big": pa.array([2**64 - 1], pa.uint64()),
                "view": pa.array(["long enough to be out of line"], pa.string_view()),
                "coded": pa.array(["a"]).dictionary_encode(),
                "runs": pc.run_end_encode(pa.array([7])),
                "views": pa.array([["x"]], pa.list_(pa.string_view())),
            }
        )
    )
    assert table.to_pylist() == [
        {
            "big": decimal.Decimal(2**64 - 1),
            "view": "long enough to be out of line",
            "coded": "a",
            "runs": 7,
            "views": ["x"],
        }
    ]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}),
        pl.LazyFrame({"id": [1, 2], "name": ["a", "b"]}),
        [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}],
        pa.table({"id": [1, 2], "name": ["a", "b"]}),
        pa.table({"id": [1, 2], "name": ["a", "b"]}).to_batches()[0],
        pa.table({"id": [1, 2], "name": ["a", "b"]}).to_reader(),
    ],
    ids=["pandas", "polars", "polars-lazy", "dicts", "table", "batch", "reader"],
)
def test_every_frame_becomes_arrow(frame):
    arrow = to_arrow(frame)
    table = arrow.read_all() if isinstance(arrow, pa.RecordBatchReader) else arrow
    assert normalized(table).to_pylist() == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def totals():
    sales = pd.DataFrame({"shop": ["a", "b", "a"], "day": [1, 1, 2], "amount": [1, 2, 3]})
    return sales, {
        "groupby": (sales.groupby("shop").agg({"amount": "sum"}), [("a", 4), ("b", 2)]),
        "groupby of two": (
            sales.groupby(["shop", "day"]).agg({"amount": "sum"}),
            [("a", 1, 1), ("a", 2, 3), ("b", 1, 2)],
        ),
        "filtered": (sales[sales.amount > 1], [("b", 1, 2), ("a", 2, 3)]),
        "nulls in both": (
            pd.DataFrame({"shop": ["a", None]}).set_index("shop", drop=False),
            [("a",), (None,)],
        ),
        "column kept": (sales.set_index("shop", drop=False), [("a", 1, 1), ("b", 1, 2), ("a", 2, 3)]),
    }


@pytest.mark.parametrize("kind", ["groupby", "groupby of two", "filtered", "nulls in both", "column kept"])
def test_a_named_pandas_index_is_a_column(kind):
    frame, expected = totals()[1][kind]
    assert [tuple(row.values()) for row in to_arrow(frame).to_pylist()] == expected


@pytest.mark.parametrize(
    "index",
    [
        pd.Index(["x", "y", "z"]),
        pd.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 1)]),
        pd.Index(["x", "y", "z"], name="shop"),
    ],
    ids=["text without a name", "two levels without a name", "the name of a column"],
)
def test_a_pandas_index_that_would_be_lost_is_refused(index):
    with pytest.raises(InvalidDataError, match="reset_index"):
        to_arrow(totals()[0].set_index(index))


def test_several_levels_of_pandas_columns_are_refused():
    frame = totals()[0].groupby("shop").agg({"amount": ["sum", "max"]})
    with pytest.raises(InvalidDataError, match="2 levels of column names"):
        to_arrow(frame)


def test_an_empty_pandas_frame_keeps_its_columns():
    assert to_arrow(pd.DataFrame({"id": pd.Series(dtype="int64")}, index=pd.Index([], dtype="str"))).num_rows == 0
    assert to_arrow(totals()[0].iloc[:0].groupby("shop").agg({"amount": "sum"})).column_names == ["shop", "amount"]


def test_a_pandas_index_is_no_column():
    frame = pd.DataFrame({"id": [1, 2]}, index=[10, 20])
    assert to_arrow(frame).schema.names == ["id"]


@pytest.mark.parametrize("wrong", [42, "text", {"id": [1]}, [1, 2]], ids=["int", "str", "dict", "list"])
def test_what_is_no_frame_is_refused(wrong):
    with pytest.raises(InvalidDataError, match="floe cannot write data of type"):
        to_arrow(wrong)


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(InvalidDataError, match="duplicate column names"):
        to_arrow(pa.table([[1], [2]], names=["a", "a"]))


def test_mixed_pandas_columns_are_refused_with_a_way_out():
    with pytest.raises(InvalidDataError, match="astype"):
        to_arrow(pd.DataFrame({"a": [1, "x", uuid.uuid4()]}))


def test_field_ids_count_the_outer_fields_first():
    schema = iceberg_schema(
        pa.schema([("a", pa.struct([("x", pa.int32())])), ("b", pa.list_(pa.string())), ("c", pa.int64())])
    )
    assert [field.field_id for field in schema.fields] == [1, 2, 3]
    assert schema.find_field("a.x").field_id == 4
    assert schema.find_field("b.element").field_id == 5


def test_a_column_of_nulls_has_no_type_for_a_new_table():
    with pytest.raises(InvalidDataError, match="only nulls"):
        iceberg_schema(pa.schema([("a", pa.null())]))


def test_docs_come_along():
    field = pa.field("a", pa.int64(), metadata={"doc": "The key"})
    assert iceberg_schema(pa.schema([field])).find_field("a").doc == "The key"


def test_rows_keep_the_columns_that_only_later_ones_have():
    table = to_arrow([{"id": 1}, {"id": 2, "note": "x"}, {"note": "y", "id": 3}])
    assert table.to_pylist() == [{"id": 1, "note": None}, {"id": 2, "note": "x"}, {"id": 3, "note": "y"}]


def test_rows_of_mixed_types_are_refused():
    with pytest.raises(InvalidDataError, match="Cannot convert the rows to Arrow"):
        to_arrow([{"id": 1}, {"id": "two"}])


def test_a_struct_with_two_fields_of_one_name_is_refused():
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InvalidDataError, match=r"duplicate column names: s\.a"):
        to_arrow(pa.table({"s": twice}))
    with pytest.raises(InvalidDataError, match=r"l\.item\.a"):
        to_arrow(pa.table({"l": pa.ListArray.from_arrays([0, 1], twice)}))


def test_a_pandas_frame_with_two_columns_of_one_name_is_refused():
    with pytest.raises(InvalidDataError, match="duplicate column names: id"):
        to_arrow(pd.DataFrame([[1, 2, 3]], columns=["id", "id", "name"]))


@pytest.mark.parametrize("series", [pd.Series([1, 2], name="id"), pl.Series("id", [1, 2])], ids=["pandas", "Polars"])
def test_a_series_is_no_frame(series):
    with pytest.raises(InvalidDataError, match=r"^floe cannot write data of type Series"):
        to_arrow(series)


LISTS = [[1, 2], [3], None, [], [None, 6], [7]]


@pytest.mark.parametrize("view", [pa.list_view, pa.large_list_view], ids=["list_view", "large_list_view"])
@pytest.mark.parametrize(
    "column",
    [
        lambda kind: pa.array(LISTS, kind),
        lambda kind: pa.array([None if part is None else {"f": part} for part in LISTS], pa.struct([("f", kind)])),
        lambda kind: pa.array([[part, part] for part in LISTS], pa.list_(kind)),
        lambda kind: pa.array([[part, part] for part in LISTS], pa.list_(kind, 2)),
        lambda kind: pa.array([[("k", part)] for part in LISTS], pa.map_(pa.string(), kind)),
    ],
    ids=["top", "struct", "list", "fixed size list", "map"],
)
@pytest.mark.parametrize(("start", "length"), [(0, 6), (1, 4), (3, 3), (2, 1)])
def test_list_views_keep_their_elements(view, column, start, length):
    array = column(view(pa.int16())).slice(start, length)
    table = normalized(pa.table({"c": array}))
    table.validate(full=True)
    assert table["c"].to_pylist() == array.to_pylist()


def test_elements_of_list_views_in_any_order_are_found():
    array = pa.ListViewArray.from_arrays([2, 0, 1], [2, 1, 0], pa.array([1, 2, 3, 4]))
    assert normalized(pa.table({"c": array}))["c"].to_pylist() == [[3, 4], [1], []]
