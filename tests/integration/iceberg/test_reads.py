from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.expressions import GreaterThan
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.types import LongType, StringType

from floe_core.errors import (
    InvalidScanError,
    RefNotFoundError,
    ScanError,
    SnapshotNotFoundError,
    TableNotFoundError,
)
from floe_iceberg import maintenance
from floe_iceberg.read import scan as reads
from floe_iceberg.table import refs
from floe_iceberg.write import operations
from floe_testing.embedded_tables import local_path

pytest_plugins = ["floe_testing.table_fixtures"]


@pytest.fixture
def orders(context, new_table):
    """Three appends of ten rows each."""
    table = new_table(
        "bronze.orders",
        pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())]),
    )
    for start in (0, 10, 20):
        table.append(rows(start, start + 10))
    return table


def rows(start, stop):
    ids = list(range(start, stop))
    return pa.table(
        {
            "id": ids,
            "city": [("Oslo", "Rome")[i % 2] for i in ids],
            "amount": [i / 2 for i in ids],
        }
    )


@pytest.mark.req("FR-018", "API-09")
def test_what_was_written_comes_back_equal(context, new_table):
    data = pa.Table.from_pydict({"id": [1, 2], "name": ["a", "b"]})
    table = new_table("bronze.customers", data.schema)
    table.append(data)
    assert reads.scan(context, "bronze.customers").equals(data)


def test_an_empty_table_reads_as_no_rows_with_plain_types(context, new_table):
    schema = pa.schema([("id", pa.int64()), ("tags", pa.list_(pa.string())), ("blob", pa.binary())])
    new_table("bronze.empty", schema)
    result = reads.scan(context, "bronze.empty")
    assert result.num_rows == 0
    assert result.schema.field("tags").type.value_type == pa.string()
    assert result.schema.field("blob").type == pa.binary()


@pytest.mark.req("FR-022", "API-09")
def test_columns_come_back_in_the_order_asked_for(context, orders):
    result = reads.scan(context, "bronze.orders", columns=["amount", "id"])
    assert result.column_names == ["amount", "id"]
    assert result.num_rows == 30


@pytest.mark.req("SC-004")
def test_fewer_columns_read_fewer_bytes(context, new_table, monkeypatch):
    columns = {f"c{number}": pa.array(range(number, 400_000 + number), pa.int64()) for number in range(16)}
    table = new_table("bronze.wide", pa.table(columns).schema)
    table.append(pa.table(columns))

    def bytes_read(**selection):
        count = [0]
        with monkeypatch.context() as patch:
            patch.setattr(PyArrowFile, "open", lambda self, seekable=True: _counted(self, count))
            reads.scan(context, "bronze.wide", **selection)
        return count[0]

    share = bytes_read(columns=["c3", "c7"]) / bytes_read()
    assert share == pytest.approx(2 / 16, rel=0.2)


def _counted(file, count):
    """Open a file so that the bytes read from it are counted."""
    content = local_path(file.location).read_bytes()

    class Counting(io.BytesIO):
        def read(self, size=-1):
            part = super().read(size)
            count[0] += len(part)
            return part

    stream = Counting(content)
    return pa.PythonFile(stream, mode="r") if file.location.endswith(".parquet") else io.BytesIO(content)


def test_a_nested_field_can_be_asked_for(context, new_table):
    data = pa.table({"id": [1], "address": [{"city": "Oslo", "zip": "0150"}]})
    table = new_table("bronze.people", data.schema)
    table.append(data)
    result = reads.scan(context, "bronze.people", columns=["address.city", "id"])
    assert result.to_pylist() == [{"address": {"city": "Oslo"}, "id": 1}]


@pytest.mark.req("FR-023", "API-09")
@pytest.mark.parametrize("row_filter", ["id > 26 and city = 'Rome'", None], ids=["text", "expression"])
def test_a_filter_selects_rows(context, orders, row_filter):
    found = reads.scan(context, "bronze.orders", row_filter=row_filter or GreaterThan("id", 26), columns=["id"])
    assert found.column("id").to_pylist() == ([27, 29] if row_filter else [27, 28, 29])


