"""The usage examples of the API contract, run as they are written; only the address is another."""

from __future__ import annotations

import textwrap
from datetime import datetime, timedelta

import pytest

from floe_testing.rest_fixtures import store_properties

ADDRESS = "http://localhost:8181/api/catalog"

DIRECT_TABLE_MANAGEMENT = """
    from floe_polaris import create_catalog, PolarisCatalogConfig
    from floe_iceberg import IcebergTableManager
    import pyarrow as pa

    # Create catalog connection
    catalog_config = PolarisCatalogConfig(
        uri="http://localhost:8181/api/catalog",
        warehouse="my_warehouse",
        client_id="my_client",
        client_secret="my_secret",
    )
    catalog = create_catalog(catalog_config)

    # Create table manager
    manager = IcebergTableManager(catalog)

    # Define schema
    schema = pa.schema([
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("created_at", pa.timestamp("us")),
    ])

    # Create table
    table = manager.create_table_if_not_exists("bronze.customers", schema)

    # Append data
    data = pa.Table.from_pydict({
        "id": [1, 2, 3],
        "name": ["Alice", "Bob", "Charlie"],
        "created_at": [datetime.now()] * 3,
    })
    snapshot = manager.append("bronze.customers", data)
    print(f"Created snapshot: {snapshot.snapshot_id}")

    # Query data
    result = manager.scan("bronze.customers", columns=["id", "name"])
    print(result.to_pandas())
"""

TIME_TRAVEL = """
    # List snapshots
    snapshots = manager.list_snapshots("bronze.customers")
    for snap in snapshots:
        print(f"{snap.snapshot_id}: {snap.timestamp} - {snap.operation}")

    # Read from previous snapshot
    old_data = manager.scan(
        "bronze.customers",
        snapshot_id=snapshots[1].snapshot_id
    )

    # Expire old snapshots
    expired_count = manager.expire_snapshots(
        "bronze.customers",
        older_than=datetime.now() - timedelta(days=30),
        retain_last=10,
    )
"""


@pytest.fixture
def bronze(gateway, connect, minio, namespace):
    """Stand in for the example's server: its client is known, and it hands out storage access."""
    gateway.require_tokens(client_id="my_client", client_secret="my_secret")
    gateway.rewrite(lambda content: content["defaults"].update(store_properties(minio)), path="/v1/config")
    connect(client_id="my_client", client_secret="my_secret").create_namespace(namespace)
    return namespace


@pytest.mark.req("API-15", "API-04", "FR-021")
def test_the_examples_of_direct_management_and_time_travel_run(gateway, bronze, capsys):
    scope = {"datetime": datetime, "timedelta": timedelta}

    def run(example):
        text = textwrap.dedent(example).replace(ADDRESS, gateway.url).replace("bronze.", f"{bronze}.")
        exec(text, scope)  # noqa: S102 - the contract's own text

    run(DIRECT_TABLE_MANAGEMENT)
    assert "Created snapshot:" in capsys.readouterr().out
    scope["manager"].append(f"{bronze}.customers", scope["data"])
    run(TIME_TRAVEL)
    assert scope["old_data"].num_rows == 3
    assert scope["expired_count"] == 0
    scope["catalog"].close()
