"""Partitioned assets replace exactly the partitions they write, and read exactly the requested ones."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, InvalidDataError, TableNotFoundError
from floe_dagster import IcebergIOManager, IcebergIOManagerConfig, create_io_manager
from floe_iceberg import WriteMode
from floe_iceberg.formats.arrow_types import to_arrow

# Beta features of Dagster: one run for a range of partitions, and mappings to partitions that do not exist.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Parameter .backfill_policy."),
    pytest.mark.filterwarnings("ignore:Parameter .allow_nonexistent_upstream_partitions."),
]

DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
REGIONS = dg.StaticPartitionsDefinition(["north", "south", "it's"])
BOTH = dg.MultiPartitionsDefinition({"day": DAILY, "region": REGIONS})
START, END = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"


def daily_rows(key, *, value=1, rows=2):
    day = datetime.fromisoformat(key)
    return pa.table(
        {"ts": [day + timedelta(hours=23 * n / max(rows - 1, 1)) for n in range(rows)], "value": [value] * rows},
        schema=pa.schema({"ts": pa.timestamp("us"), "value": pa.int64()}),
    )


def daily_asset(value=1, **options):
    @dg.asset(name="events", partitions_def=options.pop("partitions_def", DAILY), **options)
    def events(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.concat_tables([daily_rows(key, value=value) for key in context.partition_keys])

    return events


def values_by_day(tables, table="public.events"):
    rows = tables.scan(table).to_pylist()
    days = sorted({row["ts"].date().isoformat() for row in rows})
    return {day: [row["value"] for row in rows if row["ts"].date().isoformat() == day] for day in days}


@pytest.mark.req("FR-027", "FR-019")
def test_writing_a_partition_replaces_exactly_that_partition(materialize, tables, metadata_of):
    for key in ("2024-01-01", "2024-01-02", "2024-01-03"):
        materialize(daily_asset(1), partition_key=key)
    assert str(tables.load_table("public.events").spec().fields[0].transform) == "day"
    for _ in range(3):
        result = materialize(daily_asset(2), partition_key="2024-01-02")
    assert values_by_day(tables) == {"2024-01-01": [1, 1], "2024-01-02": [2, 2], "2024-01-03": [1, 1]}
    seen = metadata_of(result, "events")
    assert (seen["num_rows"], seen["dagster/partition_row_count"], seen["dagster/row_count"]) == (2, 2, 6)


@pytest.mark.req("FR-027")
def test_a_range_of_partitions_is_replaced_in_one_write(materialize, tables):
    policy = dg.BackfillPolicy.single_run()
    tags = {START: "2024-01-02", END: "2024-01-04"}
    materialize(daily_asset(1, backfill_policy=policy), tags={START: "2024-01-01", END: "2024-01-05"})
    materialize(daily_asset(2, backfill_policy=policy), tags=tags)
    materialize(daily_asset(3, backfill_policy=policy), tags=tags)
    assert values_by_day(tables) == {
        "2024-01-01": [1, 1],
        "2024-01-02": [3, 3],
        "2024-01-03": [3, 3],
        "2024-01-04": [3, 3],
        "2024-01-05": [1, 1],
    }
    assert len(tables.list_snapshots("public.events")) == 3


@pytest.mark.req("FR-028")
def test_a_range_of_values_is_replaced_and_read_in_one_run(materialize, tables):
    regions = dg.StaticPartitionsDefinition(["east", "it's", "north", "south"])
    policy = dg.BackfillPolicy.single_run()
    seen: list[Any] = []

    def sales(value):
        @dg.asset(name="sales", partitions_def=regions, backfill_policy=policy, metadata={"partition_column": "region"})
        def compute(context) -> pa.Table:
            keys = context.partition_keys
            return pa.table({"region": keys, "value": [value] * len(keys)})

        return compute

    @dg.asset(partitions_def=regions, backfill_policy=policy)
    def report(sales: pa.Table) -> None:
        seen.append(sorted(sales["region"].to_pylist()))

    middle = {START: "it's", END: "north"}
    materialize(sales(1), tags={START: "east", END: "south"})
    materialize(sales(2), report, tags=middle)
    materialize(sales(3), tags=middle)
    rows = tables.scan("public.sales").to_pylist()
    assert {row["region"]: row["value"] for row in rows} == {"east": 1, "it's": 3, "north": 3, "south": 1}
    assert len(rows) == 4
    assert seen == [["it's", "north"]]


@pytest.mark.req("FR-027")
def test_a_day_in_another_zone_is_replaced_by_its_own_window(materialize, tables):
    tokyo = dg.DailyPartitionsDefinition("2024-01-01", timezone="Asia/Tokyo", end_date="2024-02-01")

    def events(value):
        @dg.asset(name="events", partitions_def=tokyo)
        def events(context: dg.AssetExecutionContext) -> pa.Table:
            window = context.partition_time_window
            moments = [window.start, window.end - timedelta(microseconds=1)]
            kind = pa.timestamp("us", tz="UTC")
            return pa.table({"ts": pa.array([m.astimezone(UTC) for m in moments], kind), "value": [value] * 2})

        return events

    for key in ("2024-01-01", "2024-01-02", "2024-01-03"):
        materialize(events(1), partition_key=key)
    materialize(events(2), partition_key="2024-01-02")
    rows = sorted(tables.scan("public.events").to_pylist(), key=lambda row: row["ts"])
    assert [row["value"] for row in rows] == [1, 1, 2, 2, 1, 1]
    assert rows[2]["ts"] == datetime(2024, 1, 1, 15, tzinfo=UTC)


@pytest.mark.req("FR-027")
@pytest.mark.parametrize(
    ("partitions_def", "keys"),
    [
        (dg.HourlyPartitionsDefinition("2024-01-01-00:00"), ["2024-01-01-05:00", "2024-01-01-06:00"]),
        (dg.WeeklyPartitionsDefinition("2024-01-01"), ["2024-01-07", "2024-01-14"]),
        (dg.MonthlyPartitionsDefinition("2024-01-01"), ["2024-01-01", "2024-02-01"]),
    ],
    ids=["hourly", "weekly", "monthly"],
)
def test_other_windows_are_replaced_exactly_too(partitions_def, keys, materialize, tables):
    def events(value):
        @dg.asset(name="events", partitions_def=partitions_def)
        def events(context: dg.AssetExecutionContext) -> pd.DataFrame:
            window = context.partition_time_window
            moments = [window.start.replace(tzinfo=None), window.end.replace(tzinfo=None) - timedelta(seconds=1)]
            return pd.DataFrame({"ts": moments, "value": value})

        return events

    for key in keys:
        materialize(events(1), partition_key=key)
    materialize(events(2), partition_key=keys[0])
    assert sorted(tables.scan("public.events")["value"].to_pylist()) == [1, 1, 2, 2]


@pytest.mark.req("FR-028")
def test_static_and_dynamic_partitions_are_identity_partitions(materialize, tables):
    for partitions_def in (REGIONS, dg.DynamicPartitionsDefinition(name="regions")):

        def sales(value, partitions_def=partitions_def):
            metadata = {"partition_column": "region"}

            @dg.asset(name="sales", partitions_def=partitions_def, metadata=metadata)
            def sales(context: dg.AssetExecutionContext) -> pa.Table:
                return pa.table({"region": [context.partition_key] * 2, "value": [value] * 2})

            return sales

        with dg.instance_for_test() as instance:
            instance.add_dynamic_partitions("regions", ["north", "south", "it's"])
            for key in ("north", "south", "it's"):
                materialize(sales(1), partition_key=key, instance=instance)
            materialize(sales(2), partition_key="it's", instance=instance)
        rows = tables.scan("public.sales").to_pylist()
        assert sorted((row["region"], row["value"]) for row in rows) == [
            ("it's", 2),
            ("it's", 2),
            ("north", 1),
            ("north", 1),
            ("south", 1),
            ("south", 1),
        ]
        assert str(tables.load_table("public.sales").spec().fields[0].transform) == "identity"
        tables.drop_table("public.sales")


@pytest.mark.req("FR-028")
def test_partitions_of_two_dimensions(materialize, tables):
    multi = dg.MultiPartitionsDefinition({"day": DAILY, "region": REGIONS})

    def sales(value):
        @dg.asset(name="sales", partitions_def=multi, metadata={"partition_expr": {"day": "ts", "region": "region"}})
        def sales(context: dg.AssetExecutionContext) -> pa.Table:
            keys = context.partition_key.keys_by_dimension
            return daily_rows(keys["day"], value=value).append_column("region", pa.array([keys["region"]] * 2))

        return sales

    def key(day, region):
        return dg.MultiPartitionKey({"day": day, "region": region})

    for day in ("2024-01-01", "2024-01-02"):
        for region in ("north", "south"):
            materialize(sales(1), partition_key=key(day, region))
    materialize(sales(2), partition_key=key("2024-01-02", "north"))
    found = {(row["ts"].day, row["region"]): row["value"] for row in tables.scan("public.sales").to_pylist()}
    assert found == {(1, "north"): 1, (1, "south"): 1, (2, "north"): 2, (2, "south"): 1}
    assert tables.scan("public.sales").num_rows == 8
    assert [str(field.transform) for field in tables.load_table("public.sales").spec().fields] == ["day", "identity"]


def test_a_partitioned_asset_can_append_and_upsert(materialize, tables, metadata_of):
    appending = daily_asset(1, metadata={"write_mode": "append"})
    materialize(appending, partition_key="2024-01-01")
    result = materialize(appending, partition_key="2024-01-01")
    assert metadata_of(result, "events")["dagster/partition_row_count"] == 4
    tables.drop_table("public.events")
    upserting = daily_asset(1, metadata={"write_mode": "upsert", "upsert_keys": ["ts"]})
    for _ in range(2):
        materialize(upserting, partition_key="2024-01-01")
    assert tables.scan("public.events").num_rows == 2


def test_an_empty_partition_empties_the_partition(materialize, tables):
    materialize(daily_asset(1), partition_key="2024-01-01")
    materialize(daily_asset(1), partition_key="2024-01-02")

    @dg.asset(name="events", partitions_def=DAILY)
    def events() -> pa.Table:
        return daily_rows("2024-01-01", rows=0)

    materialize(events, partition_key="2024-01-01")
    assert list(values_by_day(tables)) == ["2024-01-02"]


@pytest.mark.parametrize("kind", ["arrow", "reader", "pandas"])
def test_rows_outside_the_partition_are_refused_and_nothing_is_written(kind, materialize, tables):
    materialize(daily_asset(1), partition_key="2024-01-02")

    @dg.asset(name="events", partitions_def=DAILY)
    def events():
        rows = pa.concat_tables([daily_rows("2024-01-02"), daily_rows("2024-01-03", rows=1)])
        return {"arrow": rows, "reader": rows.to_reader(), "pandas": rows.to_pandas()}[kind]

    with pytest.raises(InvalidDataError, match=r"1 row outside the partition that it writes \(2024-01-02\)"):
        materialize(events, partition_key="2024-01-02")
    assert len(tables.list_snapshots("public.events")) == 1


def test_rows_without_a_partition_value_are_outside(materialize):
    @dg.asset(name="events", partitions_def=DAILY)
    def events() -> pa.Table:
        return pa.table({"ts": pa.array([None], pa.timestamp("us")), "value": [1]})

    with pytest.raises(InvalidDataError, match="1 row outside"):
        materialize(events, partition_key="2024-01-02")


def test_data_without_its_partition_column_is_refused(materialize):
    materialize(daily_asset(1), partition_key="2024-01-02")

    @dg.asset(name="events", partitions_def=DAILY)
    def events() -> pa.Table:
        return pa.table({"value": [1]})

    with pytest.raises(InvalidDataError, match="does not contain its partition column 'ts'"):
        materialize(events, partition_key="2024-01-02")


@pytest.mark.parametrize("kind", ["arrow", "reader"])
@pytest.mark.parametrize("column", ["place.region", "home.region", "region"])
def test_rows_are_guarded_by_columns_of_any_name(column, kind, materialize, tables):
    def rows(*regions):
        structs = [{"region": region} for region in regions]
        # The second name has a dot, and is not a field of a struct.
        return pa.table({"region": regions, "place": structs, "home.region": regions, "n": range(len(regions))})

    found = ["north", "north"]

    @dg.asset(name="shops", partitions_def=REGIONS, metadata={"partition_column": column})
    def shops():
        table = rows(*found)
        return table.to_reader() if kind == "reader" else table

    for _ in range(2):
        materialize(shops, partition_key="north")
    assert tables.scan("public.shops").num_rows == 2
    found[1] = "south"
    with pytest.raises(InvalidDataError, match="1 row outside"):
        materialize(shops, partition_key="north")
    found[1] = None
    with pytest.raises(InvalidDataError, match="1 row outside"):
        materialize(shops, partition_key="north")
    assert tables.scan("public.shops").num_rows == 2


def test_data_whose_struct_lacks_the_partition_column_is_refused(materialize):
    found = [{"region": "north"}]

    @dg.asset(name="shops", partitions_def=REGIONS, metadata={"partition_column": "place.region"})
    def shops() -> pa.Table:
        return pa.table({"place": found})

    materialize(shops, partition_key="north")
    found[0] = {"city": "Oslo"}
    with pytest.raises(InvalidDataError, match=r"does not contain its partition column 'place\.region'"):
        materialize(shops, partition_key="north")


def test_the_partition_column_can_be_configured(materialize, tables):
    @dg.asset(partitions_def=DAILY)
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        day = date.fromisoformat(context.partition_key)
        return pa.table({"ordered": [day], "shipped": [day + timedelta(days=3)]})

    with pytest.raises(ConfigurationError, match="Candidates: ordered, shipped"):
        materialize(orders, partition_key="2024-01-02")
    materialize(
        orders, partition_key="2024-01-02", io=IcebergIOManager(table_manager=tables, partition_column="ordered")
    )
    assert tables.scan("public.orders").num_rows == 1
    # Once the table exists, its partitioning determines the column.
    materialize(orders, partition_key="2024-01-02")
    assert tables.scan("public.orders").num_rows == 1


def reader(seen, partitions_def=None, mapping=None, upstream="events"):
    ins = {"events": dg.AssetIn(key=upstream, partition_mapping=mapping)}

    @dg.asset(name="report", ins=ins, partitions_def=partitions_def)
    def report(events: pa.Table) -> None:
        seen.append(sorted({moment.date().isoformat() for moment in events["ts"].to_pylist()}))

    return report


@pytest.mark.req("FR-027", "FR-025")
def test_reading_loads_what_the_mapping_asks_for(materialize):
    for key in ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-08"):
        materialize(daily_asset(), partition_key=key)

    def read(partitions_def, mapping=None, **options):
        seen: list[Any] = []
        materialize(daily_asset(), reader(seen, partitions_def, mapping), selection=["report"], **options)
        return seen[0]

    weekly = dg.WeeklyPartitionsDefinition("2024-01-01", day_offset=1)
    yesterday = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    assert read(DAILY, partition_key="2024-01-02") == ["2024-01-02"]
    assert read(DAILY, yesterday, partition_key="2024-01-02") == ["2024-01-01"]
    assert read(weekly, partition_key="2024-01-01") == ["2024-01-01", "2024-01-02", "2024-01-03"]
    assert read(None) == ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-08"]
    assert read(None, dg.SpecificPartitionsPartitionMapping(["2024-01-01", "2024-01-08"])) == [
        "2024-01-01",
        "2024-01-08",
    ]
    assert read(DAILY, partition_key="2024-01-05") == []
    assert read(DAILY, tags={START: "2024-01-02", END: "2024-01-03"}) == ["2024-01-02", "2024-01-03"]


def test_a_mapping_that_asks_for_nothing_loads_nothing(materialize):
    materialize(daily_asset(), partition_key="2024-01-01")
    seen: list[Any] = []
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1, allow_nonexistent_upstream_partitions=True)
    materialize(daily_asset(), reader(seen, DAILY, before), selection=["report"], partition_key="2024-01-01")
    assert seen == [[]]


@pytest.mark.req("FR-025", "FR-027")
@pytest.mark.parametrize("kind", [pa.Table, pa.RecordBatchReader, pd.DataFrame, pl.DataFrame, pl.LazyFrame])
def test_an_asset_that_reads_its_own_earlier_partition_begins_with_no_rows(materialize, tables, kind):
    seen: list[Any] = []

    def events(context, events):
        seen.append(events)
        return daily_rows(context.partition_key)

    events.__annotations__["events"] = kind
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)
    asset = dg.asset(partitions_def=DAILY, ins={"events": dg.AssetIn(partition_mapping=before)})(events)
    for key in ("2024-01-01", "2024-01-02", "2024-01-03"):
        materialize(asset, partition_key=key)
    assert all(isinstance(frame, kind) for frame in seen)
    rows = [frame.read_all() if kind is pa.RecordBatchReader else to_arrow(frame) for frame in seen]
    assert [frame.num_rows for frame in rows] == [0, 2, 2]
    assert tables.scan("public.events").num_rows == 6


def test_an_earlier_partition_that_nobody_has_made_is_missed(materialize):
    @dg.asset(
        partitions_def=DAILY,
        ins={"events": dg.AssetIn(partition_mapping=dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1))},
    )
    def events(context, events: pa.Table) -> pa.Table:
        return daily_rows(context.partition_key)

    with pytest.raises(TableNotFoundError, match=r"public\.events"):
        materialize(events, partition_key="2024-01-02")


def test_metadata_of_the_upstream_asset_names_the_column_to_read_by(materialize, tables):
    @dg.asset(partitions_def=DAILY, metadata={"partition_column": "ts"})
    def events(context: dg.AssetExecutionContext) -> pa.Table:
        rows = daily_rows(context.partition_key)
        return rows.append_column("loaded", pa.array([datetime(2024, 6, 1, tzinfo=UTC)] * 2))

    seen: list[Any] = []
    for key in ("2024-01-01", "2024-01-02"):
        materialize(events, partition_key=key)
    materialize(events, reader(seen, DAILY), selection=["report"], partition_key="2024-01-02")
    assert seen == [["2024-01-02"]]


def test_a_filter_of_the_input_and_its_partition_both_hold(materialize):
    materialize(daily_asset(1), partition_key="2024-01-01")
    materialize(daily_asset(1), partition_key="2024-01-02")
    seen: list[Any] = []

    @dg.asset(ins={"events": dg.AssetIn(metadata={"row_filter": "ts >= '2024-01-01T12:00:00'"})}, partitions_def=DAILY)
    def report(events: pa.Table) -> None:
        seen.append(events.num_rows)

    materialize(daily_asset(), report, selection=["report"], partition_key="2024-01-01")
    assert seen == [1]


@pytest.mark.req("FR-030")
def test_a_mode_that_the_io_manager_was_given_holds_for_partitions_too(materialize, tables):
    def written(io, **options):
        for _ in range(2):
            materialize(daily_asset(1, **options), partition_key="2024-01-01", io=io)
        rows = tables.scan("public.events").num_rows
        tables.drop_table("public.events")
        return rows

    appending = IcebergIOManager(table_manager=tables, write_mode=WriteMode.APPEND)
    assert written(appending) == 4
    assert written(IcebergIOManager(table_manager=tables, default_write_mode=WriteMode.APPEND)) == 4
    assert written(appending, metadata={"write_mode": "overwrite"}) == 2
    assert written(IcebergIOManager(table_manager=tables)) == 2
    assert written(IcebergIOManager(table_manager=tables, write_mode=WriteMode.OVERWRITE)) == 2
    upserting = IcebergIOManager(table_manager=tables, write_mode=WriteMode.UPSERT)
    assert written(upserting, metadata={"upsert_keys": ["ts"]}) == 2


@pytest.mark.req("FR-030")
@pytest.mark.parametrize(
    ("config", "rows"),
    [({}, 2), ({"default_write_mode": "APPEND"}, 4), ({"default_write_mode": "OVERWRITE"}, 2)],
    ids=["nothing", "append", "overwrite"],
)
def test_a_mode_that_is_chosen_at_launch_holds_for_partitions_too(materialize, tables, config, rows):
    io = IcebergIOManager(table_manager=tables)
    launch = {"resources": {"io_manager": {"config": config}}}
    for _ in range(2):
        materialize(daily_asset(1), partition_key="2024-01-01", io=io, run_config=launch)
    assert tables.scan("public.events").num_rows == rows
    assert io.chosen_write_mode is None


@pytest.mark.req("FR-030", "API-01")
def test_a_factory_passes_on_only_a_mode_that_was_chosen(catalog):
    address = {"catalog_uri": "http://127.0.0.1:1/", "warehouse": "w"}
    assert create_io_manager(IcebergIOManagerConfig(**address), catalog).chosen_write_mode is None
    chosen = IcebergIOManagerConfig(**address, write_mode=WriteMode.APPEND)
    assert create_io_manager(chosen, catalog).chosen_write_mode is WriteMode.APPEND


@pytest.mark.req("FR-027", "FR-028")
@pytest.mark.parametrize(
    ("partitions_def", "key", "column", "terms"),
    [
        (DAILY, "2024-01-02", "updated", ["day(updated)"]),
        (REGIONS, "north", "area", ["area"]),
        (BOTH, "2024-01-02|north", "updated", ["day(updated)", "region"]),
        (BOTH, "2024-01-02|north", {"day": "updated", "region": "area"}, ["day(updated)", "area"]),
    ],
    ids=["time", "static", "multi", "multi by dimension"],
)
def test_the_column_of_the_io_manager_serves_every_kind_of_partitions(partitions_def, key, column, terms, tables):
    io = IcebergIOManager(table_manager=tables, partition_column=column)
    rows = pa.table(
        {
            "created": pa.array([datetime.fromisoformat("2023-01-01")] * 2, pa.timestamp("us")),
            "updated": pa.array([datetime.fromisoformat("2024-01-02")] * 2, pa.timestamp("us")),
            "region": ["north"] * 2,
            "area": ["north"] * 2,
        }
    )

    @dg.asset(partitions_def=partitions_def)
    def sales() -> pa.Table:
        return rows

    for _ in range(2):
        assert dg.materialize([sales], resources={"io_manager": io}, partition_key=key).success
    table = tables.load_table("public.sales")
    names = [table.schema().find_column_name(field.source_id) for field in table.spec().fields]
    shown = [
        f"{field.transform}({name})" if str(field.transform) != "identity" else name
        for field, name in zip(table.spec().fields, names, strict=True)
    ]
    assert shown == terms
    assert tables.scan("public.sales").num_rows == 2
    read = dg.build_input_context(asset_key="sales", partition_key=key, asset_partitions_def=partitions_def)
    assert io.load_input(read).num_rows == 2
