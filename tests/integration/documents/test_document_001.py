"""The snippets of the table manager's research document run as printed, in a prepared environment."""

from __future__ import annotations

import inspect
import time
from datetime import datetime, timedelta
from textwrap import dedent
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa
import pytest
from dagster import Definitions, asset
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table
from pyiceberg.types import LongType, StringType

from floe_core.governance import PolicyEnforcer
from floe_core.plugin_registry import PluginRegistry, PluginType
from floe_core.plugins.catalog import CatalogPlugin
from floe_core.plugins.storage import StoragePlugin
from floe_core.schemas import CatalogConfig
from floe_iceberg import CommitStrategy, IcebergTableManager, IcebergTableManagerConfig, SnapshotInfo, WriteMode
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties

# The document recommends a table property that PyIceberg's own writer does not support.
pytestmark = pytest.mark.filterwarnings("ignore:Parquet writer option")


def run(snippet: str, **scope: Any) -> dict[str, Any]:
    """Execute a snippet and return its names."""
    # Annotations are evaluated here, as in the printed text.
    code = compile(dedent(snippet), "<printed>", "exec", dont_inherit=True)
    exec(code, scope)  # noqa: S102 - the document's own text
    return scope


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """Give a registry whose embedded catalog and storage are configured."""
    monkeypatch.chdir(tmp_path)
    registry = PluginRegistry()
    registry.configure(PluginType.STORAGE, "local", {"type": "local", "root": str(tmp_path / "lake")})
    registry.configure(PluginType.CATALOG, "sql", {"name": "lake", "uri": f"sqlite:///{tmp_path}/catalog.db"})
    return registry


@pytest.fixture
def manager(registry):
    """Give a manager that takes plugins by injection."""
    plugin = registry.get(PluginType.CATALOG, "sql")
    with IcebergTableManager(plugin, registry.get(PluginType.STORAGE, "local")) as manager:
        manager.create_namespace("bronze")
        yield manager
        plugin.shutdown()


@pytest.fixture
def customers(manager):
    """Give a table that is partitioned by status, with two snapshots."""
    fields = [("id", pa.int32()), ("name", pa.string()), ("email", pa.string()), ("status", pa.string())]
    table = manager.create_table(
        "bronze.customers", pa.schema([*fields, ("deprecated_field", pa.string())]), ["status"]
    )
    for number in range(2):
        manager.append(table, rows(table, number))
    return manager.load_table("bronze.customers")


def rows(table, number=0):
    row = {"id": number, "name": "Alice", "email": "a@example.com", "status": "pending", "deprecated_field": None}
    schema = table.schema().as_arrow()
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names}], schema=schema)


FILE_IO = """
    @runtime_checkable
    class FileIO(Protocol):
        def new_input(self, location: str) -> Any: ...
        def new_output(self, location: str) -> Any: ...
        def delete(self, location: str) -> None: ...
"""
CATALOG = """
    @runtime_checkable
    class Catalog(Protocol):
        def list_namespaces(self) -> list[tuple[str, ...]]: ...
        def list_tables(self, namespace: str) -> list[str]: ...
        def load_table(self, identifier: str) -> Any: ...
"""


def test_the_printed_protocols_fit_what_the_plugins_hand_out(registry, manager):
    printed = run(FILE_IO + CATALOG, Protocol=Protocol, runtime_checkable=runtime_checkable, Any=Any)
    assert isinstance(registry.get(PluginType.STORAGE, "local").get_pyiceberg_fileio(), printed["FileIO"])
    assert isinstance(registry.get(PluginType.CATALOG, "sql").connected_catalog, printed["Catalog"])
    assert isinstance(manager.catalog, printed["Catalog"])


