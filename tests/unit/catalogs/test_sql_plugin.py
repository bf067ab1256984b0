"""The ``sql`` catalog plugin on SQLite."""

from __future__ import annotations

import multiprocessing
import sqlite3
import stat
import sys
import threading

import pyarrow as pa
import pytest

from floe_catalogs.sql import SqlCatalogPlugin
from floe_catalogs.sql import database as database_module
from floe_catalogs.sql.database import Database
from floe_core.errors import (
    CapabilityError,
    CatalogConnectionError,
    CatalogUnavailableError,
    ConfigurationError,
    MissingDependencyError,
    TableExistsError,
    TableNotFoundError,
)
from floe_core.plugins import HealthState
from floe_core.schemas import CatalogConfig

SCHEMA = pa.schema([("id", pa.int64())])


def connect(root, **settings):
    plugin = SqlCatalogPlugin()
    settings.setdefault("warehouse", f"file://{root}/wh")
    plugin.connect(CatalogConfig(**settings), file_io={}, project_root=root)
    return plugin


def test_the_default_is_a_file_in_the_project(tmp_path):
    connect(tmp_path).shutdown()
    assert (tmp_path / ".floe" / "catalog.db").is_file()


@pytest.mark.parametrize("uri", ["lake/meta.db", "sqlite:///lake/meta.db", "sqlite:////{root}/lake/meta.db"])
def test_the_file_is_where_the_address_says(tmp_path, uri):
    connect(tmp_path, uri=uri.replace("/{root}", str(tmp_path))).shutdown()
    assert (tmp_path / "lake" / "meta.db").is_file()


@pytest.mark.parametrize("folder", ["with space", "größe-日本", "per%cent", "que?stion", "ha#sh"])
def test_unusual_folders_hold_a_catalog(tmp_path, folder):
    root = tmp_path / folder
    plugin = connect(root)
    plugin.create_namespace("bronze")
    plugin.shutdown()
    assert (root / ".floe" / "catalog.db").is_file()
    assert connect(root).list_namespaces() == ["bronze"]


@pytest.mark.req("PL-06")
def test_tables_are_registered_listed_and_dropped(plugin):
    plugin.create_namespace("bronze")
    plugin.create_table("bronze.orders", SCHEMA, properties={"owner": "x"})
    plugin.create_table("bronze.items", SCHEMA)
    assert plugin.list_tables("bronze") == ["items", "orders"]
    with pytest.raises(TableExistsError):
        plugin.create_table("bronze.orders", SCHEMA)
    plugin.drop_table("bronze.orders")
    with pytest.raises(TableNotFoundError):
        plugin.drop_table("bronze.orders")


def test_purging_removes_the_files(plugin, tmp_path):
    plugin.create_namespace("bronze")
    plugin.create_table("bronze.orders", SCHEMA)
    plugin.catalog.load_table("bronze.orders").append(pa.table({"id": [1]}))
    plugin.drop_table("bronze.orders", purge=True)
    assert not list((tmp_path / "wh").rglob("*.parquet"))


def test_nested_namespaces_are_nested_folders_as_spark_makes_them(plugin, tmp_path):
    plugin.create_namespace("bronze.raw")
    plugin.create_table("bronze.raw.events", SCHEMA)
    assert plugin.catalog.load_table("bronze.raw.events").location() == f"file://{tmp_path}/wh/bronze/raw/events"


def test_a_namespace_s_own_location_wins(plugin, tmp_path):
    plugin.create_namespace("bronze", {"location": f"file://{tmp_path}/elsewhere/"})
    plugin.create_table("bronze.t", SCHEMA)
    assert plugin.catalog.load_table("bronze.t").location() == f"file://{tmp_path}/elsewhere/t"


def test_the_database_has_the_schema_that_spark_s_v1_wants(plugin, tmp_path):
    with sqlite3.connect(tmp_path / ".floe/catalog.db") as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(iceberg_tables)")]
        assert "iceberg_type" in columns
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_catalog_of_the_old_schema_is_brought_up_to_date(tmp_path):
    plugin = connect(tmp_path)
    plugin.create_namespace("bronze")
    plugin.create_table("bronze.orders", SCHEMA)
    plugin.shutdown()
    connection = sqlite3.connect(tmp_path / ".floe/catalog.db")
    connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    connection.close()
    plugin = connect(tmp_path)
    assert plugin.list_tables("bronze") == ["orders"]
    plugin.create_table("bronze.items", SCHEMA)
    assert plugin.list_tables("bronze") == ["items", "orders"]


def test_views_of_other_engines_keep_their_namespace(plugin, tmp_path):
    plugin.create_namespace("bronze")
    connection = sqlite3.connect(tmp_path / ".floe/catalog.db")
    connection.execute(
        "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
        " VALUES ('floe', 'bronze', 'v', 'file:/x', 'VIEW')"
    )
    connection.commit()
    connection.close()
    assert plugin.list_tables("bronze") == []
    with pytest.raises(Exception, match="not empty"):
        plugin.delete_namespace("bronze")


def test_spark_gets_the_same_file_and_warehouse(plugin, tmp_path):
    conf = plugin.get_spark_conf("floe", plugin.catalog.properties)
    assert conf == {
        "spark.sql.catalog.floe": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.floe.type": "jdbc",
        "spark.sql.catalog.floe.uri": f"jdbc:sqlite:{tmp_path}/.floe/catalog.db",
        "spark.sql.catalog.floe.warehouse": f"file://{tmp_path}/wh",
        "spark.sql.catalog.floe.jdbc.schema-version": "V1",
        "spark.sql.catalog.floe.jdbc.busy_timeout": "60000",
        "spark.sql.catalog.floe.cache-enabled": "false",
    }
    assert plugin.get_spark_packages({}) == ("org.xerial:sqlite-jdbc:3.53.4.0",)


