"""A table manager uses the catalog to which its plugin is connected; minimal plugins are sufficient."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import CapabilityError, CatalogConnectionError, ConfigurationError, PluginLoadError
from floe_core.plugins import (
    PLUGIN_API_VERSION,
    CatalogPlugin,
    ComputePlugin,
    PluginMetadata,
    PluginRegistry,
    PluginType,
    StoragePlugin,
    default_registry,
)
from floe_core.schemas import CatalogConfig, CompiledArtifacts
from floe_dagster.resources import create_iceberg_resources
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.connection import open_project
from floe_polaris.plugin import RestCatalogPlugin
from floe_storage.local import LocalStoragePlugin

SCHEMA = pa.schema([("id", pa.int64())])


class FiveMethods(StoragePlugin):
    """A storage plugin with nothing but what the contract prints."""

    name = "five"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION
    root = ""

    def get_pyiceberg_fileio(self):
        return load_file_io({"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO", "owner": "five"})

    def get_warehouse_uri(self, namespace):
        return f"file://{self.root}/{namespace}"

    def get_dbt_profile_config(self):
        return {}

    def get_dagster_io_manager_config(self):
        return {}

    def get_helm_values_override(self):
        return {}


class OneArgument(CatalogPlugin):
    """A catalog plugin whose ``connect`` takes the configuration alone."""

    name = "one"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION
    connections = 0

    def connect(self, config):
        self.connections += 1
        return SqlCatalog(config.name, uri=config.uri, warehouse=config.warehouse)

    def create_namespace(self, namespace, properties=None):
        raise NotImplementedError

    def list_namespaces(self, parent=None):
        raise NotImplementedError

    def delete_namespace(self, namespace):
        raise NotImplementedError

    def create_table(self, identifier, schema, **options):
        raise NotImplementedError

    def list_tables(self, namespace):
        raise NotImplementedError

    def drop_table(self, identifier, purge=False):
        raise NotImplementedError

    def shutdown(self):
        self.connections = 0


@pytest.fixture
def storage(tmp_path):
    plugin = FiveMethods()
    plugin.root = f"{tmp_path}/lake"
    return plugin


@pytest.fixture
def config(tmp_path):
    return CatalogConfig(name="lake", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"file://{tmp_path}/lake")


@pytest.mark.req("TM-01")
@pytest.mark.parametrize("kind", [SqlCatalogPlugin, OneArgument])
def test_a_connected_plugin_hands_over_its_catalog(kind, config, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = kind()
    catalog = plugin.connect(config)
    catalog.create_namespace("bronze")
    catalog.create_table("bronze.orders", SCHEMA)
    manager = IcebergTableManager(plugin, storage)
    assert manager.catalog.name == "lake"
    assert manager.list_tables("bronze") == ["orders"]
    assert not (tmp_path / ".floe").exists()
    catalog.close()


class Recorder(ComputePlugin):
    """An engine that keeps what it is opened with."""

    name = "recorder"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION

    def data_plane(self, config, **options):
        self.opened = options
        return self


@pytest.mark.req("TM-01")
def test_both_plugins_reach_the_engine(config, storage):
    plugin, engine = SqlCatalogPlugin(), Recorder()
    catalog = plugin.connect(config)
    storage.get_spark_conf = lambda name: {f"spark.sql.catalog.{name}.owner": "five"}
    storage.get_spark_packages = lambda: ("org.example:five:1",)
    manager = IcebergTableManager(plugin, storage, compute=engine)
    assert manager.context.plane() is engine
    assert engine.opened["catalog_name"] == "lake"
    assert engine.opened["conf"]["spark.sql.catalog.lake.owner"] == "five"
    assert engine.opened["conf"]["spark.sql.catalog.lake.warehouse"] == config.warehouse
    assert engine.opened["packages"][0] == "org.example:five:1"
    assert engine.opened["catalog"] is catalog
    catalog.close()


def other_than(config, tmp_path):
    return config.model_copy(update={"uri": f"sqlite:///{tmp_path}/other.db", "warehouse": f"file://{tmp_path}/other"})


def test_the_engine_opens_the_catalog_of_its_manager_and_not_the_plugin_s_next_one(config, storage, tmp_path):
    plugin, engine = SqlCatalogPlugin(), Recorder()
    first = plugin.connect(config)
    manager = IcebergTableManager(plugin, storage, compute=engine)
    second = plugin.connect(other_than(config, tmp_path))
    manager.context.plane()
    assert engine.opened["conf"]["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/lake.db"
    assert engine.opened["conf"]["spark.sql.catalog.lake.warehouse"] == config.warehouse
    assert manager.catalog.properties["warehouse"] == config.warehouse
    first.close()
    second.close()


def test_a_catalog_that_a_plugin_has_connected_brings_the_plugin_along(config, tmp_path):
    engine = Recorder()
    catalog = SqlCatalogPlugin().connect(config)
    IcebergTableManager(catalog, compute=engine).context.plane()
    assert engine.opened["conf"]["spark.sql.catalog.lake.uri"] == f"jdbc:sqlite:{tmp_path}/lake.db"
    catalog.close()


@pytest.mark.parametrize("kind", [SqlCatalogPlugin, OneArgument])
def test_a_plugin_that_is_configured_anew_is_not_taken_for_connected(kind, config, tmp_path):
    registry = PluginRegistry()
    registry.register(kind())
    plugin = registry.get(PluginType.CATALOG, kind().name)
    registry.configure(PluginType.CATALOG, plugin.name, config)
    first = IcebergTableManager(plugin).catalog
    registry.configure(PluginType.CATALOG, plugin.name, other_than(config, tmp_path))
    assert plugin.connected_catalog is None
    second = IcebergTableManager(plugin).catalog
    assert (first.properties["warehouse"], second.properties["warehouse"]) == (
        config.warehouse,
        f"file://{tmp_path}/other",
    )
    first.close()
    second.close()


def test_what_a_manager_connects_to_may_be_given_as_plain_values(config):
    manager = IcebergTableManager(SqlCatalogPlugin(), catalog_config=config.model_dump(exclude_unset=True))
    assert manager.catalog.name == "lake"
    manager.catalog.close()
    with pytest.raises(ConfigurationError, match="uri"):
        IcebergTableManager(SqlCatalogPlugin(), catalog_config={"uri": 5})


@pytest.mark.req("TM-01")
def test_a_table_manager_is_no_plugin(config):
    plugin = SqlCatalogPlugin()
    manager = IcebergTableManager(plugin, catalog_config=config)
    assert not isinstance(manager, PluginMetadata)
    with pytest.raises(PluginLoadError):
        PluginRegistry().register(manager)
    plugin.shutdown()


@pytest.mark.req("TM-01")
def test_a_configured_plugin_is_connected_with_its_configuration(config, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    registry = PluginRegistry()
    registry.configure(PluginType.CATALOG, "sql", config)
    with IcebergTableManager(registry.get(PluginType.CATALOG, "sql"), storage) as manager:
        manager.create_namespace("bronze")
        assert manager.catalog.name == "lake"
        assert (tmp_path / "lake.db").is_file()
        manager.catalog.close()


@pytest.mark.parametrize("kind", [SqlCatalogPlugin, OneArgument])
def test_a_plugin_without_connection_and_configuration_is_refused(kind, config, storage, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = kind()
    with pytest.raises(ConfigurationError, match="neither connected nor configured"):
        IcebergTableManager(plugin, storage)
    plugin.connect(config).close()
    plugin.shutdown()
    with pytest.raises(ConfigurationError, match="neither connected nor configured"):
        IcebergTableManager(plugin, storage)
    assert not (tmp_path / ".floe").exists()


def test_a_connection_is_not_made_again(config, storage):
    plugin = OneArgument()
    catalog = plugin.connect(config)
    IcebergTableManager(plugin, storage)
    assert plugin.connections == 1
    catalog.close()


def test_a_table_is_dropped_with_its_files_as_the_contract_writes_it(config, tmp_path):
    plugin = SqlCatalogPlugin()
    plugin.connect(config)
    plugin.create_namespace("bronze")
    plugin.create_table("bronze.orders", SCHEMA)
    plugin.drop_table("bronze.orders", True)
    assert plugin.list_tables("bronze") == []
    assert not list((tmp_path / "lake").rglob("*.json"))
    plugin.shutdown()


def test_a_storage_plugin_from_the_registry_answers_once_it_is_configured():
    registry = PluginRegistry()
    registry.configure(PluginType.STORAGE, "s3", {"type": "s3", "bucket": "lake", "region": "eu-west-1"})
    assert registry.get(PluginType.STORAGE, "s3").get_warehouse_uri("bronze") == "s3://lake/warehouse/bronze"
    with pytest.raises(ConfigurationError):
        registry.configure(PluginType.STORAGE, "s3", {"type": "s3", "bucket": "UPPER"})


def test_a_storage_plugin_of_five_methods_serves_a_project(storage, tmp_path):
    registry = PluginRegistry()
    registry.register(storage)
    project = {"name": "demo", "floe_version": "0", "storage": {"type": "five"}}
    artifacts = CompiledArtifacts.model_validate(project).rooted_at(tmp_path)
    with open_project(artifacts, registry=registry) as connection:
        manager = IcebergTableManager.from_project(connection)
        manager.create_namespace("bronze")
        manager.create_table("bronze.orders", SCHEMA)
        manager.append("bronze.orders", pa.table({"id": [1]}))
        assert connection.catalog.properties["owner"] == "five"
    assert list((tmp_path / "lake/bronze/orders").rglob("*.parquet"))


@pytest.mark.req("PL-07")
def test_dagsters_resources_take_every_plugin_from_the_given_registry(storage, config, tmp_path):
    registry = PluginRegistry(source=list)
    registry.register(storage)
    registry.register(OneArgument())
    catalog = {"type": "one", "name": config.name, "uri": config.uri, "warehouse": config.warehouse}
    sections = {"storage": {"type": "five"}, "catalog": catalog}
    artifacts = CompiledArtifacts.model_validate({"name": "demo", "floe_version": "0", **sections})
    resources = create_iceberg_resources(artifacts.rooted_at(tmp_path), registry=registry)
    tables = resources["io_manager"].tables
    tables.create_namespace("bronze")
    assert tables.catalog.name == "lake"
    tables.close()


def test_an_engine_is_not_pointed_at_a_catalog_that_another_plugin_is_connected_to(config, tmp_path):
    plugin = default_registry().get(PluginType.CATALOG, "sql")
    plugin.connect(config)
    other = SqlCatalog("other", uri=f"sqlite:///{tmp_path}/other.db", warehouse=f"file://{tmp_path}/other")
    try:
        with pytest.raises(CapabilityError, match="cannot open a SqlCatalog without its catalog plugin"):
            IcebergTableManager(other).context.plane()
    finally:
        plugin.shutdown()
        other.close()


@pytest.mark.parametrize("kind", [SqlCatalogPlugin, RestCatalogPlugin])
def test_a_fresh_plugin_knows_nothing_of_a_connection(kind, config):
    plugin = kind()
    plugin.configure(config)
    if kind is SqlCatalogPlugin:
        plugin.connect(config)
    fresh = plugin.fresh()
    assert fresh.connected_catalog is None
    assert fresh.configured_with is config
    with pytest.raises(CatalogConnectionError):
        fresh.get_spark_conf("lake", {})
    plugin.shutdown()


def test_plain_values_connect_a_plugin_as_a_section_does(tmp_path):
    plugin = SqlCatalogPlugin()
    values = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalog = plugin.connect(values)
    IcebergTableManager(plugin).create_namespace("n")
    assert catalog.list_namespaces() == [("n",)]


def test_plain_values_that_do_not_fit_are_named_without_what_they_hold(tmp_path):
    with pytest.raises(ConfigurationError, match="catalog plugin 'sql' is not valid") as caught:
        SqlCatalogPlugin().connect(
            {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": 3, "url": "s3cr3t"}
        )
    assert {problem.path for problem in caught.value.problems} == {"warehouse", "url"}
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("given", [LocalStoragePlugin(), "catalog", object()])
def test_a_manager_of_something_else_than_a_catalog_is_refused(given):
    with pytest.raises(ConfigurationError, match="PyIceberg catalog or a catalog plugin"):
        IcebergTableManager(given)