def test_a_filter_that_is_no_predicate_is_shown(context, orders):
    with pytest.raises(InvalidScanError, match=r'"id >>> 3" is not a valid predicate.*position 5') as caught:
        reads.scan(context, "bronze.orders", row_filter="id >>> 3")
    assert "status = 'active'" in str(caught.value)


def test_a_filter_on_an_unknown_column_suggests_the_right_one(context, orders):
    with pytest.raises(InvalidScanError) as caught:
        reads.scan(context, "bronze.orders", row_filter="Amnt > 3")
    assert "Did you mean 'amount'? Existing columns: id, city, amount." in str(caught.value)


def test_a_filter_with_a_value_of_another_type_is_refused(context, orders):
    with pytest.raises(InvalidScanError, match="does not fit"):
        reads.scan(context, "bronze.orders", row_filter="id = 'Oslo'")


def test_an_unknown_column_suggests_the_right_one(context, orders):
    with pytest.raises(InvalidScanError, match="Did you mean 'city'"):
        reads.scan(context, "bronze.orders", columns=["id", "cty"])


@pytest.mark.parametrize("columns", ["id", []], ids=["text", "empty"])
def test_columns_must_be_a_list_with_something_in_it(context, orders, columns):
    with pytest.raises(InvalidScanError, match="list of at least one column"):
        reads.scan(context, "bronze.orders", columns=columns)


def test_a_missing_table_is_named(context, orders):
    with pytest.raises(TableNotFoundError, match=r"bronze\.nothing"):
        reads.scan(context, "bronze.nothing")


@pytest.mark.parametrize("limit", [0, 1, 7, 10, 11, 30, 99])
def test_a_limit_caps_the_rows(context, orders, limit):
    assert reads.scan(context, "bronze.orders", limit=limit).num_rows == min(limit, 30)


def test_a_limit_stops_reading_early(context, orders, opened_files):
    with opened_files(".parquet") as opened:
        reads.scan(context, "bronze.orders", limit=5)
    assert len(opened) == 1


def test_a_negative_limit_is_refused(context, orders):
    with pytest.raises(InvalidScanError, match="0 or more"):
        reads.scan(context, "bronze.orders", limit=-1)


@pytest.mark.req("FR-021")
def test_a_snapshot_is_read_by_id(context, orders):
    oldest = refs.list_snapshots(context, "bronze.orders")[-1]
    assert reads.scan(context, "bronze.orders", snapshot_id=oldest.snapshot_id).num_rows == 10


def test_an_unknown_snapshot_lists_those_there(context, orders):
    newest = refs.list_snapshots(context, "bronze.orders", limit=1)[0]
    with pytest.raises(SnapshotNotFoundError, match=str(newest.snapshot_id)):
        reads.scan(context, "bronze.orders", snapshot_id=1)


@pytest.mark.req("FR-021")
def test_a_moment_is_read_as_datetime_of_any_zone_or_milliseconds(context, orders):
    second = refs.list_snapshots(context, "bronze.orders")[1]
    moments = [
        second.timestamp_ms,
        second.timestamp + timedelta(milliseconds=0),
        datetime.fromtimestamp(second.timestamp_ms / 1000, tz=UTC),
    ]
    for moment in moments:
        assert reads.scan(context, "bronze.orders", as_of=moment).num_rows == 20


def test_a_moment_before_the_table_says_where_history_begins(context, orders):
    with pytest.raises(SnapshotNotFoundError, match="history starts at"):
        reads.scan(context, "bronze.orders", as_of=datetime(2001, 1, 1))  # noqa: DTZ001 - local time is meant


def test_a_tag_and_a_branch_are_read_by_name(context, orders):
    oldest = refs.list_snapshots(context, "bronze.orders")[-1]
    refs.create_tag(context, "bronze.orders", "v1", snapshot_id=oldest.snapshot_id)
    refs.create_branch(context, "bronze.orders", "trial")
    orders.refresh().append(rows(30, 35), branch="trial")
    assert reads.scan(context, "bronze.orders", ref="v1").num_rows == 10
    assert reads.scan(context, "bronze.orders", ref="trial").num_rows == 35
    assert reads.scan(context, "bronze.orders", ref="main").num_rows == 30


