"""The ``sql`` catalog plugin on PostgreSQL."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogConnectionError,
    CatalogUnavailableError,
    DeadlineExceededError,
    NamespaceNotEmptyError,
)
from floe_core.plugins import HealthState
from floe_core.schemas import CatalogConfig
from floe_iceberg import IcebergTableManager
from floe_testing.services.host.runner import ServiceRun
from floe_testing.services.postgres import Postgres

SCHEMA = pa.schema([("id", pa.int64())])


def connect(section, root):
    plugin = SqlCatalogPlugin()
    plugin.connect(CatalogConfig(**section), file_io={}, project_root=root)
    return plugin


@pytest.mark.req("FR-007", "FR-008", "FR-009", "FR-010", "FR-011")
def test_namespaces_and_tables_live_a_whole_life(postgres_catalog, tmp_path):
    plugin = connect(postgres_catalog, tmp_path)
    plugin.create_namespace("bronze.raw", {"owner": "x"})
    plugin.create_namespace("Bronze")
    assert plugin.list_namespaces() == sorted(["bronze", "Bronze"])
    plugin.create_table("bronze.raw.t", SCHEMA)
    plugin.catalog.load_table("bronze.raw.t").append(pa.table({"id": [1, 2, 3]}))
    plugin.shutdown()

    plugin = connect(postgres_catalog, tmp_path)
    assert plugin.catalog.load_table("bronze.raw.t").scan().to_arrow().num_rows == 3
    with pytest.raises(NamespaceNotEmptyError, match=r"bronze\.raw\.t"):
        plugin.delete_namespace("bronze.raw")
    assert plugin.namespaces.update_properties("bronze.raw", updates={"a": "b"}, removals=["owner"]) == {"a": "b"}
    plugin.drop_table("bronze.raw.t", purge=True)
    plugin.delete_namespace("bronze.raw")
    plugin.delete_namespace("bronze")
    assert plugin.list_namespaces() == ["Bronze"]
    assert plugin.health_check().ok
    plugin.shutdown()


@pytest.mark.req("SC-006")
def test_a_wrong_password_is_an_authentication_error_that_names_the_setting(postgres_catalog, tmp_path, monkeypatch):
    monkeypatch.setenv("PG_PASSWORD", "CANARY-wrong")
    with capture_logs() as logs, pytest.raises(CatalogAuthenticationError) as caught:
        connect(postgres_catalog, tmp_path)
    assert "catalog.credentials.password" in str(caught.value)
    assert "CANARY" not in f"{caught.value} {logs}"


@pytest.mark.req("SC-006")
def test_an_unknown_user_is_an_authentication_error(postgres_catalog, tmp_path):
    postgres_catalog["credentials"]["username"] = "nobody_here"
    with pytest.raises(CatalogAuthenticationError, match="rejected the login"):
        connect(postgres_catalog, tmp_path)


def test_an_unknown_database_says_how_to_make_it(postgres_catalog, tmp_path):
    postgres_catalog["uri"] = postgres_catalog["uri"].rpartition("/")[0] + "/absent"
    with pytest.raises(CatalogConnectionError, match="createdb"):
        connect(postgres_catalog, tmp_path)


def test_a_server_that_is_not_there_is_a_transient_error(postgres_catalog, tmp_path):
    postgres_catalog |= {"uri": "postgresql://127.0.0.1:1/lake", "retry": {"max_attempts": 1}}
    with pytest.raises(CatalogUnavailableError, match="not available"):
        connect(postgres_catalog, tmp_path)


def test_a_statement_ends_at_its_deadline(postgres_catalog, tmp_path):
    plugin = connect({**postgres_catalog, "timeouts": {"total_seconds": 0.3}}, tmp_path)
    with pytest.raises(DeadlineExceededError, match=r"within 0\.3 s"), plugin.catalog.engine.connect() as connection:
        connection.execute(text("SELECT pg_sleep(30)"))
    plugin.shutdown()


def test_the_same_catalog_recovers_when_its_connections_were_cut(administer, postgres_catalog, tmp_path):
    plugin = connect(postgres_catalog, tmp_path)
    plugin.create_namespace("bronze")
    database = postgres_catalog["uri"].rpartition("/")[2]
    administer(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    assert plugin.list_namespaces() == ["bronze"]
    plugin.shutdown()


@pytest.mark.req("FR-019")
@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
def test_a_lost_race_is_repeated_at_any_isolation_level(administer, postgres_catalog, tmp_path, isolation):
    database = postgres_catalog["uri"].rpartition("/")[2]
    administer(f"ALTER DATABASE {database} SET default_transaction_isolation = '{isolation}'")
    plugin = connect(postgres_catalog, tmp_path)
    plugin.create_namespace("bronze")
    plugin.create_table("bronze.t", SCHEMA)
    manager = IcebergTableManager(plugin.catalog)
    with ThreadPoolExecutor(max_workers=1) as pool, plugin.catalog.engine.connect() as other:
        other.execute(text("UPDATE iceberg_tables SET previous_metadata_location = 'elsewhere'"))
        append = pool.submit(manager.append, "bronze.t", pa.table({"id": [1]}))
        waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
        while not append.done() and not other.execute(waiting).scalar():
            time.sleep(0.05)
        other.commit()
        append.result()
    assert manager.scan("bronze.t").num_rows == 1
    plugin.shutdown()


def test_a_server_that_went_away_makes_the_plugin_unhealthy(postgres_server, pytestconfig, tmp_path, monkeypatch):
    # The shared server is only used to skip if PostgreSQL is missing; the test has its own server.
    run = ServiceRun(pytestconfig.rootpath / ".floe-dev", f"away-{os.getpid()}")
    server = run.start(Postgres())
    monkeypatch.setenv("PG_PASSWORD", server["password"])
    section = {
        "warehouse": f"file://{tmp_path}/wh",
        "retry": {"max_attempts": 1},
        "uri": f"postgresql://{server['host']}:{server['port']}/{server['database']}",
        "credentials": {"username": server["user"], "password": "${PG_PASSWORD}"},
    }
    plugin = connect(section, tmp_path)
    plugin.create_namespace("bronze")
    plugin.catalog.close()
    run.stop("postgres")
    assert plugin.health_check().state is HealthState.UNHEALTHY
    with pytest.raises(CatalogUnavailableError):
        plugin.list_namespaces()
    plugin.shutdown()


def test_spark_gets_the_driver_the_address_and_the_login(postgres_catalog, tmp_path, postgres_server):
    plugin = connect(postgres_catalog, tmp_path)
    conf = plugin.get_spark_conf("floe", plugin.catalog.properties)
    assert conf["spark.sql.catalog.floe.uri"] == f"jdbc:{postgres_catalog['uri']}"
    assert conf["spark.sql.catalog.floe.jdbc.user"] == postgres_server["user"]
    assert conf["spark.sql.catalog.floe.jdbc.password"] == postgres_server["password"]
    assert plugin.get_spark_packages({}) == ("org.postgresql:postgresql:42.7.13",)
    assert postgres_server["password"] not in repr(plugin) + str(dict(plugin.catalog.properties))
    plugin.shutdown()
