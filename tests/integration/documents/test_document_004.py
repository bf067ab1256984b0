"""The patterns of the storage layer's research document run as printed, with prepared addresses and credentials."""

from __future__ import annotations

from enum import Enum
from textwrap import dedent
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import dagster as dg
import pyarrow as pa
import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table
from structlog.testing import capture_logs

import floe_core.errors
from floe_core.retry import create_retry_decorator
from floe_core.schemas import RetryConfig
from floe_iceberg import IcebergIOManager, IcebergIOManagerConfig, IcebergTableManager, WriteMode
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties


def run(snippet: str, **scope: Any) -> dict[str, Any]:
    """Execute a snippet and return its names."""
    # Annotations are evaluated here, as in the printed text.
    code = compile(dedent(snippet), "<printed>", "exec", dont_inherit=True)
    exec(code, scope)  # noqa: S102 - the document's own text
    return scope


@pytest.fixture
def manager(tmp_path):
    """Give a manager on an embedded catalog with one table."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    manager = IcebergTableManager(catalog)
    manager.create_namespace("bronze")
    manager.create_table("bronze.customers", pa.schema([("id", pa.int64())]))
    manager.append("bronze.customers", pa.table({"id": [1]}))
    yield manager
    catalog.close()


CONNECTION = """
    from pyiceberg.catalog import load_catalog

    # OAuth2 client credentials flow
    catalog = load_catalog(
        "polaris",
        **{
            "type": "rest",
            "uri": config.uri,
            "warehouse": config.warehouse,
            "credential": f"{client_id}:{client_secret}",
            "scope": config.scope or "PRINCIPAL_ROLE:ALL",
            "token-refresh-enabled": "true",
            "header.X-Iceberg-Access-Delegation": "vended-credentials",
        }
    )
"""
BEARER = """
    from pyiceberg.catalog import load_catalog

    # Bearer token flow (pre-fetched)
    catalog = load_catalog(
        "polaris",
        type="rest",
        uri=config.uri,
        warehouse=config.warehouse,
        token=bearer_token,
    )
"""


# PyIceberg warns about its default for the token endpoint, on which the document relies.
@pytest.mark.filterwarnings("ignore:.*missing the OAuth2 server URI")
@pytest.mark.parametrize("flow", [CONNECTION, BEARER], ids=["client credentials", "bearer token"])
@pytest.mark.req("FR-001", "FR-002")
def test_a_catalog_that_pyiceberg_connects_is_one_floe_manages(server, bearer_token, namespace, flow):
    names = {"config": server, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    catalog = run(flow, bearer_token=bearer_token, **names)["catalog"]
    manager = IcebergTableManager(catalog)
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.t", pa.schema([("id", pa.int64())]))
    manager.append(f"{namespace}.t", pa.table({"id": [1]}))
    assert manager.scan(f"{namespace}.t").num_rows == 1
    catalog.close()


APIS = """
    catalog.create_namespace(namespace, properties)
    catalog.create_namespace_if_not_exists(namespace)
    found = catalog.list_namespaces(parent_namespace)
    created = catalog.create_table(identifier, schema, partition_spec=partition_spec)
    again = catalog.create_table_if_not_exists(identifier, schema)
    loaded = catalog.load_table(identifier)
    exists = catalog.table_exists(identifier)
    metadata_location = loaded.metadata_location
    catalog.drop_table(identifier)
    registered = catalog.register_table(identifier, metadata_location)
    catalog.purge_table(identifier)
    catalog.drop_namespace(namespace)
"""


def test_the_key_apis_work_on_the_managers_catalog(manager):
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import Schema
    from pyiceberg.types import LongType, NestedField

    names = run(
        APIS,
        catalog=manager.catalog,
        namespace=("bronze", "raw"),
        properties={"owner": "sales"},
        parent_namespace="bronze",
        identifier=("bronze", "raw", "events"),
        schema=Schema(NestedField(1, "id", LongType())),
        partition_spec=UNPARTITIONED_PARTITION_SPEC,
    )
    assert names["found"] == [("bronze", "raw")]
    assert names["exists"] is True
    assert names["registered"].metadata.table_uuid == names["created"].metadata.table_uuid
    assert manager.catalog.list_namespaces("bronze") == []


RETRY = """
    from tenacity import (
        retry,
        stop_after_attempt,
        wait_exponential_jitter,
        retry_if_exception_type,
    )
    from pyiceberg.exceptions import (
        NoSuchTableError,
        CommitFailedException,
    )

    class RetryConfig(BaseModel):
        max_attempts: int = Field(default=3, ge=1, le=10)
        initial_wait_seconds: float = Field(default=1.0, ge=0.1, le=30.0)
        max_wait_seconds: float = Field(default=30.0, ge=1.0, le=300.0)
        jitter_seconds: float = Field(default=1.0, ge=0.0, le=10.0)

    def create_retry_decorator(config: RetryConfig):
        return retry(
            stop=stop_after_attempt(config.max_attempts),
            wait=wait_exponential_jitter(
                initial=config.initial_wait_seconds,
                max=config.max_wait_seconds,
                jitter=config.jitter_seconds,
            ),
            retry=retry_if_exception_type((ConnectionError, TimeoutError)),
            reraise=True,
        )
