"""Assets that return and read PySpark frames."""

from datetime import datetime
from typing import Optional

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from floe_core.errors import EngineError, InvalidDataError, WriteError

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})
DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")


@pytest.mark.req("FR-024", "FR-025", "SC-007")
def test_a_pyspark_frame_is_a_table_and_comes_back_as_every_kind(materialize, tables, metadata_of):
    seen = {}

    @dg.asset
    def orders() -> DataFrame:
        return tables.spark.createDataFrame(ROWS.to_pandas())

    def reader(name, annotation):
        def compute(orders):
            seen[name] = orders

        compute.__annotations__ = {"orders": annotation, "return": None}
        return dg.asset(name=name)(compute)

    kinds = {
        "spark": DataFrame,
        "maybe_spark": Optional[DataFrame],  # noqa: UP045 - Dagster refuses X | None
        "arrow": pa.Table,
        "reader": pa.RecordBatchReader,
        "pandas": pd.DataFrame,
        "polars": pl.DataFrame,
        "lazy": pl.LazyFrame,
    }
    readers = [reader(name, kind) for name, kind in kinds.items()]
    result = materialize(orders, *readers)
    assert result.success
    written = metadata_of(result, "orders")
    assert (written["engine"], written["num_rows"], written["files"] > 0) == ("spark", 3, True)
    assert sorted(seen["spark"].collect()) == [(1, "a"), (2, "b"), (3, "c")]
    assert isinstance(seen["maybe_spark"], DataFrame)
    assert seen["arrow"].num_rows == seen["reader"].read_all().num_rows == 3
    assert len(seen["pandas"]) == seen["polars"].height == seen["lazy"].collect().height == 3


@pytest.mark.req("FR-025", "FR-027")
def test_a_first_partition_reads_no_earlier_one_of_its_own(materialize, tables):
    seen = []
    before = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)

    @dg.asset(partitions_def=DAILY, ins={"events": dg.AssetIn(partition_mapping=before)})
    def events(context, events: DataFrame) -> DataFrame:
        seen.append((events.columns, events.count()))
        return tables.spark.sql(f"select timestamp_ntz '{context.partition_key} 12:00:00' as ts")

    for key in ("2024-01-01", "2024-01-02"):
        materialize(events, partition_key=key)
    assert seen == [([], 0), (["ts"], 1)]


@pytest.mark.req("FR-022", "FR-023", "FR-021")
def test_what_an_input_asks_for_is_pushed_down_to_spark(materialize, tables):
    tables.create_namespace("public")
    tables.create_table("public.orders", ROWS.schema)
    first = tables.append("public.orders", ROWS)
    tables.append("public.orders", ROWS)
    seen = []

    def report(**metadata):
        @dg.asset(name="report", ins={"orders": dg.AssetIn(metadata=metadata)})
        def report(orders: DataFrame) -> None:
            seen.append(orders.collect())

        materialize(dg.AssetSpec("orders"), report, selection=["report"])
        return seen.pop()

    assert report(columns=["name"], row_filter="id = 1") == [("a",), ("a",)]
    assert len(report(snapshot_id=first.snapshot_id)) == 3


def daily_events(tables, value, keys=None, **options):
    @dg.asset(name="events", partitions_def=DAILY, **options)
    def events(context) -> DataFrame:
        rows = [(f"{key} {hour}:00:00", value) for key in keys or context.partition_keys for hour in ("00", "23")]
        frame = tables.spark.createDataFrame(rows, "ts string, value int")
        return frame.selectExpr("cast(ts as timestamp) as ts", "value")

    return events


@pytest.mark.req("FR-027", "FR-019")
def test_spark_replaces_exactly_one_partition(materialize, tables, metadata_of):
    for key in ("2024-01-01", "2024-01-02"):
        materialize(daily_events(tables, 1), partition_key=key)
    for _ in range(2):
        result = materialize(daily_events(tables, 2), partition_key="2024-01-02")
    found = tables.scan("public.events").to_pandas().groupby("value").size().to_dict()
    assert found == {1: 2, 2: 2}
    assert str(tables.load_table("public.events").spec().fields[0].transform) == "day"
    seen = metadata_of(result, "events")
    assert (seen["num_rows"], seen["dagster/partition_row_count"], seen["dagster/row_count"]) == (2, 2, 4)


