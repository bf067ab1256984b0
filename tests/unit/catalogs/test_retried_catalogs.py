"""The embedded and Hive catalogs apply ``catalog.retry`` and ``catalog.circuit_breaker``."""

from __future__ import annotations

import socket
import sqlite3
import threading

import pyarrow as pa
import pytest

from floe_catalogs.hive import HiveCatalogPlugin
from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import CatalogUnavailableError, CircuitOpenError
from floe_core.schemas import CatalogConfig

pytestmark = pytest.mark.req("FR-006a", "RD-02")

SOON = {"initial_wait_seconds": 0.1, "jitter_seconds": 0.0}


class Outage:
    """Lets the next statements of a database fail as a locked file does."""

    def __init__(self, engine):
        self.left, self.seen = 0, []
        self._execute = engine.dialect.do_execute
        engine.dialect.do_execute = self

    def __call__(self, cursor, statement, parameters, context=None):
        self.seen.append(statement.split()[0])
        if self.left:
            self.left -= 1
            msg = "database is locked"
            raise sqlite3.OperationalError(msg)
        return self._execute(cursor, statement, parameters, context)


@pytest.fixture
def opened(tmp_path):
    """Connect with settings; gives the plugin and the outage of its database."""
    plugin = SqlCatalogPlugin()

    def connect(**settings):
        section = {"uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/lake", **settings}
        catalog = plugin.connect(CatalogConfig.model_validate(section))
        catalog.create_namespace("bronze")
        catalog.create_table("bronze.orders", pa.schema([("id", pa.int64())]))
        return catalog, Outage(catalog.engine)

    yield connect
    plugin.shutdown()


LOOKS = {
    "load_table": lambda c: c.load_table("bronze.orders").name() == ("bronze", "orders"),
    "table_exists": lambda c: c.table_exists("bronze.orders"),
    "list_tables": lambda c: c.list_tables("bronze") == [("bronze", "orders")],
    "list_views": lambda c: c.list_views("bronze") == [],
    "list_namespaces": lambda c: c.list_namespaces() == [("bronze",)],
    "namespace_exists": lambda c: c.namespace_exists("bronze"),
    "load_namespace_properties": lambda c: c.load_namespace_properties("bronze") == {},
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_look_is_repeated_until_the_database_answers(opened, look):
    catalog, outage = opened(retry={"max_attempts": 3, **SOON})
    outage.left = 2
    assert LOOKS[look](catalog)
    assert outage.left == 0


def test_attempts_end_where_the_configuration_says(opened):
    catalog, outage = opened(retry={"max_attempts": 2, **SOON})
    outage.left = 9
    with pytest.raises(CatalogUnavailableError):
        catalog.list_tables("bronze")
    # Calls within another call are not repeated separately.
    assert outage.left == 7


def test_a_change_is_made_once(opened):
    catalog, outage = opened(retry={"max_attempts": 5, **SOON})
    outage.seen.clear()

    def fail_writes(cursor, statement, parameters, context=None):
        if statement.startswith("INSERT"):
            outage.left = 1
        return Outage.__call__(outage, cursor, statement, parameters, context)

    catalog.engine.dialect.do_execute = fail_writes
    with pytest.raises(CatalogUnavailableError):
        catalog.create_namespace("silver")
    assert outage.seen.count("INSERT") == 1


def test_the_breaker_opens_for_a_database_that_keeps_failing(opened):
    catalog, outage = opened(retry={"max_attempts": 1}, circuit_breaker={"failure_threshold": 2})
    outage.left = 2
    for _ in range(2):
        with pytest.raises(CatalogUnavailableError):
            catalog.list_namespaces()
    asked = len(outage.seen)
    with pytest.raises(CircuitOpenError):
        catalog.list_namespaces()
    assert len(outage.seen) == asked


def test_a_metastore_that_hangs_up_is_asked_again(tmp_path):
    calls = []

    def hang_up(server):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            calls.append(1)
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=hang_up, args=(server,), daemon=True)
        thread.start()
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        section = {"type": "hive", "uri": uri, "warehouse": f"file://{tmp_path}", "retry": {"max_attempts": 3, **SOON}}
        with pytest.raises(CatalogUnavailableError):
            HiveCatalogPlugin().connect(CatalogConfig.model_validate(section))
        server.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    assert len(calls) == 3
