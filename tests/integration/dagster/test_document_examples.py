"""The Dagster examples of the API contract, on an embedded catalog."""

from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from dagster import AssetSpec, DailyPartitionsDefinition, Definitions, asset, materialize
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import IcebergIOManagerConfig, IcebergTableManager, create_io_manager


@pytest.fixture
def embedded(tmp_path, namespace):
    """Give the example's configuration with the embedded catalog behind it."""
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    config = IcebergIOManagerConfig(
        catalog_uri="http://localhost:8181/api/catalog",
        warehouse="my_warehouse",
        client_id="my_client",
        client_secret="my_secret",
        default_namespace=namespace,
    )
    yield create_io_manager(config, catalog), IcebergTableManager(catalog)
    catalog.close()


@pytest.mark.req("API-01", "API-15")
def test_basic_dagster_integration(embedded, namespace):
    io_manager, tables = embedded

    @asset
    def raw_customers() -> pd.DataFrame:
        """Load raw customer data."""
        return pd.DataFrame(
            {
                "id": [1, 2, 3],
                "name": ["Alice", "Bob", "Charlie"],
                "email": ["alice@example.com", "bob@example.com", "charlie@example.com"],
            }
        )

    @asset
    def customers(raw_customers: pd.DataFrame) -> pd.DataFrame:
        """Transform customer data."""
        return raw_customers.assign(name_upper=raw_customers["name"].str.upper())

    defs = Definitions(
        assets=[raw_customers, customers],
        resources={"io_manager": io_manager},
    )
    assert defs.resolve_implicit_global_asset_job_def().execute_in_process().success
    assert tables.scan(f"{namespace}.customers")["name_upper"].to_pylist() == ["ALICE", "BOB", "CHARLIE"]


@pytest.mark.req("API-15", "FR-027")
def test_partitioned_assets(embedded, namespace):
    io_manager, tables = embedded
    daily_partitions = DailyPartitionsDefinition(start_date="2024-01-01")

    def load_events_for_date(partition_date):
        day = datetime.fromisoformat(partition_date)
        return pa.table({"ts": [day, day + timedelta(hours=1)], "value": [1, 2]})

    @asset(partitions_def=daily_partitions)
    def daily_events(context) -> pa.Table:
        """Load events for a specific day."""
        partition_date = context.partition_key
        # IOManager writes to partition based on partition_key
        return load_events_for_date(partition_date)

    for key in ("2024-01-01", "2024-01-02", "2024-01-01"):
        assert materialize([daily_events], resources={"io_manager": io_manager}, partition_key=key).success
    assert tables.scan(f"{namespace}.daily_events").num_rows == 4


@pytest.mark.req("FR-025")
def test_a_table_that_nobody_in_this_code_makes_is_an_input_too(embedded, namespace):
    io_manager, tables = embedded
    tables.create_namespace(namespace)
    tables.create_table(f"{namespace}.orders", pa.schema({"id": pa.int64()}))
    tables.append(f"{namespace}.orders", [{"id": 7}])

    @asset
    def copy(orders: pa.Table) -> pa.Table:
        return orders

    materialize([AssetSpec("orders"), copy], resources={"io_manager": io_manager}, selection=[copy])
    assert tables.scan(f"{namespace}.copy").to_pylist() == [{"id": 7}]