@pytest.mark.req("FR-027")
def test_a_window_across_partition_values_is_replaced_exactly_by_spark(materialize, tables):
    weekly = dg.WeeklyPartitionsDefinition("2024-01-01", timezone="America/New_York")

    def events(value):
        @dg.asset(name="events", partitions_def=weekly)
        def events(context) -> DataFrame:
            window = context.partition_time_window
            rows = [(window.start.timestamp(), value), (window.end.timestamp() - 1, value)]
            return tables.spark.createDataFrame(rows, "s double, value int").selectExpr(
                "timestamp_seconds(s) as ts", "value"
            )

        return events

    for key in ("2024-01-07", "2024-01-14", "2024-01-21"):
        materialize(events(1), partition_key=key)
    materialize(events(2), partition_key="2024-01-14")
    rows = sorted((row["ts"], row["value"]) for row in tables.scan("public.events").to_pylist())
    assert [value for _, value in rows] == [1, 1, 2, 2, 1, 1]


def test_rows_outside_the_partition_fail_the_spark_write_and_nothing_lands(materialize, tables):
    materialize(daily_events(tables, 1), partition_key="2024-01-02")
    stray = daily_events(tables, 2, keys=["2024-01-02", "2024-01-03"])
    with pytest.raises(InvalidDataError, match=r"outside the partition that it writes \(2024-01-02\)"):
        materialize(stray, partition_key="2024-01-02")
    assert tables.scan("public.events")["value"].to_pylist() == [1, 1]


@pytest.mark.req("TM-06")
def test_spark_upserts_by_key_and_counts_its_rows(materialize, tables, metadata_of):
    def customers(rows):
        @dg.asset(name="customers", metadata={"write_mode": "upsert", "upsert_keys": ["id"]})
        def customers() -> DataFrame:
            return tables.spark.createDataFrame(rows, "id long, name string")

        return customers

    materialize(customers([(1, "a"), (2, "b")]))
    result = materialize(customers([(2, "B"), (3, "C")]))
    assert metadata_of(result, "customers")["num_rows"] == 2
    assert sorted(tables.scan("public.customers")["name"].to_pylist()) == ["B", "C", "a"]


@pytest.mark.req("FR-020")
def test_a_new_column_of_a_spark_frame_evolves_the_table(materialize, tables):
    def orders(schema, row):
        @dg.asset(name="orders")
        def orders() -> DataFrame:
            return tables.spark.createDataFrame([row], schema)

        return orders

    materialize(orders("id int", (1,)))
    materialize(orders("id long, at timestamp_ntz", (2, datetime(2024, 1, 1))))  # noqa: DTZ001 - no zone on purpose
    assert [str(field.field_type) for field in tables.load_table("public.orders").schema().fields] == [
        "long",
        "timestamp",
    ]
    assert tables.scan("public.orders").num_rows == 2


@pytest.mark.live
@pytest.mark.req("API-03", "API-13")
def test_what_spark_has_no_better_name_for_is_a_failed_write_with_its_cause(materialize, tables):
    materialize(producer_of(lambda: tables.spark.sql("SELECT 1L AS id")))
    failing = producer_of(lambda: tables.spark.sql("SELECT CAST(raise_error('it is rotten') AS BIGINT) AS id"))
    with pytest.raises(WriteError, match=r"Spark failed to write to 'public\.orders'.*it is rotten") as caught:
        materialize(failing)
    assert isinstance(caught.value, EngineError)
    assert isinstance(caught.value.__cause__, PySparkException)
    assert tables.scan("public.orders").num_rows == 1


def producer_of(frame):
    @dg.asset(name="orders")
    def orders() -> DataFrame:
        return frame()

    return orders


@pytest.mark.req("FR-028")
def test_spark_replaces_static_partitions_whatever_their_names(materialize, tables):
    regions = dg.StaticPartitionsDefinition(["north", "it's", "ü/ö"])

    def sales(value):
        @dg.asset(name="sales", partitions_def=regions, metadata={"partition_column": "region"})
        def sales(context) -> DataFrame:
            return tables.spark.createDataFrame([(context.partition_key, value)] * 2, "region string, value int")

        return sales

    for key in ("north", "it's", "ü/ö"):
        materialize(sales(1), partition_key=key)
    for key in ("it's", "ü/ö"):
        materialize(sales(2), partition_key=key)
    rows = sorted((row["region"], row["value"]) for row in tables.scan("public.sales").to_pylist())
    assert rows == [("it's", 2), ("it's", 2), ("north", 1), ("north", 1), ("ü/ö", 2), ("ü/ö", 2)]
