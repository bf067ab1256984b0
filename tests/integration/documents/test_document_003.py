"""The API contract: signatures, models and usage examples run as printed, except for address and namespace."""

from __future__ import annotations

import inspect
import textwrap
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import dagster as dg
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

import floe_iceberg
from floe_core.compile import compile_project, write_artifacts
from floe_iceberg import IcebergIOManager, IcebergTableManager
from floe_testing.rest_fixtures import store_properties

ADDRESS = "http://localhost:8181/api/catalog"

# Annotations are ignored: running the examples checks the PyIceberg and Dagster objects in them.
SIGNATURES = """
    def create_io_manager(config, catalog=None): ...

    class IcebergIOManager:
        def handle_output(self, context, obj): ...
        def load_input(self, context): ...
        def get_table_identifier(self, context): ...

    class IcebergTableManager:
        def __init__(self, catalog, *, tracer=None, logger=None): ...
        def create_table(self, identifier, schema, partition_spec=None, properties=None): ...
        def create_table_if_not_exists(self, identifier, schema, partition_spec=None, properties=None): ...
        def load_table(self, identifier): ...
        def drop_table(self, identifier, purge=False): ...
        def table_exists(self, identifier): ...
        def list_tables(self, namespace): ...
        def append(self, identifier, data, *, evolve_schema=True): ...
        def overwrite(self, identifier, data, *, evolve_schema=True): ...
        def scan(self, identifier, columns=None, row_filter=None, snapshot_id=None, limit=None): ...
        def list_snapshots(self, identifier, limit=None): ...
        def get_current_snapshot(self, identifier): ...
        def expire_snapshots(self, identifier, older_than=None, retain_last=None): ...
"""

MODELS = """
    class WriteMode(str, Enum):
        APPEND = "append"
        OVERWRITE = "overwrite"

    class IcebergIOManagerConfig(BaseModel):
        model_config = ConfigDict(frozen=True)

        catalog_uri: str
        warehouse: str
        client_id: str | None = None
        client_secret: SecretStr | None = None
        token: SecretStr | None = None
        default_namespace: str = "public"
        write_mode: WriteMode = WriteMode.APPEND
        schema_evolution_enabled: bool = True
        auto_create_tables: bool = True
        partition_column: str | None = None

    class SnapshotInfo(BaseModel):
        model_config = ConfigDict(frozen=True)

        snapshot_id: int
        timestamp_ms: int
        operation: str
        summary: dict[str, str]
        manifest_list: str | None = None

        @property
        def timestamp(self) -> datetime:
            return datetime.fromtimestamp(self.timestamp_ms / 1000)

    class TableIdentifier(BaseModel):
        model_config = ConfigDict(frozen=True)

        namespace: str
        name: str

        def __str__(self) -> str:
            return f"{self.namespace}.{self.name}"

        @classmethod
        def from_string(cls, identifier: str):
            parts = identifier.rsplit(".", 1)
            if len(parts) != 2:
                raise ValueError(f"Invalid identifier: {identifier}")
            return cls(namespace=parts[0], name=parts[1])
"""

EXCEPTIONS = """
    class FloeStorageError(Exception): ...
    class TableNotFoundError(FloeStorageError): ...
    class TableExistsError(FloeStorageError): ...
    class SchemaEvolutionError(FloeStorageError): ...
    class WriteError(FloeStorageError): ...
    class ScanError(FloeStorageError): ...
"""

BASIC_DAGSTER = """
    from dagster import asset, Definitions
    from floe_iceberg import create_io_manager, IcebergIOManagerConfig
    import pandas as pd

    # Configure IOManager
    config = IcebergIOManagerConfig(
        catalog_uri="http://localhost:8181/api/catalog",
        warehouse="my_warehouse",
        client_id="my_client",
        client_secret="my_secret",
        default_namespace="bronze",
    )

    # Define assets
    @asset
    def raw_customers() -> pd.DataFrame:
        \"\"\"Load raw customer data.\"\"\"
        return pd.DataFrame({
            "id": [1, 2, 3],
            "name": ["Alice", "Bob", "Charlie"],
            "email": ["alice@example.com", "bob@example.com", "charlie@example.com"],
        })

    @asset
    def customers(raw_customers: pd.DataFrame) -> pd.DataFrame:
        \"\"\"Transform customer data.\"\"\"
        return raw_customers.assign(
            name_upper=raw_customers["name"].str.upper()
        )

    # Create Definitions
    defs = Definitions(
        assets=[raw_customers, customers],
        resources={"io_manager": create_io_manager(config)},
    )
"""