def test_an_unknown_ref_lists_those_there(context, orders):
    with pytest.raises(RefNotFoundError, match="Existing branches and tags: main"):
        reads.scan(context, "bronze.orders", ref="mian")


def test_two_versions_at_once_are_refused(context, orders):
    with pytest.raises(InvalidScanError, match="only one of"):
        reads.scan(context, "bronze.orders", snapshot_id=1, ref="main")


def test_an_old_snapshot_is_read_with_the_schema_of_its_time(context, orders):
    before = refs.current_snapshot(context, "bronze.orders")
    with orders.update_schema() as update:
        update.rename_column("city", "town")
        update.add_column("note", StringType())
    old = reads.scan(context, "bronze.orders", snapshot_id=before.snapshot_id, row_filter="city = 'Oslo'")
    assert old.column_names == ["id", "city", "amount"]
    assert old.num_rows == 15
    new = reads.scan(context, "bronze.orders", row_filter="town = 'Oslo'", ref="main")
    assert new.column_names == ["id", "town", "amount", "note"]
    assert new.num_rows == 15


def test_a_widened_column_reads_in_its_new_type(context, new_table):
    table = new_table("bronze.wide", pa.schema([("id", pa.int32())]))
    table.append(pa.table({"id": pa.array([1], pa.int32())}))
    with table.update_schema() as update:
        update.update_column("id", LongType())
    table.append(pa.table({"id": pa.array([2], pa.int64())}))
    result = reads.scan(context, "bronze.wide")
    assert result.schema.field("id").type == pa.int64()
    assert sorted(result.column("id").to_pylist()) == [1, 2]


def test_batches_stream_one_file_at_a_time(context, orders, opened_files):
    with opened_files(".parquet") as opened:
        reader = reads.scan_batches(context, "bronze.orders", columns=["id"])
        assert opened == []
        first = reader.read_next_batch()
        assert first.num_rows == 10
        assert len(opened) == 1
        assert first.num_rows + reader.read_all().num_rows == 30
    assert len(opened) == 3


def test_streamed_batches_respect_limit_filter_and_schema(context, orders):
    reader = reads.scan_batches(context, "bronze.orders", row_filter="city = 'Rome'", limit=12)
    assert reader.schema.field("city").type == pa.string()
    result = reader.read_all()
    assert result.num_rows == 12
    assert set(result.column("city").to_pylist()) == {"Rome"}


def test_an_increment_holds_what_was_appended_after(context, orders):
    third, second, first = refs.list_snapshots(context, "bronze.orders")
    increment = reads.incremental_scan(context, "bronze.orders", from_snapshot=first.snapshot_id)
    assert sorted(increment.column("id").to_pylist()) == list(range(10, 30))
    upto = reads.incremental_scan(
        context, "bronze.orders", from_snapshot=first.snapshot_id, to_snapshot=second.snapshot_id, columns=["id"]
    )
    assert sorted(upto.column("id").to_pylist()) == list(range(10, 20))
    assert reads.incremental_scan(context, "bronze.orders", from_snapshot=third.snapshot_id).num_rows == 0
    assert reads.incremental_scan(context, "bronze.orders").num_rows == 30


def test_an_increment_over_changed_rows_is_refused_with_the_reason(context, orders):
    first = refs.list_snapshots(context, "bronze.orders")[-1]
    orders.delete("id = 3")
    with pytest.raises(ScanError, match=r"changed or deleted in between by: \d+ \(overwrite\)"):
        reads.incremental_scan(context, "bronze.orders", from_snapshot=first.snapshot_id)


def test_an_increment_the_wrong_way_round_is_explained(context, orders):
    third, _, first = refs.list_snapshots(context, "bronze.orders")
    with pytest.raises(ScanError, match="Swap the two"):
        reads.incremental_scan(context, "bronze.orders", from_snapshot=third.snapshot_id, to_snapshot=first.snapshot_id)


