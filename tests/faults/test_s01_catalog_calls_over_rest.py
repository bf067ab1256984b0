"""S01 for drops, renames, registrations and namespaces over REST: completed calls succeed despite wrong replies."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError

from floe_core.errors import (
    FloeStorageError,
    NamespaceNotFoundError,
    TableNotFoundError,
)
from floe_iceberg import IcebergTableManager

SCHEMA = pa.schema([pa.field("id", pa.int64())])
TABLE = r"/tables/[^/]+$"
DOUBTFUL = [409, 429, 500, 502, 503, 504, "no answer"]
whatever_is_said = pytest.mark.parametrize("kind", DOUBTFUL, ids=str)


@pytest.fixture
def manager(connect, namespace):
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    return manager


@pytest.fixture
def orders(manager, namespace):
    name = f"{namespace}.orders"
    manager.create_table(name, SCHEMA)
    manager.append(name, pa.table({"id": [1]}))
    return name


def lose_answer(gateway, kind, method, path):
    """Let a call land and answer it with something else."""
    if kind == "no answer":
        return gateway.cut(method=method, path=path, after_forwarding=True)
    return gateway.answer(kind, method=method, path=path, after_forwarding=True)


@whatever_is_said
def test_s01_a_table_that_was_dropped_is_no_error(gateway, manager, orders, kind):
    rule = lose_answer(gateway, kind, "DELETE", TABLE)
    manager.drop_table(orders)
    assert rule.hits == 1
    assert not manager.table_exists(orders)


@whatever_is_said
def test_s01_a_table_that_was_renamed_is_returned(gateway, manager, namespace, orders, kind):
    before = manager.load_table(orders).metadata.table_uuid
    rule = lose_answer(gateway, kind, "POST", r"/tables/rename$")
    manager.rename_table(orders, f"{namespace}.sales")
    assert rule.hits == 1
    assert manager.load_table(f"{namespace}.sales").metadata.table_uuid == before
    assert not manager.table_exists(orders)


@whatever_is_said
def test_s01_a_table_that_was_registered_is_returned(gateway, manager, namespace, orders, kind):
    location = manager.load_table(orders).metadata_location
    manager.drop_table(orders)
    rule = lose_answer(gateway, kind, "POST", r"/register$")
    manager.register_table(f"{namespace}.again", location)
    assert rule.hits == 1
    assert manager.scan(f"{namespace}.again").num_rows == 1


@whatever_is_said
def test_s01_a_namespace_that_was_made_is_ours(gateway, manager, namespace, kind):
    rule = lose_answer(gateway, kind, "POST", r"/namespaces$")
    assert manager.create_namespace(f"{namespace}.inner", {"owner": "sales"})
    assert rule.hits == 1
    assert manager.namespaces.properties(f"{namespace}.inner")["owner"] == "sales"


@whatever_is_said
def test_s01_a_namespace_that_was_dropped_is_no_error(gateway, manager, namespace, kind):
    rule = lose_answer(gateway, kind, "DELETE", r"/namespaces/[^/]+$")
    manager.namespaces.delete(namespace)
    assert rule.hits == 1
    assert not manager.namespaces.exists(namespace)


@whatever_is_said
def test_s01_properties_that_were_set_are_returned(gateway, manager, namespace, kind):
    rule = lose_answer(gateway, kind, "POST", r"/properties$")
    found = manager.namespaces.update_properties(namespace, updates={"owner": "sales"})
    assert rule.hits == 1
    assert found["owner"] == "sales"


@pytest.mark.parametrize("status", [500, 504])
def test_s03_a_call_that_never_landed_is_an_error(gateway, manager, namespace, orders, status):
    gateway.answer(status, method="DELETE|POST", times=None)
    calls = {
        "drop": lambda: manager.drop_table(orders),
        "rename": lambda: manager.rename_table(orders, f"{namespace}.sales"),
        "namespace": lambda: manager.create_namespace(f"{namespace}.inner"),
        "properties": lambda: manager.namespaces.update_properties(namespace, updates={"owner": "sales"}),
    }
    for call in calls.values():
        with pytest.raises(FloeStorageError):
            call()
    gateway.clear()
    assert manager.scan(orders).num_rows == 1
    assert "owner" not in manager.namespaces.properties(namespace)


def test_s01_somebody_elses_table_of_the_same_name_is_not_dropped(gateway, connect, manager, namespace, orders):
    other = IcebergTableManager(connect())

    def replaced(exchange, reply):
        other.create_table(orders, SCHEMA)
        return reply.__class__(500)

    from floe_testing.faults.gateway import Rule

    gateway.add(Rule("DELETE", TABLE, 1, rewrite=replaced))
    manager.drop_table(orders)
    assert manager.scan(orders).num_rows == 0, "the new table is somebody else's and stays"


def test_s01_what_was_never_there_is_still_not_found(gateway, manager, namespace, orders):
    with pytest.raises(TableNotFoundError):
        manager.drop_table(f"{namespace}.nothing")
    with pytest.raises((NoSuchTableError, TableNotFoundError)):
        manager.rename_table(f"{namespace}.nothing", f"{namespace}.other")
    with pytest.raises(NamespaceNotFoundError):
        manager.namespaces.delete(f"{namespace}.nothing")
    with pytest.raises((TableAlreadyExistsError, FloeStorageError)):
        manager.register_table(orders, manager.load_table(orders).metadata_location)
    assert manager.create_namespace(namespace) is False