"""


# Tenacity has renamed the parameter since.
@pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated")
@pytest.mark.parametrize("failure", [ConnectionError, TimeoutError, PermissionError])
@pytest.mark.req("RD-02")
def test_floes_decorator_retries_what_the_printed_one_retries(failure):
    printed = run(RETRY, BaseModel=BaseModel, Field=Field)
    quick = {"max_attempts": 3, "initial_wait_seconds": 0.1, "max_wait_seconds": 1.0, "jitter_seconds": 0.0}
    attempts = []
    for decorator, config in (
        (printed["create_retry_decorator"], printed["RetryConfig"](**quick)),
        (create_retry_decorator, RetryConfig(**quick)),
    ):
        calls: list[int] = []

        @decorator(config)
        def call(calls=calls):
            calls.append(1)
            raise failure

        with pytest.raises(failure):
            call()
        attempts.append(len(calls))
    assert attempts[0] == attempts[1] == (1 if failure is PermissionError else 3)


@pytest.mark.parametrize(
    "setting",
    [
        {"max_attempts": 0},
        {"max_attempts": 11},
        {"initial_wait_seconds": 0.05},
        {"initial_wait_seconds": 31},
        {"max_wait_seconds": 0.5},
        {"max_wait_seconds": 301},
        {"jitter_seconds": -1},
        {"jitter_seconds": 11},
    ],
    ids=str,
)
def test_what_the_printed_limits_refuse_is_refused(setting):
    for model in (run(RETRY, BaseModel=BaseModel, Field=Field)["RetryConfig"], RetryConfig):
        with pytest.raises(ValidationError):
            model(**setting)


IO_MANAGER = """
    from dagster import ConfigurableIOManager, OutputContext, InputContext
    import pyarrow as pa
    import pandas as pd

    class IcebergIOManager(ConfigurableIOManager):
        catalog_uri: str
        warehouse: str
        default_namespace: str = "public"
        write_mode: WriteMode = WriteMode.APPEND
        schema_evolution_enabled: bool = True

        def handle_output(self, context: OutputContext, obj: pa.Table | pd.DataFrame) -> None:
            table_id = self._get_table_identifier(context)

            # Convert pandas to PyArrow if needed
            if isinstance(obj, pd.DataFrame):
                obj = pa.Table.from_pandas(obj)

            # Handle partitions
            if context.has_partition_key:
                partition_key = context.asset_partition_key
                # Write to specific partition
                self._write_partitioned(table_id, obj, partition_key)
            else:
                self._write_table(table_id, obj)

            # Attach metadata
            context.add_output_metadata({
                "table": table_id,
                "num_rows": len(obj),
                "snapshot_id": self._get_current_snapshot_id(table_id),
            })

        def load_input(self, context: InputContext) -> pa.Table:
            table_id = self._get_table_identifier(context)

            # Build scan with optional filters
            scan = self._build_scan(context, table_id)
            return scan.to_arrow()

        def _get_table_identifier(self, context: OutputContext | InputContext) -> str:
            # ["bronze", "customers"] -> "bronze.customers"
            parts = context.asset_key.path
            if len(parts) >= 2:
                namespace = parts[0]
                table = "_".join(parts[1:])
                return f"{namespace}.{table}"
            return f"{self.default_namespace}.{parts[0]}"