CREATION = """
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField, StringType, LongType, TimestampType

    schema = Schema(
        NestedField(field_id=1, name="id", field_type=LongType(), required=True),
        NestedField(field_id=2, name="name", field_type=StringType(), required=False),
        NestedField(field_id=3, name="created_at", field_type=TimestampType(), required=True),
    )

    from pyiceberg.partitioning import PartitionSpec, PartitionField
    from pyiceberg.transforms import DayTransform, MonthTransform, BucketTransform

    partition_spec = PartitionSpec(
        PartitionField(source_id=3, field_id=1000, transform=DayTransform(), name="created_day")
    )
"""
PROPERTIES = {
    "write.target-file-size-bytes": "134217728",
    "write.parquet.row-group-size-bytes": "134217728",
    "history.expire.max-snapshot-age-ms": "604800000",
    "history.expire.min-snapshots-to-keep": "10",
    "commit.manifest-merge.enabled": "true",
}


@pytest.mark.req("FR-012", "FR-013", "TM-08")
def test_table_creation(manager):
    printed = run(CREATION)
    table = manager.create_table("bronze.orders", printed["schema"], printed["partition_spec"])
    assert [(field.field_id, field.name, field.required) for field in table.schema().fields] == [
        (1, "id", True),
        (2, "name", False),
        (3, "created_at", True),
    ]
    assert [(field.source_id, field.name, str(field.transform)) for field in table.spec().fields] == [
        (3, "created_day", "day")
    ]
    assert PROPERTIES.items() <= table.properties.items()


WRITES = """
    # Fast append (default) - best for most use cases
    table.append(data)

    # With snapshot properties for lineage
    table.append(data, snapshot_properties={
        "pipeline_run_id": "run-12345",
        "source_system": "crm",
    })

    # Overwrite with filter
    table.overwrite(data, overwrite_filter=EqualTo('status', 'pending'))

    # Dynamic partition overwrite
    table.dynamic_partition_overwrite(data)
"""


def test_write_operations(manager, customers):
    run(WRITES, table=customers, data=rows(customers, 7), EqualTo=EqualTo)
    summaries = [snapshot.summary for snapshot in manager.list_snapshots("bronze.customers")]
    assert sum(summary.get("pipeline_run_id") == "run-12345" for summary in summaries) == 1
    assert manager.scan("bronze.customers")["id"].to_pylist() == [7]


RETRY = """
    from pyiceberg.exceptions import CommitFailedException

    def append_with_retry(table, data, max_retries=3, base_delay=1.0):
        for attempt in range(max_retries):
            try:
                table.refresh()  # Get latest metadata
                table.append(data)
                return
            except CommitFailedException:
                if attempt == max_retries - 1:
                    raise
                time.sleep(base_delay * (2 ** attempt))  # Exponential backoff
"""


def test_concurrent_writes(manager, customers):
    other = manager.load_table("bronze.customers")
    manager.append("bronze.customers", rows(customers, 8))
    run(RETRY, time=time)["append_with_retry"](other, rows(customers, 9), base_delay=0.01)
    assert sorted(manager.scan("bronze.customers")["id"].to_pylist()) == [0, 1, 8, 9]
    assert issubclass(CommitFailedException, Exception)


EVOLUTION = """
    with table.update_schema() as update:
        update.add_column("phone", StringType(), doc="Customer phone")
        update.rename_column("name", "full_name")
        update.update_column("id", field_type=LongType())  # Widen int → long
"""
INCOMPATIBLE = """
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("deprecated_field")
        update.update_column("email", required=True)  # Make required
"""


def test_schema_evolution(manager, customers):
    run(EVOLUTION + INCOMPATIBLE, table=customers, StringType=StringType, LongType=LongType)
    schema = manager.load_table("bronze.customers").schema()
    assert schema.column_names == ["id", "full_name", "email", "status", "phone"]
    assert isinstance(schema.find_type("id"), LongType)
    assert schema.find_field("email").required
    assert manager.scan("bronze.customers")["full_name"].to_pylist() == ["Alice", "Alice"]


SNAPSHOTS = """
    # Snapshot metadata
    snapshots_df = table.inspect.snapshots()

    # Time travel
    historical_scan = table.scan(snapshot_id=805611270568163028)
    df = historical_scan.to_arrow()

    # Current snapshot
    current = table.current_snapshot()
"""
REFS = """
    # Immutable tag (for releases)
    table.manage_snapshots().create_tag(
        snapshot_id=current.snapshot_id,
        tag_name="v1.0.0",
        max_ref_age_ms=31536000000,  # 1 year
    ).commit()

    # Mutable branch (for testing)
    table.manage_snapshots().create_branch(
        snapshot_id=current.snapshot_id,
        branch_name="feature-testing",
    ).commit()
"""
EXPIRY = """
    # IcebergTableManager accepts retention from Policy Enforcer
    table.maintenance.expire_snapshots().older_than(
        datetime.now() - timedelta(days=retention_days)  # Default: 7
    ).commit()
"""
ROLLBACK = """
    table.manage_snapshots().rollback_to_snapshot(target_snapshot_id).commit()
"""


