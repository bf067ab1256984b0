"""Tables on disk, spans, constructors, and the examples of the contract."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import floe_iceberg
from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    ConfigurationError,
    EngineSetupError,
    FloeStorageError,
    InvalidDataError,
    MissingDependencyError,
)
from floe_core.plugins import PLUGIN_API_VERSION, ComputePlugin, PluginType
from floe_core.plugins.registry import default_registry
from floe_core.schemas import CatalogConfig
from floe_iceberg import Engine, IcebergTableManager
from floe_iceberg.table.purge import PurgePlan

pytest_plugins = ["floe_testing.table_fixtures"]


@pytest.fixture
def catalog(tmp_path):
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("bronze")
    yield catalog
    catalog.close()


@pytest.fixture
def manager(catalog):
    return IcebergTableManager(catalog)


@pytest.mark.req("FR-017", "API-07")
def test_purge_removes_every_file_and_nothing_of_a_neighbour(manager, tmp_path):
    for name in ("bronze.t", "bronze.t2"):
        manager.create_table(name, pa.schema([("id", pa.int64())]))
        for number in range(3):
            manager.append(name, pa.table({"id": [number]}))
    manager.overwrite("bronze.t", pa.table({"id": [9]}))
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://"))
    (folder / "data" / "left_over.parquet").write_bytes(b"x")
    manager.drop_table("bronze.t", purge=True)
    assert not folder.exists()
    assert manager.scan("bronze.t2").num_rows == 3


def test_a_table_renamed_while_its_purge_looks_for_files_keeps_them(manager, monkeypatch):
    schema = pa.schema([("id", pa.int64())])
    manager.create_table("bronze.t", schema)
    manager.append("bronze.t", pa.table({"id": [1]}))

    class Slow(PurgePlan):
        def __init__(self, context, table):
            super().__init__(context, table)
            manager.rename_table("bronze.t", "bronze.renamed")
            manager.create_table("bronze.t", schema)

    monkeypatch.setattr("floe_iceberg.table.lifecycle.PurgePlan", Slow)
    with pytest.raises(ConcurrencyConflictError, match="Nothing was dropped") as caught:
        manager.drop_table("bronze.t", purge=True)
    assert caught.value.table == "bronze.t"
    assert manager.scan("bronze.renamed").num_rows == 1
    assert manager.table_exists("bronze.t")


def test_a_format_version_that_nobody_here_can_write_is_refused_before_any_file(manager, tmp_path):
    with pytest.raises(CapabilityError, match="format version 3"):
        manager.create_table("bronze.t", pa.schema([("id", pa.int64())]), properties={"format-version": "3"})
    assert not manager.table_exists("bronze.t")
    assert not list((tmp_path / "warehouse").rglob("*.json"))


@pytest.mark.req("FR-017", "API-07")
def test_dropping_without_purge_leaves_the_files(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": [1]}))
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://"))
    manager.drop_table("bronze.t")
    assert list(folder.rglob("*.parquet"))


def test_purge_removes_files_outside_the_location_that_the_table_refers_to(manager, tmp_path):
    properties = {"write.data.path": f"file://{tmp_path}/elsewhere"}
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]), properties=properties)
    manager.append("bronze.t", pa.table({"id": [1]}))
    bystander = tmp_path / "elsewhere" / "not_ours.parquet"
    bystander.write_bytes(b"x")
    manager.drop_table("bronze.t", purge=True)
    assert [path.name for path in (tmp_path / "elsewhere").rglob("*.parquet")] == [bystander.name]


def test_the_location_follows_warehouse_namespace_and_name(manager, tmp_path):
    table = manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    assert table.location() == f"file://{tmp_path}/warehouse/bronze/t"
    other = manager.create_table("bronze.o", pa.schema([("id", pa.int64())]), location=f"file://{tmp_path}/mine")
    assert other.location() == f"file://{tmp_path}/mine"


def test_registering_what_is_no_metadata_file_is_refused_and_leaves_no_row(manager, tmp_path):
    with pytest.raises(ConfigurationError, match="No table metadata"):
        manager.register_table("bronze.t", f"file://{tmp_path}/nothing.metadata.json")
    assert not manager.table_exists("bronze.t")


@pytest.mark.req("FR-038")
def test_operations_leave_spans_with_figures(catalog, tracing, spans):
    manager = IcebergTableManager(catalog, tracer=tracing[0])
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    snapshot = manager.append("bronze.t", pa.table({"id": [1, 2]}))
    manager.upsert("bronze.t", pa.table({"id": [3]}), keys=["id"])
    manager.overwrite("bronze.t", pa.table({"id": [4]}))
    manager.delete("bronze.t", "id = 4")
    manager.load_table("bronze.t")
    found = {span.name: dict(span.attributes) for span in spans()}
    assert {"iceberg.create_table", "iceberg.append", "iceberg.upsert", "iceberg.overwrite", "iceberg.delete"} <= set(
        found
    )
    attributes = found["iceberg.append"]
    assert attributes["iceberg.table"] == "bronze.t"
    assert attributes["iceberg.num_rows"] == 2
    assert attributes["iceberg.snapshot_id"] == snapshot.snapshot_id
    assert "iceberg.load_table" in found


TROUBLES = {
    floe_iceberg.TableNotFoundError: lambda manager: manager.load_table("bronze.nothing"),
    floe_iceberg.TableExistsError: lambda manager: manager.create_table("bronze.t", pa.schema([("id", pa.int64())])),
    floe_iceberg.SchemaEvolutionError: lambda manager: manager.append("bronze.t", pa.table({"id": ["text"]})),
    floe_iceberg.ScanError: lambda manager: manager.scan("bronze.t", columns=["nothing"]),
}


@pytest.mark.req("API-13")
@pytest.mark.parametrize("kind", TROUBLES, ids=lambda kind: kind.__name__)
def test_each_trouble_has_its_exception_under_the_one_base(manager, kind):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(FloeStorageError) as caught:
        TROUBLES[kind](manager)
    assert isinstance(caught.value, kind)
    assert "bronze." in caught.value.message


@pytest.mark.req("TM-01")
def test_plugins_are_taken_by_injection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = default_registry().get(PluginType.CATALOG, "sql")
    config = CatalogConfig(type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    with IcebergTableManager(catalog_plugin=plugin, catalog_config=config) as manager:
        manager.create_namespace("bronze")
        manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
        assert manager.list_tables("bronze") == ["t"]


def test_a_manager_needs_one_source_of_tables(catalog):
    with pytest.raises(ConfigurationError):
        IcebergTableManager()
    with pytest.raises(ConfigurationError):
        IcebergTableManager(catalog, catalog_plugin=default_registry().get(PluginType.CATALOG, "sql"))


def test_no_secret_of_the_catalog_is_in_the_managers_repr(tmp_path):
    catalog = SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}", **{"s3.secret-access-key": "canary"}
    )
    assert "canary" not in repr(IcebergTableManager(catalog))
    catalog.close()


@pytest.fixture
def wired(tmp_path):
    """Give a catalog that an engine can open."""
    uri, warehouse = f"sqlite:///{tmp_path}/wired.db", f"file://{tmp_path}/wired"
    catalog = SqlCatalogPlugin().connect(CatalogConfig(uri=uri, warehouse=warehouse))
    catalog.create_namespace("bronze")
    catalog.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    yield catalog
    catalog.close()


@pytest.fixture
def without_spark(wired, monkeypatch):
    """Give a manager on a machine without PySpark."""
    monkeypatch.setitem(sys.modules, "floe_spark.plane.plane", None)
    return IcebergTableManager(wired)


class BrokenEngine(ComputePlugin):
    name, version, floe_api_version = "broken", "1.0.0", PLUGIN_API_VERSION

    def data_plane(self, config, **options):
        raise ModuleNotFoundError(name="gone")


def test_without_spark_the_error_names_the_extra(without_spark):
    with pytest.raises(MissingDependencyError, match=r"floe-lakehouse\[spark\]"):
        without_spark.append("bronze.t", pa.table({"id": [1]}), engine=Engine.SPARK)


def test_an_engine_that_cannot_be_imported_is_named(wired):
    with pytest.raises(EngineSetupError, match="compute plugin 'broken' cannot open its engine"):
        IcebergTableManager(wired, compute=BrokenEngine()).context.plane()


class FrameOfNobody:
    columns = ("id",)


@pytest.mark.parametrize("data", [5, "text", object(), {"id": 1}, FrameOfNobody()], ids=lambda it: type(it).__name__)
def test_data_that_is_no_frame_is_refused_for_what_it_is(without_spark, data):
    with pytest.raises(InvalidDataError, match=f"floe cannot write data of type {type(data).__name__}"):
        without_spark.append("bronze.t", data)


@pytest.mark.parametrize("data", [5, object(), {"id": 1}], ids=lambda it: type(it).__name__)
def test_a_catalog_that_no_engine_opens_does_not_hide_that_data_is_no_frame(manager, data):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(InvalidDataError, match="floe cannot write data of type"):
        manager.append("bronze.t", data)


def test_a_frame_of_an_engine_that_cannot_open_the_catalog_is_refused_with_the_way_out(manager):
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    with pytest.raises(CapabilityError, match="Pass the catalog plugin instead"):
        manager.append("bronze.t", FrameOfNobody())


class UnwantedEngine(BrokenEngine):
    def data_plane(self, config, **options):
        raise AssertionError


def test_plain_data_opens_no_engine(wired):
    manager = IcebergTableManager(wired, compute=UnwantedEngine())
    rows = pa.table({"id": [1]})
    for data in (rows, rows.to_reader(), rows.to_batches()[0], [{"id": 1}], rows.to_pandas(), pl.from_arrow(rows)):
        manager.append("bronze.t", data)
    assert manager.scan("bronze.t").num_rows == 6


@pytest.mark.req("API-04", "API-15")
def test_the_contracts_examples_run(manager, capsys):
    schema = pa.schema(
        [pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("created_at", pa.timestamp("us"))]
    )
    manager.create_table_if_not_exists("bronze.customers", schema)
    data = pa.Table.from_pydict(
        {"id": [1, 2, 3], "name": ["Alice", "Bob", "Charlie"], "created_at": [datetime.now()] * 3}  # noqa: DTZ005
    )
    snapshot = manager.append("bronze.customers", data)
    assert snapshot.snapshot_id
    result = manager.scan("bronze.customers", columns=["id", "name"])
    assert result.to_pandas().shape == (3, 2)

    manager.append("bronze.customers", data)
    snapshots = manager.list_snapshots("bronze.customers")
    assert [f"{snap.snapshot_id}: {snap.timestamp} - {snap.operation}" for snap in snapshots]
    old_data = manager.scan("bronze.customers", snapshot_id=snapshots[1].snapshot_id)
    assert old_data.num_rows == 3
    expired = manager.expire_snapshots(
        "bronze.customers",
        older_than=datetime.now() - timedelta(days=30),  # noqa: DTZ005
        retain_last=10,
    )
    assert expired == 0


def test_a_table_object_is_as_good_as_its_name(manager):
    table = manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append(table, pa.table({"id": [1]}))
    manager.append(manager.load_table("bronze.t"), pa.table({"id": [2]}))
    assert manager.scan(table).num_rows == 2
    assert table.refresh().catalog is manager.catalog


def test_files_of_old_metadata_go_when_the_table_says_so(manager):
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "2"}
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]), properties=properties)
    for number in range(6):
        manager.append("bronze.t", pa.table({"id": [number]}))
    folder = Path(manager.load_table("bronze.t").location().removeprefix("file://")) / "metadata"
    assert len(list(folder.glob("*.metadata.json"))) == 3
    assert manager.scan("bronze.t").num_rows == 6