"""


@pytest.mark.parametrize("path", [["customers"], ["bronze", "raw_events"], ["gold", "metrics", "daily"]])
@pytest.mark.req("FR-026")
def test_asset_keys_are_mapped_as_printed(path):
    given = {"catalog_uri": "http://127.0.0.1:9", "warehouse": "lake"}
    printed = run(IO_MANAGER, WriteMode=WriteMode)["IcebergIOManager"](**given)
    own = IcebergIOManager(**given)
    for context in (
        dg.build_output_context(asset_key=dg.AssetKey(path)),
        dg.build_input_context(asset_key=dg.AssetKey(path)),
    ):
        assert own.get_table_identifier(context) == printed._get_table_identifier(context)
    for name, field in type(printed).model_fields.items():
        assert field.is_required() or getattr(own, name) == field.default


EVOLUTION = """
    def _evolve_schema_if_needed(self, table: Table, new_data: pa.Table) -> None:
        if not self.schema_evolution_enabled:
            return

        current_schema = table.schema()
        new_schema = new_data.schema

        # Check if new columns need to be added
        with table.update_schema() as update:
            update.union_by_name(new_schema)
"""


@pytest.mark.req("FR-020")
def test_the_printed_evolution_and_floes_lead_to_one_schema(manager):
    new_data = pa.table({"id": [2], "name": ["Bob"]})
    manager.create_table("bronze.others", pa.schema([("id", pa.int64())]))
    evolve = run(EVOLUTION, Table=Table, pa=pa)["_evolve_schema_if_needed"]
    evolve(SimpleNamespace(schema_evolution_enabled=False), manager.load_table("bronze.others"), new_data)
    assert manager.load_table("bronze.others").schema().column_names == ["id"]
    evolve(SimpleNamespace(schema_evolution_enabled=True), manager.load_table("bronze.others"), new_data)
    manager.append("bronze.customers", new_data)
    assert manager.load_table("bronze.others").schema() == manager.load_table("bronze.customers").schema()


OBSERVABILITY = """
    import structlog
    from opentelemetry import trace

    logger = structlog.get_logger(__name__)
    tracer = trace.get_tracer(__name__)

    class ObservableCatalog:
        def load_table(self, identifier: str) -> Table:
            with tracer.start_as_current_span("iceberg.load_table") as span:
                span.set_attribute("iceberg.table", identifier)

                logger.info("loading_table", table=identifier)
                try:
                    table = self._catalog.load_table(identifier)
                    logger.info("table_loaded", table=identifier,
                               snapshot_id=table.current_snapshot().snapshot_id)
                    return table
                except NoSuchTableError as e:
                    logger.warning("table_not_found", table=identifier)
                    raise
"""


def test_the_printed_wrapper_goes_around_the_managers_catalog(manager):
    names = run(OBSERVABILITY, Table=Table, NoSuchTableError=NoSuchTableError, __name__="document_004")
    observed = names["ObservableCatalog"]()
    observed._catalog = manager.catalog
    with capture_logs() as logs:
        assert observed.load_table("bronze.customers").scan().to_arrow().num_rows == 1
        with pytest.raises(NoSuchTableError):
            observed.load_table("bronze.missing")
    own = [entry["event"] for entry in logs if "snapshot_id" in entry or "table" in entry]
    assert [event for event in own if event in {"loading_table", "table_loaded", "table_not_found"}][:1] == [
        "loading_table"
    ]
    assert "table_not_found" in own


ERRORS = """
    class FloeStorageError(Exception):
        pass

    class CatalogConnectionError(FloeStorageError):
        pass

    class CatalogAuthenticationError(FloeStorageError):
        pass

    class TableNotFoundError(FloeStorageError):
        pass

    class SchemaEvolutionError(FloeStorageError):
        pass

    class ConcurrencyConflictError(FloeStorageError):
        pass
"""


@pytest.mark.req("API-13")
def test_the_printed_hierarchy_is_floes():
    printed = {name: kind for name, kind in run(ERRORS).items() if isinstance(kind, type)}
    assert len(printed) == 6
    for name, kind in printed.items():
        printed_parents, own = (
            {parent.__name__ for parent in one.__mro__} for one in (kind, getattr(floe_core.errors, name))
        )
        assert own & printed.keys() == printed_parents & printed.keys()


UNIT_TESTS = """
    # Unit test with mocked catalog
    @pytest.fixture
    def mock_catalog():
        catalog = Mock(spec=Catalog)
        catalog.load_table.return_value = Mock(spec=Table)
        return catalog
