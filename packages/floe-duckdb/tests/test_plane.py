"""Reads and writes of the DuckDB data plane."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from floe_core.dataplane import CompactionKind, NullKeys, ReadRequest, WriteKind, WriteRequest
from floe_core.errors import CapabilityError, EngineError, InvalidDataError, RefNotFoundError
from floe_iceberg import Engine, IcebergTableManager
from floe_iceberg.read.predicates import parse_row_filter

from floe_duckdb.sql import condition

NOON = datetime(2026, 1, 2, 12, 0, 0, 5, tzinfo=UTC)
LOCAL = NOON.replace(tzinfo=None)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, None], pa.int64()),
        "small": pa.array([-(2**31), 0, 2**31 - 1, None], pa.int32()),
        "name": ["it's 100%", "a_b!", "ä\n", None],
        "score": [float("nan"), -0.0, float("inf"), None],
        "ratio": pa.array([1.5, float("nan"), float("-inf"), None], pa.float32()),
        "price": pa.array([Decimal("-1.20"), Decimal(0), Decimal("99999999.99"), None], pa.decimal128(10, 2)),
        "paid": [True, False, True, None],
        "day": pa.array([date(1969, 12, 31), date(2026, 1, 2), date(9999, 12, 31), None]),
        "clock": pa.array([time(0), time(12, 0, 0, 5), time(23, 59, 59, 999999), None], pa.time64("us")),
        "seen": pa.array([LOCAL, LOCAL.replace(year=1), LOCAL.replace(year=9999), None], pa.timestamp("us")),
        "heard": pa.array([NOON, NOON.replace(year=1900), NOON.replace(year=9000), None], pa.timestamp("us", "UTC")),
        "raw": [b"\x00'", b"", b"\xff", None],
        "code": pa.array([b"ab", b"cd", b"ef", None], pa.binary(2)),
        "key": pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes, uuid.UUID(int=3).bytes, None], pa.uuid()),
        "place": [{"city": "Oslo"}, {"city": None}, None, {"city": 'R"m'}],
    }
)


@pytest.fixture
def manager(catalog, data_plane):
    manager = IcebergTableManager(catalog, compute=data_plane)
    manager.create_namespace("lake")
    return manager


@pytest.fixture
def wide(manager):
    table = manager.create_table("lake.wide", ROWS.schema)
    manager.append(table, ROWS)
    return manager.load_table("lake.wide")


@pytest.mark.parametrize(
    "text",
    [
        "id > 1.5",
        "id <> 2",
        "not (id > 1)",
        "id in (1, 3) or id is null",
        "id not in (1, 3)",
        "small >= -2147483648",
        "small = 2147483648",
        "name = 'it''s 100%'",
        "name like '%!%' and name like 'a\\_b_'",
        "name not like '_\n'",
        "name < 'b'",
        "score > 5",
        "score < 5",
        "score = 0",
        "score <> 0",
        "score is nan or score is null",
        "score is not nan",
        "ratio >= 1.5",
        "ratio <> 1.5",
        "price > -1.2",
        "price in (0, 99999999.99)",
        "paid",
        "not paid",
        "day < '1970-01-01'",
        "day between '2026-01-01' and '9999-12-31'",
        "clock = '12:00:00.000005'",
        "seen < '2026-01-02T12:00:00.000006'",
        "seen >= '2026-01-02T12:00:00.000005'",
        "heard = '2026-01-02T12:00:00.000005Z'",
        "heard <> '2026-01-02T13:00:00.000005+01:00'",
        "code is not null",
        "key = '00000000-0000-0000-0000-000000000002'",
        "key > '00000000-0000-0000-0000-000000000001'",
        "place.city in ('Oslo', 'R\"m')",
        "place.city is null",
        "place is null",
        "id = 1 and id = 2",
        "id = 1 or name is null or score > 1",
    ],
)
def test_a_row_filter_passes_the_same_rows_in_sql_as_in_process(data_plane, wide, text):
    predicate = parse_row_filter(text, wide.schema(), table="lake.wide")
    rows = data_plane.frame(ReadRequest("lake.wide"))
    found = rows.filter(condition(predicate)).project("id").fetchall()
    assert found == [(row,) for row in ROWS.filter(predicate.passing(ROWS))["id"].to_pylist()]


def test_rows_of_every_type_come_back_as_they_were(data_plane, wide):
    rows = data_plane.frame(ReadRequest("lake.wide"))
    data_plane.write(WriteRequest("lake.wide", WriteKind.OVERWRITE, rows))
    # As text: NaN is not equal to itself.
    read = data_plane.read_arrow(ReadRequest("lake.wide"))
    assert str(read.to_pylist()) == str(ROWS.to_pylist())


def test_names_that_differ_only_in_case_are_refused(data_plane, manager, catalog):
    catalog.create_table("lake.cases", pa.schema([("id", pa.int64()), ("ID", pa.int64())]))
    with pytest.raises(CapabilityError, match="case"):
        data_plane.frame(ReadRequest("lake.cases"))


def test_names_of_a_relation_that_differ_only_in_case_are_refused(data_plane):
    with pytest.raises(InvalidDataError, match="a, A"):
        data_plane.arrow_schema(data_plane.session.sql("select 1 as a, 2 as A"))


def test_uuids_stay_uuids_in_a_query(data_plane, wide):
    rows = data_plane.frame(ReadRequest("lake.wide"))
    found = data_plane.query({"t": rows}, lambda names: f"select key from {names['t']}")
    assert data_plane.arrow_schema(found).field("key").type == pa.uuid()


class TestTypesOfDuckDB:
    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            ("1::HUGEINT", pa.decimal128(38)),
            ("[2::UHUGEINT]", pa.list_(pa.decimal128(38))),
            ("[3::HUGEINT]::HUGEINT[1]", pa.list_(pa.decimal128(38), 1)),
            ("{'a \"b': map {'k': 4::HUGEINT}}", pa.struct({'a "b': pa.map_(pa.string(), pa.decimal128(38))})),
            ("'a'::ENUM('a', 'b')", pa.dictionary(pa.uint8(), pa.string())),
        ],
    )
    def test_the_widest_numbers_become_decimals(self, data_plane, value, kind):
        rows = data_plane.session.sql(f"select {value} as x, 'y' as \"odd name\", null as n")
        schema = data_plane.arrow_schema(rows)
        assert schema.names == ["x", "odd name", "n"]
        assert schema.field("x").type == kind

    @pytest.mark.parametrize("number", [f"{2**128 - 1}::UHUGEINT", f"{2**127 - 1}::HUGEINT"])
    def test_numbers_that_do_not_fit_write_nothing(self, data_plane, manager, number):
        table = manager.create_table("lake.numbers", pa.schema({"x": pa.decimal128(38)}))
        rows = data_plane.session.sql(f"select {number} as x")
        with pytest.raises(EngineError, match=r"DECIMAL\(38,0\)"):
            manager.append(table, rows)
        assert manager.load_table(table).current_snapshot() is None

    @pytest.mark.parametrize("value", ["'12:00+02'::TIMETZ", "['01'::BIT]", "{'a': 1::BIGNUM}", "1::VARIANT"])
    def test_types_that_iceberg_does_not_have_are_refused(self, data_plane, value):
        with pytest.raises(InvalidDataError, match="Column 'x' has type"):
            data_plane.arrow_schema(data_plane.session.sql(f"select {value} as x"))

    @pytest.mark.parametrize("value", ["'infinity'::DATE", "'-infinity'::TIMESTAMP", "'infinity'::TIMESTAMPTZ"])
    def test_infinite_dates_are_refused(self, data_plane, manager, value):
        rows = data_plane.session.sql(f"select {value} as x")
        table = manager.create_table("lake.dates", data_plane.arrow_schema(rows))
        with pytest.raises(InvalidDataError, match="infinite"):
            manager.append(table, rows)
        manager.append(table, data_plane.session.sql(f"select null::{value.partition('::')[2]} as x"))


class TestWrites:
    @pytest.fixture(autouse=True)
    def table(self, manager):
        schema = pa.schema([("id", pa.int64()), ("region", pa.string()), ("amount", pa.int64())])
        manager.create_table("lake.orders", schema, ["region"])
        manager.append("lake.orders", pa.table({"id": [1, 2], "region": ["no", "it"], "amount": [10, 20]}))

    @pytest.fixture
    def write(self, data_plane, manager):
        def write(kind, query=None, **options):
            data = data_plane.session.sql(query) if query else None
            data_plane.write(WriteRequest("lake.orders", kind, data, **options))
            return sorted((tuple(row.values()) for row in manager.scan("lake.orders").to_pylist()), key=str)

        return write

    def test_rows_are_appended(self, write):
        assert write(WriteKind.APPEND, "select 3 as id, 'no' as region, 5 as amount")[2:] == [(3, "no", 5)]

    def test_rows_replace_all_others(self, write):
        assert write(WriteKind.OVERWRITE, "select 3 as id, 'no' as region, 5 as amount") == [(3, "no", 5)]

    def test_rows_replace_those_a_filter_matches(self, write, manager):
        row_filter = parse_row_filter("id = 1", manager.load_table("lake.orders").schema(), table="lake.orders")
        query = "select 3 as id, 'no' as region, 5 as amount"
        found = write(WriteKind.OVERWRITE_FILTER, query, row_filter=row_filter)
        assert found == [(2, "it", 20), (3, "no", 5)]

    def test_rows_replace_their_partitions(self, write):
        found = write(WriteKind.OVERWRITE_PARTITIONS, "select 3 as id, 'it' as region, 5 as amount")
        assert found == [(1, "no", 10), (3, "it", 5)]

    def test_rows_replace_others_by_key(self, write, manager):
        query = "select * from (values (2, 'it', 21), (3, 'no', 5)) rows(id, region, amount)"
        assert write(WriteKind.UPSERT, query, keys=("id",)) == [(1, "no", 10), (2, "it", 21), (3, "no", 5)]
        summary = manager.load_table("lake.orders").current_snapshot().summary.additional_properties
        assert summary["floe.source-rows"] == "2"

    def test_null_in_a_key_is_refused_or_matched(self, write, manager):
        query = "select null::bigint as id, 'no' as region, {} as amount"
        with pytest.raises(InvalidDataError, match="null"):
            write(WriteKind.UPSERT, query.format(1), keys=("id",))
        for amount in (1, 2):
            write(WriteKind.UPSERT, query.format(amount), keys=("id",), null_keys=NullKeys.MATCH)
        assert manager.scan("lake.orders", row_filter="id is null")["amount"].to_pylist() == [2]

    def test_rows_are_deleted(self, write):
        assert write(WriteKind.DELETE, row_filter="amount > 15") == [(1, "no", 10)]

    def test_a_write_goes_to_its_branch_with_its_properties_once(self, write, manager):
        manager.create_branch("lake.orders", "audit")
        properties = {"floe.operation-id": "op-1", "team": "shop"}
        query = "select 3 as id, 'no' as region, 5 as amount"
        for _ in range(2):
            assert len(write(WriteKind.APPEND, query, branch="audit", snapshot_properties=properties)) == 2
        assert manager.scan("lake.orders", ref="audit").num_rows == 3
        summary = manager.find_snapshot("lake.orders", ref="audit").summary
        assert {key: summary[key] for key in properties} == properties
        with pytest.raises(RefNotFoundError):
            write(WriteKind.APPEND, query, branch="nowhere")

    def test_a_stream_that_loses_a_race_is_written_whole_the_second_time(self, manager, data_plane, monkeypatch):
        write, raced = data_plane.write, []

        def slow(request):
            write(request)
            if not raced:
                raced.append(manager.append("lake.orders", pa.table({"id": [9], "region": ["no"], "amount": [9]})))

        monkeypatch.setattr(data_plane, "write", slow)
        stream = pa.table({"id": [2, 3], "region": ["it", "no"], "amount": [21, 5]}).to_reader()
        manager.upsert("lake.orders", stream, keys=["id"], engine=Engine.SPARK)
        found = manager.scan("lake.orders", columns=["id", "amount"]).to_pylist()
        assert sorted(tuple(row.values()) for row in found) == [(1, 10), (2, 21), (3, 5), (9, 9)]

    def test_rows_that_cannot_be_computed_write_nothing(self, write, manager):
        before = manager.load_table("lake.orders").current_snapshot()
        with pytest.raises(EngineError, match="Could not convert string 'x'"):
            write(WriteKind.APPEND, "select 3 as id, 'no' as region, i::bigint as amount from (values ('x')) v(i)")
        assert manager.load_table("lake.orders").current_snapshot() == before

    def test_null_in_a_required_column_is_named(self, manager, data_plane):
        manager.create_table("lake.strict", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
        rows = data_plane.session.sql("select null::bigint as id")
        with pytest.raises(InvalidDataError) as caught:
            data_plane.write(WriteRequest("lake.strict", WriteKind.APPEND, rows))
        assert caught.value.nulls


def test_tables_of_format_version_3_are_read_and_not_written(catalog, manager, wide, tmp_path):
    metadata = json.loads(wide.metadata.model_dump_json())
    snapshots = [snapshot | {"first-row-id": 0, "added-rows": 4} for snapshot in metadata["snapshots"]]
    metadata |= {"format-version": 3, "next-row-id": 4, "snapshots": snapshots, "location": f"file://{tmp_path}/third"}
    (tmp_path / "third/metadata").mkdir(parents=True)
    (tmp_path / "third/metadata/00000-a.metadata.json").write_text(json.dumps(metadata))
    catalog.register_table("lake.third", f"file://{tmp_path}/third/metadata/00000-a.metadata.json")
    assert manager.frame("lake.third").project("id").fetchall() == [(1,), (2,), (3,), (None,)]
    with pytest.raises(CapabilityError, match=r"format version 3, which DuckDB cannot write.*spark"):
        manager.append("lake.third", manager.frame("lake.third"))


def test_maintenance_names_the_engine_that_does_it(data_plane, wide):
    with pytest.raises(CapabilityError) as caught:
        data_plane.rewrite_data_files("lake.wide", kind=CompactionKind.BINPACK)
    assert "engine='arrow'" in caught.value.hint


def test_threads_work_at_the_same_time(data_plane, wide):
    def count(_):
        rows = data_plane.frame(ReadRequest("lake.wide", where="id > 1"))
        return data_plane.query({"t": rows}, lambda names: f"select count(*) as n from {names['t']}").fetchall()

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(count, range(16))) == [[(2,)]] * 16


def test_a_closed_engine_opens_again(data_plane, wide):
    assert data_plane.session.sql("select 1").fetchall() == [(1,)]
    data_plane.close()
    data_plane.close()
    assert data_plane.frame(ReadRequest("lake.wide", limit=1)).project("id").fetchall() == [(1,)]
