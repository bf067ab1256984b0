"""The API contract's Dagster examples, as they are written there."""

from datetime import datetime, timedelta

import pandas as pd
import pyarrow as pa
import pytest
from dagster import AssetSpec, DailyPartitionsDefinition, Definitions, asset, materialize
from pyiceberg.catalog.sql import SqlCatalog

import floe_iceberg
from floe_core.compile import compile_project, write_artifacts
from floe_core.schemas import CompiledArtifacts
from floe_iceberg import (
    IcebergIOManagerConfig,
    IcebergTableManager,
    create_io_manager,
    create_io_manager_from_artifacts,
)
from floe_iceberg.io_manager import IcebergIOManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties


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


@pytest.fixture
def rest(gateway, minio, namespace):
    """Give the example's configuration for a REST server that asks for tokens."""
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    connection = {
        "warehouse": "lake",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
    }
    properties = store_properties(minio)
    config = IcebergIOManagerConfig(
        catalog_uri=gateway.url, default_namespace=namespace, catalog_properties=properties, **connection
    )
    catalog = create_catalog(PolarisCatalogConfig(uri=gateway.url, properties=properties, **connection))
    yield create_io_manager(config), IcebergTableManager(catalog)
    catalog.close()


@pytest.fixture(params=["embedded", "rest"])
def setup(request):
    """Give an IO manager as the document makes it, and a look at its tables."""
    return request.getfixturevalue(request.param)


@pytest.mark.req("API-01", "API-15")
def test_basic_dagster_integration(setup, namespace):
    io_manager, tables = setup

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
def test_partitioned_assets(setup, namespace):
    io_manager, tables = setup
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


@pytest.mark.req("API-14", "API-15", "FR-034")
def test_from_compiled_artifacts(tmp_path, monkeypatch):
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: shop\n")
    write_artifacts(compile_project(tmp_path))
    monkeypatch.chdir(tmp_path)

    # Load CompiledArtifacts
    artifacts = CompiledArtifacts.from_json_file(".floe/compiled_artifacts.json")

    # Create IOManager from artifacts
    io_manager = create_io_manager_from_artifacts(artifacts)

    @asset
    def customers() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2], "name": ["Alice", "Bob"]})

    @asset
    def downstream(customers: pa.Table) -> pa.Table:
        return customers.filter(pa.compute.equal(customers["name"], "Bob"))

    assert materialize([customers, downstream], resources={"io_manager": io_manager}).success
    with IcebergTableManager.from_artifacts(artifacts) as tables:
        assert tables.scan("public.downstream").to_pylist() == [{"id": 2, "name": "Bob"}]
    io_manager.tables.close()


@pytest.mark.req("API-02")
def test_the_io_manager_on_a_table_manager(tmp_path):
    catalog = SqlCatalog("local", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    table_manager = IcebergTableManager(catalog)

    @asset(io_manager_key="iceberg_io_manager")
    def customers_silver():
        return pa.table({"id": [1]})

    defs = Definitions(
        assets=[customers_silver],
        resources={
            "iceberg_io_manager": IcebergIOManager(
                table_manager=table_manager,
                default_write_mode=floe_iceberg.WriteMode.APPEND,
            ),
        },
    )
    assert defs.resolve_implicit_global_asset_job_def().execute_in_process().success
    assert table_manager.scan("public.customers_silver").num_rows == 1
    catalog.close()


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
