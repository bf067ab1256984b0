"""Table creations over REST with lost or wrong replies: floe recognizes the tables that it has created."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CatalogConnectionError, TableExistsError
from floe_core.schemas import CatalogConfig
from floe_iceberg import IcebergTableManager
from floe_polaris.plugin import RestCatalogPlugin
from floe_testing.rest_fixtures import store_properties

SCHEMA = pa.schema([pa.field("id", pa.int64())])
CREATE_PATH = r"/tables$"
LANDED_BUT_DOUBTFUL = [409, 429, 500, 502, 503, 504, "no answer"]


@pytest.fixture
def manager(connect, namespace):
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    return manager


def lose_answer(gateway, kind):
    """Let a creation land and answer it with something else."""
    if kind == "no answer":
        return gateway.cut(method="POST", path=CREATE_PATH, after_forwarding=True)
    return gateway.answer(kind, method="POST", path=CREATE_PATH, after_forwarding=True)


@pytest.mark.req("TM-14")
@pytest.mark.parametrize("kind", LANDED_BUT_DOUBTFUL, ids=str)
def test_s01_s03_a_table_that_was_made_is_returned_whatever_was_answered(gateway, manager, namespace, kind):
    rule = lose_answer(gateway, kind)
    table = manager.create_table(f"{namespace}.orders", SCHEMA, properties={"owner": "sales"})
    assert rule.hits == 1
    assert table.properties["owner"] == "sales"
    manager.append(f"{namespace}.orders", pa.table({"id": [1]}))
    assert manager.scan(f"{namespace}.orders").num_rows == 1


@pytest.mark.parametrize("kind", LANDED_BUT_DOUBTFUL, ids=str)
def test_s01_s03_somebody_elses_table_is_told_apart(gateway, manager, namespace, kind):
    manager.create_table(f"{namespace}.orders", SCHEMA)
    lose_answer(gateway, kind)
    with pytest.raises(TableExistsError, match=f"{namespace}.orders"):
        manager.create_table(f"{namespace}.orders", SCHEMA)


@pytest.mark.parametrize("status", [500, 503])
def test_s03_a_creation_that_never_landed_is_an_error_and_can_be_repeated(gateway, manager, namespace, status):
    gateway.answer(status, method="POST", path=CREATE_PATH, times=None)
    with pytest.raises(CatalogConnectionError):
        manager.create_table(f"{namespace}.orders", SCHEMA)
    gateway.clear()
    assert manager.list_tables(namespace) == []
    manager.create_table(f"{namespace}.orders", SCHEMA)


def test_s01_the_plugins_thin_registration_tells_the_same_truth(gateway, manager, namespace, minio, tmp_path):
    plugin = RestCatalogPlugin()
    section = CatalogConfig(type="rest", uri=gateway.url, warehouse="lake", access_delegation="none")
    plugin.connect(section, file_io=store_properties(minio), project_root=tmp_path)
    gateway.cut(method="POST", path=CREATE_PATH, after_forwarding=True)
    plugin.create_table(f"{namespace}.orders", SCHEMA)
    with pytest.raises(TableExistsError):
        plugin.create_table(f"{namespace}.orders", SCHEMA)
    plugin.shutdown()