PARTITIONED = """
    from dagster import asset, DailyPartitionsDefinition
    import pyarrow as pa

    daily_partitions = DailyPartitionsDefinition(start_date="2024-01-01")

    @asset(partitions_def=daily_partitions)
    def daily_events(context) -> pa.Table:
        \"\"\"Load events for a specific day.\"\"\"
        partition_date = context.partition_key
        # IOManager writes to partition based on partition_key
        return load_events_for_date(partition_date)
"""

FROM_ARTIFACTS = """
    from floe_core.schemas import CompiledArtifacts
    from floe_iceberg import create_io_manager_from_artifacts

    # Load CompiledArtifacts
    artifacts = CompiledArtifacts.from_json_file(".floe/compiled_artifacts.json")

    # Create IOManager from artifacts
    io_manager = create_io_manager_from_artifacts(artifacts)
"""

# The examples in docstrings, each run separately.
FACTORY_EXAMPLE = """
    from floe_iceberg import create_io_manager, IcebergIOManagerConfig
    config = IcebergIOManagerConfig(
        catalog_uri="http://localhost:8181/api/catalog",
        warehouse="my_warehouse",
        default_namespace="bronze",
    )
    io_manager = create_io_manager(config)
    defs = Definitions(
        assets=[my_asset],
        resources={"io_manager": io_manager},
    )
"""

OUTPUT_EXAMPLE = """
    @asset
    def customers() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2], "name": ["Alice", "Bob"]})
    # IOManager automatically writes to {namespace}.customers
"""

INPUT_EXAMPLE = """
    @asset
    def downstream(customers: pa.Table) -> pa.Table:
        # customers is loaded from Iceberg table
        return customers.filter(...)
"""

CREATION_EXAMPLE = """
    import pyarrow as pa
    schema = pa.schema([
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("created_at", pa.timestamp("us")),
    ])
    table = manager.create_table("bronze.customers", schema)
"""

APPEND_EXAMPLE = """
    data = pa.Table.from_pydict({"id": [1, 2], "name": ["a", "b"]})
    snapshot = manager.append("bronze.customers", data)
    print(f"Created snapshot {snapshot.snapshot_id}")
"""

SCAN_EXAMPLES = [
    """
    # Read specific columns
    data = manager.scan("bronze.customers", columns=["id", "name"])
    """,
    """
    # Time travel to previous snapshot
    data = manager.scan("bronze.customers", snapshot_id=123456789)
    """,
    """
    # Filter rows
    data = manager.scan("bronze.customers", row_filter="status = 'active'")
    """,
]

EXPIRY_EXAMPLE = """
    from datetime import datetime, timedelta
    # Expire snapshots older than 7 days, keep at least 5
    expired = manager.expire_snapshots(
        "bronze.customers",
        older_than=datetime.now() - timedelta(days=7),
        retain_last=5,
    )
"""

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


def printed(text: str, **names: Any) -> dict[str, Any]:
    """Execute what the contract prints, and return its names."""
    # Annotations are evaluated here, as in the printed text.
    code = compile(textwrap.dedent(text), "<printed>", "exec", dont_inherit=True)
    exec(code, names)  # noqa: S102 - the contract's own text
    return names


