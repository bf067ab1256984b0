"""Dagster assets stored as tables of a real Polaris server."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from floe_dagster import IcebergIOManager
from floe_iceberg import IcebergIOManagerConfig, IcebergTableManager, create_io_manager
from floe_polaris import create_catalog

DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]})


@pytest.fixture
def io_manager(tables, unique):
    return IcebergIOManager(table_manager=tables, default_namespace=unique)


def materialize(io_manager, *assets, **options):
    result = dg.materialize(list(assets), resources={"io_manager": io_manager}, **options)
    assert result.success
    return result


def test_an_asset_is_a_table_and_the_next_one_reads_it(io_manager, tables, unique):
    @dg.asset
    def orders() -> pa.Table:
        return ROWS

    @dg.asset
    def names(orders: pd.DataFrame) -> pd.DataFrame:
        return orders.assign(name=orders["name"].str.upper())

    result = materialize(io_manager, orders, names)
    assert tables.scan(f"{unique}.names").sort_by("id")["name"].to_pylist() == ["A", "B", "C"]
    [event] = result.asset_materializations_for_node("orders")
    snapshot = tables.get_current_snapshot(f"{unique}.orders")
    assert str(event.metadata["snapshot_id"].value) == str(snapshot.snapshot_id)


def test_a_partition_that_is_run_again_is_replaced(io_manager, tables, unique):
    @dg.asset(partitions_def=DAILY)
    def events(context) -> pa.Table:
        day = pd.Timestamp(context.partition_key)
        return pa.table({"ts": [day, day + pd.Timedelta(hours=23)], "value": [1, 2]})

    for key in ("2024-01-01", "2024-01-02", "2024-01-01"):
        materialize(io_manager, events, partition_key=key)
    assert tables.scan(f"{unique}.events").num_rows == 4


def test_an_asset_with_more_columns_widens_its_table(io_manager, tables, unique):
    def orders(rows):
        @dg.asset(name="orders")
        def compute() -> pa.Table:
            return rows

        return compute

    materialize(io_manager, orders(ROWS))
    materialize(io_manager, orders(ROWS.append_column("amount", pa.array([1.0, 2.0, 3.0]))))
    found = tables.scan(f"{unique}.orders")
    assert found.num_rows == 6
    assert found["amount"].null_count == 3


def test_an_io_manager_connects_by_its_settings(polaris_config, tables, unique):
    secret = polaris_config.client_secret
    if secret is None or polaris_config.token_endpoint or polaris_config.access_delegation == "none":
        pytest.skip("capability: an IO manager's settings have no token endpoint, and it asks for vended credentials")
    config = IcebergIOManagerConfig(
        catalog_uri=polaris_config.uri,
        warehouse=polaris_config.warehouse,
        client_id=polaris_config.client_id,
        client_secret=secret.get_secret_value(),
        default_namespace=unique,
        catalog_properties=polaris_config.properties,
    )

    @dg.asset
    def orders() -> pa.Table:
        return ROWS

    materialize(create_io_manager(config), orders)
    assert tables.scan(f"{unique}.orders").num_rows == 3


@pytest.mark.spark
def test_a_pyspark_frame_is_written_and_read_by_spark(polaris_config, tables, unique, spark_over):
    catalog = create_catalog(polaris_config)
    with_spark = IcebergTableManager(catalog, compute=spark_over(catalog))
    seen = []

    @dg.asset
    def orders() -> DataFrame:
        return with_spark.spark.createDataFrame(ROWS.to_pandas())

    @dg.asset
    def count(orders: DataFrame) -> None:
        seen.extend(orders.collect())

    materialize(IcebergIOManager(table_manager=with_spark, default_namespace=unique), orders, count)
    assert sorted(seen) == [(1, "a"), (2, "b"), (3, "c")]
    assert tables.scan(f"{unique}.orders").sort_by("id").to_pylist() == ROWS.to_pylist()
    catalog.close()