"""
INTEGRATION_TESTS = """
    # Integration test with testcontainers
    @pytest.fixture(scope="module")
    def polaris_catalog():
        with PolarisContainer() as container:
            catalog = load_catalog(
                "test",
                type="rest",
                uri=container.get_connection_url(),
                warehouse="test_warehouse",
            )
            yield catalog
"""


def test_a_mocked_catalog_can_be_injected():
    fixture = run(UNIT_TESTS, pytest=pytest, Mock=Mock, Catalog=Catalog, Table=Table)["mock_catalog"]
    catalog = fixture.__wrapped__() if hasattr(fixture, "__wrapped__") else fixture._get_wrapped_function()()
    catalog.name, catalog.properties = "mocked", {}
    catalog.table_exists.return_value = True
    assert IcebergTableManager(catalog).table_exists("bronze.customers") is True
    catalog.table_exists.assert_called_once_with(("bronze", "customers"))


def test_the_printed_container_fixture_connects(gateway, minio, namespace):
    class RunningServer:
        """Stands in for a container: the server runs already."""

        def __enter__(self):
            return self

        def __exit__(self, *_error):
            return None

        def get_connection_url(self):
            return gateway.url

    gateway.rewrite(lambda content: content["defaults"].update(store_properties(minio)), path="/v1/config")
    names = {"pytest": pytest, "load_catalog": load_catalog, "PolarisContainer": RunningServer}
    fixture = run(INTEGRATION_TESTS, **names)["polaris_catalog"]
    given = fixture.__wrapped__() if hasattr(fixture, "__wrapped__") else fixture._get_wrapped_function()()
    catalog = next(given)
    IcebergTableManager(catalog).create_namespace(namespace)
    assert (namespace,) in catalog.list_namespaces()
    given.close()
    catalog.close()


CONTRACT_TEST = """
    # Dagster IOManager contract test
    def test_io_manager_contract():
        io_manager = IcebergIOManager(...)
        output_context = build_output_context(...)
        input_context = build_input_context(...)

        # Round-trip test
        test_data = pa.Table.from_pydict({"id": [1, 2], "name": ["a", "b"]})
        io_manager.handle_output(output_context, test_data)
        loaded = io_manager.load_input(input_context)
        assert loaded.equals(test_data)
"""


@pytest.mark.req("API-03")
def test_the_printed_contract_of_the_io_manager_holds(manager):
    key = dg.AssetKey(["bronze", "accounts"])
    names = run(
        CONTRACT_TEST,
        pa=pa,
        IcebergIOManager=lambda _: IcebergIOManager(table_manager=manager),
        build_output_context=lambda _: dg.build_output_context(asset_key=key),
        build_input_context=lambda _: dg.build_input_context(asset_key=key),
    )
    names["test_io_manager_contract"]()


MODELS = """
    # In floe-core (extend CatalogConfig)
    class RetryConfig(BaseModel):
        model_config = ConfigDict(frozen=True)

        max_attempts: int = Field(default=3, ge=1, le=10)
        initial_wait_seconds: float = Field(default=1.0, ge=0.1)
        max_wait_seconds: float = Field(default=30.0, le=300.0)
        jitter_seconds: float = Field(default=1.0)

    # In floe-iceberg
    class WriteMode(str, Enum):
        APPEND = "append"
        OVERWRITE = "overwrite"

    class IcebergIOManagerConfig(BaseModel):
        model_config = ConfigDict(frozen=True)

        default_namespace: str = Field(default="public")
        write_mode: WriteMode = Field(default=WriteMode.APPEND)
        schema_evolution_enabled: bool = Field(default=True)
        column_projection_enabled: bool = Field(default=True)
"""


@pytest.mark.req("FR-036", "RD-01")
def test_the_printed_models_have_their_fields_here():
    printed = run(MODELS, BaseModel=BaseModel, ConfigDict=ConfigDict, Field=Field, Enum=Enum)
    own = {"RetryConfig": RetryConfig, "IcebergIOManagerConfig": IcebergIOManagerConfig}
    different = {}
    for name, model in own.items():
        assert model.model_config["frozen"]
        for field, expected in printed[name].model_fields.items():
            if model.model_fields[field].default != expected.default:
                different[field] = model.model_fields[field].default
    # A deliberate deviation: three attempts end before a catalog has restarted (docs/adr/0009-seven-attempts.md).
    assert different == {"max_attempts": 7}
    assert {mode.value for mode in printed["WriteMode"]} <= {mode.value for mode in WriteMode}