def accepts(own: inspect.Signature, contract: inspect.Signature) -> list[str]:
    """List what a call as the contract prints it would run into."""
    problems = []
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in own.parameters.values())
    positions = {name: place for place, name in enumerate(own.parameters)}
    for place, (name, one) in enumerate(contract.parameters.items()):
        mine = own.parameters.get(name)
        if mine is None:
            problems += [] if takes_any and one.kind is inspect.Parameter.KEYWORD_ONLY else [f"no {name}"]
        elif one.kind is not inspect.Parameter.KEYWORD_ONLY and positions[name] != place:
            problems.append(f"{name} at {positions[name]}, not {place}")
        elif one.default is not inspect.Parameter.empty and mine.default != one.default:
            problems.append(f"{name} is {mine.default} by default, not {one.default}")
    required = [
        name
        for name, mine in own.parameters.items()
        if mine.default is inspect.Parameter.empty
        and mine.kind not in {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    ]
    return problems + [f"{name} is required" for name in required if name not in contract.parameters]


@pytest.mark.req("API-01", "API-03", "API-04", "API-15")
def test_every_printed_signature_is_accepted():
    contract = printed(SIGNATURES)
    pairs = [("create_io_manager", floe_iceberg.create_io_manager, contract["create_io_manager"])]
    for own in (IcebergIOManager, IcebergTableManager):
        found = vars(contract[own.__name__])
        pairs += [(name, getattr(own, name), function) for name, function in found.items() if callable(function)]
    assert len(pairs) == 17
    problems = {
        name: found
        for name, own, function in pairs
        if (found := accepts(inspect.signature(own), inspect.signature(function)))
    }
    assert problems == {}


@pytest.mark.req("API-02", "API-12", "API-15")
def test_the_printed_models_have_their_fields_and_defaults_here():
    names = {"Enum": Enum, "BaseModel": BaseModel, "ConfigDict": ConfigDict, "SecretStr": SecretStr}
    contract = printed(MODELS, datetime=datetime, **names)
    assert {mode.name: mode.value for mode in contract["WriteMode"]}.items() <= {
        mode.name: mode.value for mode in floe_iceberg.WriteMode
    }.items()
    for name in ("IcebergIOManagerConfig", "SnapshotInfo", "TableIdentifier"):
        own, theirs = getattr(floe_iceberg, name), contract[name]
        assert own.model_config["frozen"]
        for field, expected in theirs.model_fields.items():
            mine = own.model_fields[field]
            assert (field, mine.is_required(), mine.default) == (field, expected.is_required(), expected.default)
    given = {"snapshot_id": 1, "timestamp_ms": 1_700_000_000_000, "operation": "append", "summary": {"a": "b"}}
    own, theirs = floe_iceberg.SnapshotInfo(**given), contract["SnapshotInfo"](**given)
    assert own.timestamp.timestamp() == theirs.timestamp.timestamp()
    for text in ("bronze.customers", "bronze.raw.events"):
        own, theirs = (one.from_string(text) for one in (floe_iceberg.TableIdentifier, contract["TableIdentifier"]))
        assert (own.namespace, own.name, str(own)) == (theirs.namespace, theirs.name, str(theirs))
    with pytest.raises(ValueError, match="customers"):
        floe_iceberg.TableIdentifier.from_string("customers")


@pytest.mark.req("API-13", "API-15")
def test_the_printed_exceptions_have_their_place_in_the_tree():
    contract = {name: kind for name, kind in printed(EXCEPTIONS).items() if isinstance(kind, type)}
    assert len(contract) == 6
    for name, kind in contract.items():
        printed_parents, own = (
            {parent.__name__ for parent in one.__mro__} for one in (kind, getattr(floe_iceberg, name))
        )
        assert printed_parents <= own
        # No class is added between the printed ones: a handler for WriteError must not catch a ScanError.
        assert own & contract.keys() == printed_parents & contract.keys()


@pytest.mark.parametrize(
    ("path", "table"),
    [
        (["customers"], "bronze.customers"),
        (["bronze", "raw"], "bronze.raw"),
        (["gold", "metrics", "daily"], "gold.metrics_daily"),
    ],
)
@pytest.mark.req("FR-026", "API-15")
def test_the_printed_mapping_of_asset_keys(path, table):
    io_manager = IcebergIOManager(catalog_uri=ADDRESS, warehouse="my_warehouse", default_namespace="bronze")
    assert io_manager.get_table_identifier(dg.build_output_context(asset_key=dg.AssetKey(path))) == table
    assert io_manager.get_table_identifier(dg.build_input_context(asset_key=dg.AssetKey(path))) == table


@pytest.fixture
def example(gateway, bronze):
    """Run an example with the gateway's address and a namespace of its own."""

    def run(text, **names):
        place = f"{bronze}."
        text = text.replace(ADDRESS, gateway.url).replace("bronze.", place)
        return printed(text.replace('"bronze"', f'"{bronze}"'), **names)

    return run


@pytest.mark.req("API-15", "API-04", "FR-021")
def test_the_examples_of_direct_management_and_time_travel_run(example, bronze, capsys):
    names = example(DIRECT_TABLE_MANAGEMENT, datetime=datetime)
    assert "Created snapshot:" in capsys.readouterr().out
    manager = names["manager"]
    manager.append(f"{bronze}.customers", names["data"])
    names = example(TIME_TRAVEL, datetime=datetime, timedelta=timedelta, manager=manager)
    assert names["old_data"].num_rows == 3
    assert names["expired_count"] == 0
    manager.catalog.close()


@pytest.mark.req("API-15", "API-05", "API-08", "API-09", "API-11")
def test_the_examples_in_docstrings_of_operations_run(example, bronze, connect, capsys):
    manager = IcebergTableManager(connect(client_id="my_client", client_secret="my_secret"))
    example(CREATION_EXAMPLE, manager=manager)
    snapshot = example(APPEND_EXAMPLE, manager=manager, pa=pa)["snapshot"]
    assert capsys.readouterr().out == f"Created snapshot {snapshot.snapshot_id}\n"
    more = pa.table({"id": [3, 4], "name": ["c", "d"], "status": ["active", "gone"]})
    manager.append(f"{bronze}.customers", more)
    texts = [text.replace("123456789", str(snapshot.snapshot_id)) for text in SCAN_EXAMPLES]
    some, earlier, active = (example(text, manager=manager)["data"] for text in texts)
    assert (some.column_names, some.num_rows) == (["id", "name"], 4)
    assert sorted(earlier["id"].to_pylist()) == [1, 2]
    assert active["id"].to_pylist() == [3]
    assert example(EXPIRY_EXAMPLE, manager=manager)["expired"] == 0


@pytest.mark.req("API-01", "API-03", "API-15")
def test_the_examples_in_docstrings_of_the_io_manager_run(example, bronze, gateway, connect):
    gateway.tokens = None
    customers = example(OUTPUT_EXAMPLE, asset=dg.asset, pd=pd)["customers"]
    # The printed example has no filter value.
    text = INPUT_EXAMPLE.replace("...", "pc.field('id') > 1")
    downstream = example(text, asset=dg.asset, pa=pa, pc=pc)["downstream"]
    io_manager = example(FACTORY_EXAMPLE, Definitions=dg.Definitions, my_asset=customers)["io_manager"]
    assert dg.materialize([customers, downstream], resources={"io_manager": io_manager}).success
    tables = IcebergTableManager(connect())
    assert tables.scan(f"{bronze}.downstream").to_pylist() == [{"id": 2, "name": "Bob"}]


@pytest.mark.req("API-01", "API-15")
def test_the_example_of_basic_dagster_integration_runs(example, bronze, connect):
    names = example(BASIC_DAGSTER)
    assert names["defs"].resolve_implicit_global_asset_job_def().execute_in_process().success
    tables = IcebergTableManager(connect(client_id="my_client", client_secret="my_secret"))
    assert tables.scan(f"{bronze}.customers")["name_upper"].to_pylist() == ["ALICE", "BOB", "CHARLIE"]


@pytest.mark.req("API-15", "FR-027")
def test_the_example_of_partitioned_assets_runs(example, bronze, connect):
    def load_events_for_date(partition_date):
        day = datetime.fromisoformat(partition_date)
        return pa.table({"ts": [day, day + timedelta(hours=1)], "value": [1, 2]})

    io_manager = example(BASIC_DAGSTER)["defs"].resources["io_manager"]
    names = example(PARTITIONED, load_events_for_date=load_events_for_date)
    for key in ("2024-01-01", "2024-01-02", "2024-01-01"):
        done = dg.materialize([names["daily_events"]], resources={"io_manager": io_manager}, partition_key=key)
        assert done.success
    tables = IcebergTableManager(connect(client_id="my_client", client_secret="my_secret"))
    assert tables.scan(f"{bronze}.daily_events").num_rows == 4


@pytest.mark.req("API-14", "API-15", "FR-034")
def test_the_example_of_compiled_artifacts_runs(tmp_path, monkeypatch):
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: shop\n")
    write_artifacts(compile_project(tmp_path))
    monkeypatch.chdir(tmp_path)
    names = printed(FROM_ARTIFACTS)

    @dg.asset
    def customers() -> pd.DataFrame:
        return pd.DataFrame({"id": [1, 2]})

    assert dg.materialize([customers], resources={"io_manager": names["io_manager"]}).success
    assert names["io_manager"].tables.scan("public.customers").num_rows == 2
    names["io_manager"].tables.close()