def test_snapshot_management(manager, customers):
    newest, first = manager.list_snapshots("bronze.customers")
    seen = run(SNAPSHOTS.replace("805611270568163028", str(first.snapshot_id)), table=customers)
    assert (seen["snapshots_df"].num_rows, seen["df"].num_rows) == (2, 1)
    assert seen["current"].snapshot_id == newest.snapshot_id
    run(REFS, table=customers, current=seen["current"])
    assert [ref.name for ref in manager.list_refs("bronze.customers")] == ["main", "feature-testing", "v1.0.0"]
    run(EXPIRY, table=customers, datetime=datetime, timedelta=timedelta, retention_days=7)
    assert len(manager.list_snapshots("bronze.customers")) == 2
    run(ROLLBACK, table=customers, target_snapshot_id=first.snapshot_id)
    assert manager.scan("bronze.customers").num_rows == 1


CONSTRUCTOR = """
    class IcebergTableManager:
        def __init__(
            self,
            catalog_plugin: CatalogPlugin,
            storage_plugin: StoragePlugin,
            config: IcebergTableManagerConfig | None = None,
        ) -> None:
            ...
"""
WRITE_DATA = """
    def write_data(
        self,
        table: Table,
        data: pa.Table,
        mode: WriteMode,
        commit_strategy: CommitStrategy = CommitStrategy.FAST_APPEND,
    ) -> SnapshotInfo:
        ...
"""
TYPES = {
    "CatalogPlugin": CatalogPlugin,
    "StoragePlugin": StoragePlugin,
    "IcebergTableManagerConfig": IcebergTableManagerConfig,
    "Table": Table,
    "pa": pa,
    "WriteMode": WriteMode,
    "CommitStrategy": CommitStrategy,
    "SnapshotInfo": SnapshotInfo,
}


@pytest.mark.req("TM-01")
def test_the_constructor_is_called_as_printed(registry, manager, customers):
    printed = list(inspect.signature(run(CONSTRUCTOR, **TYPES)["IcebergTableManager"]).parameters)
    plugins = registry.get(PluginType.CATALOG, "sql"), registry.get(PluginType.STORAGE, "local")
    given = (*plugins, IcebergTableManagerConfig(default_retention_days=3))
    for made in (IcebergTableManager(*given), IcebergTableManager(**dict(zip(printed, given, strict=True)))):
        assert made.list_tables("bronze") == ["customers"]
        assert made.config.default_retention_days == 3
        made.close()


def test_write_data_is_called_as_printed(manager, customers):
    printed = inspect.signature(run(WRITE_DATA, **TYPES)["write_data"])
    own = inspect.signature(IcebergTableManager.write_data)
    assert list(own.parameters)[: len(printed.parameters)] == list(printed.parameters)
    assert manager.config.commit_strategy is printed.parameters["commit_strategy"].default
    written = manager.write_data(customers, rows(customers, 3), WriteMode.APPEND, CommitStrategy.FAST_APPEND)
    assert isinstance(written, SnapshotInfo)


CATALOG_PLUGIN = """
    # IcebergTableManager gets PyIceberg Catalog from CatalogPlugin
    catalog_plugin = plugin_registry.get(PluginType.CATALOG, "polaris")
    pyiceberg_catalog = catalog_plugin.connect(config)

    # Use catalog for table operations
    table = pyiceberg_catalog.load_table("bronze.customers")
"""