def test_an_increment_from_a_beginning_that_has_expired_is_refused(context, orders):
    third, second, first = refs.list_snapshots(context, "bronze.orders")
    maintenance.expire_snapshots(context, "bronze.orders", snapshot_ids=[first.snapshot_id])
    with pytest.raises(ScanError, match=f"{first.snapshot_id}, which has expired") as caught:
        reads.incremental_scan(context, "bronze.orders")
    assert str(second.snapshot_id) in caught.value.hint
    later = reads.incremental_scan(context, "bronze.orders", from_snapshot=second.snapshot_id)
    assert sorted(later.column("id").to_pylist()) == list(range(20, 30))
    assert third.snapshot_id == refs.current_snapshot(context, "bronze.orders").snapshot_id


def test_a_filter_finds_a_field_of_a_struct_whose_name_has_a_dot(context, new_table):
    kind = pa.struct([("a.b", pa.int64()), ("a", pa.int64())])
    table = pa.table({"s": pa.array([{"a.b": 1, "a": 2}, None], kind)})
    new_table("bronze.dotted", table.schema)
    operations.write_data(context, "bronze.dotted", table)
    for row_filter in ("s.`a.b` = 1", "s.a = 2"):
        assert reads.scan(context, "bronze.dotted", row_filter=row_filter).num_rows == 1


def test_an_increment_of_an_empty_table_is_empty(context, new_table):
    new_table("bronze.none", pa.schema([("id", pa.int64())]))
    assert reads.incremental_scan(context, "bronze.none").num_rows == 0


@pytest.mark.req("FR-038")
def test_a_scan_is_one_span_with_its_figures(context, orders, spans):
    reads.scan(context, "bronze.orders", columns=["id"], row_filter="id < 3", limit=2)
    (span,) = [span for span in spans() if span.name == "iceberg.scan"]
    assert span.attributes["iceberg.table"] == "bronze.orders"
    assert span.attributes["iceberg.columns"] == ("id",)
    assert span.attributes["iceberg.row_filter"] == "id < 3"
    assert span.attributes["iceberg.limit"] == 2
    assert span.attributes["iceberg.num_rows"] == 2
    assert span.attributes["iceberg.snapshot_id"] == orders.current_snapshot().snapshot_id


def test_a_filter_looks_at_fields_of_structs_and_at_columns_that_are_not_asked_for(context, new_table):
    deep = pa.struct([("e", pa.int64()), ("f", pa.int64())])
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("a", pa.struct([("b", pa.int64()), ("c", pa.string()), ("d", deep)])),
            ("tags", pa.list_(pa.string())),
            ("sizes", pa.map_(pa.string(), pa.int64())),
        ]
    )
    rows = [
        {"id": 1, "a": {"b": 1, "c": "x", "d": {"e": 5, "f": 6}}, "tags": ["t"], "sizes": None},
        {"id": 2, "a": None, "tags": None, "sizes": [("s", 1)]},
        {"id": 3, "a": {"b": None, "c": "y", "d": None}, "tags": [], "sizes": None},
    ]
    new_table("bronze.nested", schema).append(pa.Table.from_pylist(rows, schema=schema))

    def scan(row_filter, *columns):
        return reads.scan(context, "bronze.nested", columns=list(columns), row_filter=row_filter).to_pylist()

    assert scan("a.b = 1", "a.c") == [{"a": {"c": "x"}}]
    assert scan("a.d.e = 5", "a.d.f") == [{"a": {"d": {"f": 6}}}]
    assert scan("a.b is null", "id") == [{"id": 2}, {"id": 3}]
    assert scan("a.b != 7", "id") == [{"id": 1}]
    assert scan("a is null", "id") == [{"id": 2}]
    assert scan("a is not null", "a.c") == [{"a": {"c": "x"}}, {"a": {"c": "y"}}]
    assert scan("tags is null", "id") == [{"id": 2}]
    assert scan("sizes is not null", "id") == [{"id": 2}]