@pytest.mark.req("FR-036")
@pytest.mark.parametrize("uri", ["mysql://host/db", "http://host", "postgresql://host:port/db"])
def test_an_address_of_another_kind_is_a_configuration_error(tmp_path, uri):
    with pytest.raises(ConfigurationError) as caught:
        connect(tmp_path, uri=uri)
    [problem] = caught.value.problems
    assert problem.path == "catalog.uri"
    assert "postgresql://host/database" in problem.fix


def test_without_a_warehouse_the_error_names_the_setting(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        SqlCatalogPlugin().connect(CatalogConfig(), file_io={}, project_root=tmp_path)
    assert caught.value.problems[0].path == "catalog.warehouse"


def test_postgres_without_its_driver_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match=r"floe-lakehouse\[postgres\]"):
        connect(tmp_path, uri="postgresql://host/db")


def test_a_file_that_is_no_database_says_so(tmp_path):
    (tmp_path / "notes.db").write_text("not a database, just text " * 100)
    with pytest.raises(CatalogConnectionError, match="not a SQLite database"):
        connect(tmp_path, uri="notes.db")


def test_a_folder_in_the_file_s_place_says_so(tmp_path):
    (tmp_path / "catalog.db").mkdir()
    with pytest.raises(CatalogConnectionError, match="Cannot use"):
        connect(tmp_path, uri="catalog.db")


def test_a_lock_held_too_long_is_a_transient_error(tmp_path, monkeypatch):
    monkeypatch.setattr(database_module, "BUSY_TIMEOUT_SECONDS", 0.1)
    plugin = connect(tmp_path)
    holder = sqlite3.connect(tmp_path / ".floe/catalog.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(CatalogUnavailableError, match="Timed out waiting for another process to unlock"):
            plugin.create_namespace("bronze")
        assert plugin.list_namespaces() == []
    finally:
        holder.rollback()
        holder.close()
    plugin.create_namespace("bronze")
    assert plugin.list_namespaces() == ["bronze"]


def test_an_unconnected_plugin_says_how_to_connect():
    plugin = SqlCatalogPlugin()
    assert plugin.health_check().state is HealthState.DEGRADED
    with pytest.raises(CatalogConnectionError, match="open_project"):
        plugin.list_namespaces()


def test_health_follows_the_database(plugin, tmp_path):
    assert plugin.health_check().ok
    plugin.catalog.close()
    (tmp_path / ".floe" / "catalog.db").write_bytes(b"damaged" * 1000)
    assert plugin.health_check().state is HealthState.UNHEALTHY


def test_credentials_are_not_vended(plugin):
    with pytest.raises(CapabilityError):
        plugin.vend_credentials("bronze.orders", ["READ"])


def test_no_secret_shows(tmp_path):
    plugin = SqlCatalogPlugin()
    secret = {"s3.secret-access-key": "CANARY-key"}
    config = CatalogConfig(warehouse=f"file://{tmp_path}")
    catalog = plugin.connect(config, file_io=secret, project_root=tmp_path)
    assert "CANARY" not in f"{plugin!r} {catalog!r} {catalog} {plugin._database!r}"


def test_a_postgres_address_with_a_password_hides_it(tmp_path, monkeypatch):
    monkeypatch.setenv("PG_PASSWORD", "CANARY-two")
    config = CatalogConfig(
        uri="postgresql://someone:CANARY-one@db:5433/lake?sslmode=require",
        credentials={"username": "floe", "password": "${PG_PASSWORD}"},
    )
    database = Database.from_config(config, project_root=tmp_path)
    assert "CANARY" not in f"{database!r} {database.display_url}"
    assert database.jdbc_properties() == {
        "uri": "jdbc:postgresql://db:5433/lake?sslmode=require",
        "jdbc.user": "floe",
        "jdbc.password": "CANARY-two",
        "jdbc.connectTimeout": "5",
        "jdbc.socketTimeout": "120",
    }


def test_threads_share_one_catalog(plugin):
    failures = []

    def create(number):
        try:
            for depth in range(5):
                plugin.create_namespace(f"n{depth}.t{number}")
        except Exception as err:  # noqa: BLE001 - the test reports any
            failures.append(err)

    threads = [threading.Thread(target=create, args=[number]) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(plugin.namespaces.tree()) == 5 + 5 * 16


@pytest.mark.skipif(sys.platform == "win32", reason="capability: no fork")
def test_a_forked_child_uses_connections_of_its_own(plugin):
    plugin.create_namespace("parent")

    def child(results):
        plugin.create_namespace("child")
        results.put(plugin.list_namespaces())

    context = multiprocessing.get_context("fork")
    results = context.Queue()
    process = context.Process(target=child, args=[results])
    process.start()
    assert results.get(timeout=60) == ["child", "parent"]
    process.join(timeout=60)
    assert process.exitcode == 0
    plugin.create_namespace("after")
    assert plugin.list_namespaces() == ["after", "child", "parent"]


def test_a_folder_that_may_not_be_written_is_explained(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    blocker.chmod(stat.S_IRUSR)
    with pytest.raises(Exception, match=r"Cannot create.*catalog\.uri"):
        connect(tmp_path, uri="file/catalog.db")