@pytest.mark.req("PL-06")
def test_a_catalog_plugin_from_the_registry(gateway, minio, connect, namespace, monkeypatch):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    monkeypatch.setenv("SECRET", CLIENT_SECRET)
    connect().create_namespace(namespace)
    connect().create_table((namespace, "customers"), pa.schema([("id", pa.int64())]))
    config = CatalogConfig.model_validate(
        {
            "type": "polaris",
            "uri": gateway.url,
            "warehouse": "lake",
            "access_delegation": "none",
            "credentials": {"client_id": CLIENT_ID, "client_secret": "${SECRET}"},
            "options": store_properties(minio),
        }
    )
    snippet = CATALOG_PLUGIN.replace("bronze.", f"{namespace}.")
    registry = PluginRegistry()
    printed = run(snippet, plugin_registry=registry, PluginType=PluginType, config=config)
    printed["table"].append(pa.table({"id": [1, 2]}))
    # The manager of the same plugin sees the same table, and no other catalog was opened.
    manager = IcebergTableManager(printed["catalog_plugin"])
    assert manager.scan(f"{namespace}.customers").num_rows == 2
    printed["catalog_plugin"].drop_table(f"{namespace}.customers", True)
    assert manager.list_tables(namespace) == []
    printed["catalog_plugin"].shutdown()


STORAGE_PLUGIN = """
    # IcebergTableManager gets FileIO from StoragePlugin
    storage_plugin = plugin_registry.get(PluginType.STORAGE, "s3")
    fileio = storage_plugin.get_pyiceberg_fileio()
    warehouse_uri = storage_plugin.get_warehouse_uri("bronze")
"""


@pytest.mark.req("PL-05")
def test_a_storage_plugin_from_the_registry(minio, monkeypatch):
    monkeypatch.setenv("SECRET", minio["secret_access_key"])
    registry = PluginRegistry()
    section = {
        "type": "s3",
        "bucket": minio["bucket"],
        "endpoint": minio.url,
        "region": minio["region"],
        "credentials": {"access_key_id": minio["access_key_id"], "secret_access_key": "${SECRET}"},
    }
    registry.configure(PluginType.STORAGE, "s3", section)
    printed = run(STORAGE_PLUGIN, plugin_registry=registry, PluginType=PluginType)
    assert printed["warehouse_uri"] == f"s3://{minio['bucket']}/warehouse/bronze"
    location = f"{printed['warehouse_uri']}/document-001.txt"
    with printed["fileio"].new_output(location).create(overwrite=True) as stream:
        stream.write(b"floe")
    assert printed["fileio"].new_input(location).exists()
    printed["fileio"].delete(location)


DAGSTER = """
    from floe_iceberg.io_manager import IcebergIOManager

    @asset(io_manager_key="iceberg_io_manager")
    def customers_silver():
        return transformed_data  # Written to Iceberg table

    defs = Definitions(
        assets=[customers_silver],
        resources={
            "iceberg_io_manager": IcebergIOManager(
                table_manager=table_manager,
                default_write_mode=WriteMode.APPEND,
            ),
        },
    )
"""


@pytest.mark.req("API-02")
def test_dagster_through_the_io_manager(manager):
    names = {"asset": asset, "Definitions": Definitions, "WriteMode": WriteMode}
    printed = run(DAGSTER, transformed_data=pa.table({"id": [1]}), table_manager=manager, **names)
    for expected in (1, 2):
        assert printed["defs"].resolve_implicit_global_asset_job_def().execute_in_process().success
        assert manager.scan("public.customers_silver").num_rows == expected


POLICY = """
    # Policy Enforcer validates retention at governance level
    validated_retention = policy_enforcer.get_snapshot_retention(
        enterprise_policy=enterprise_config,
        domain_policy=domain_config,
        product_policy=product_config,
    )

    # IcebergTableManager uses validated value
    table_manager.expire_snapshots(table, older_than_days=validated_retention)
"""


@pytest.mark.req("TM-11", "RD-06")
def test_the_policy_enforcer(manager, customers):
    levels = {"enterprise_config": {"snapshot_retention_days": 30}, "domain_config": 90, "product_config": None}
    printed = run(POLICY, policy_enforcer=PolicyEnforcer(), table_manager=manager, table=customers, **levels)
    assert printed["validated_retention"] == 90
    assert len(manager.list_snapshots("bronze.customers")) == 2
