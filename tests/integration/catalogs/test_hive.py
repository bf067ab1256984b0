"""The ``hive`` catalog on a Hive metastore: plugin, tables on both engines, errors."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from floe_catalogs.hive import HiveCatalogPlugin
from floe_core.errors import (
    CapabilityError,
    NamespaceNotFoundError,
)
from floe_core.plugins import HealthState
from floe_core.schemas import CatalogConfig, CompiledArtifacts
from floe_iceberg import Engine, IcebergTableManager
from floe_testing.oracles.version_1 import check_version_1_fields
from floe_testing.plugins import CatalogPluginContract
from floe_testing.tables import NAMESPACE, TableManagerContract

pytestmark = pytest.mark.live

ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def hive_catalog(hive_metastore):
    """Give the catalog section of the metastore."""
    return {"type": "hive", "name": "hive", "uri": hive_metastore.url, "warehouse": hive_metastore["warehouse"]}


def connect(section, root):
    plugin = HiveCatalogPlugin()
    plugin.connect(CatalogConfig(**section), file_io={}, project_root=root)
    return plugin


@pytest.fixture
def manager(hive_catalog, tmp_path):
    """Give the manager of a project on the metastore."""
    artifacts = CompiledArtifacts.model_validate(
        {"name": "shop", "floe_version": "test", "catalog": hive_catalog, "compute": {"master": "local[2]"}}
    ).rooted_at(tmp_path)
    with IcebergTableManager.from_artifacts(artifacts) as manager:
        manager.create_namespace(NAMESPACE)
        yield manager


@pytest.mark.req("PL-01", "PL-06")
class TestHivePlugin(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return HiveCatalogPlugin

    @pytest.fixture
    def catalog_config(self, hive_catalog):
        return CatalogConfig(**hive_catalog)


class HiveTables(TableManagerContract):
    @pytest.fixture
    def manager(self, manager):
        return manager


class TestHiveArrow(HiveTables):
    engine = Engine.ARROW

    def test_the_fields_of_version_1_alone_follow_the_schema_and_the_spec(self, manager):
        check_version_1_fields(manager, f"{NAMESPACE}.v{uuid.uuid4().hex[:12]}")


@pytest.mark.spark
class TestHiveSpark(HiveTables):
    engine = Engine.SPARK


@pytest.mark.spark
def test_each_engine_sees_what_the_other_did(manager):
    namespace = f"both_{uuid.uuid4().hex[:10]}"
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.t", ROWS.schema)
    manager.append(f"{namespace}.t", ROWS, engine=Engine.ARROW)
    manager.append(f"{namespace}.t", ROWS, engine=Engine.SPARK)
    manager.append(f"{namespace}.t", ROWS, engine=Engine.ARROW)
    assert sorted(manager.scan(f"{namespace}.t")["id"].to_pylist()) == [1, 1, 1, 2, 2, 2]


def test_threads_commit_side_by_side(manager):
    name = f"{NAMESPACE}.t{uuid.uuid4().hex[:12]}"
    manager.create_table(name, ROWS.schema)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: manager.append(name, ROWS, engine=Engine.ARROW), range(8)))
    assert manager.scan(name).num_rows == 16


def test_a_database_lies_in_the_warehouse_and_keeps_its_properties(hive_catalog, tmp_path):
    plugin = connect(hive_catalog, tmp_path)
    name = f"ns_{uuid.uuid4().hex[:10]}"
    plugin.create_namespace(name, {"owner": "sales", "comment": "of ours"})
    found = plugin.namespaces.update_properties(name, updates={"tier": "gold"}, removals=["owner"])
    assert found["tier"] == "gold"
    assert found["comment"] == "of ours"
    assert "owner" not in found
    assert found["location"].removeprefix("file:").lstrip("/") == (
        f"{hive_catalog['warehouse']}/{name}.db".removeprefix("file:").lstrip("/")
    )
    plugin.delete_namespace(name)
    plugin.shutdown()


def test_a_nested_namespace_is_refused_before_its_parent_is_made(hive_catalog, tmp_path):
    plugin = connect(hive_catalog, tmp_path)
    parent = f"ns_{uuid.uuid4().hex[:10]}"
    with pytest.raises(CapabilityError, match=f"{parent}_raw"):
        plugin.create_namespace(f"{parent}.raw")
    assert parent not in plugin.list_namespaces()
    plugin.shutdown()


def test_a_table_at_a_place_of_its_own_needs_its_database_too(hive_catalog, tmp_path):
    plugin = connect(hive_catalog, tmp_path)
    with pytest.raises(NamespaceNotFoundError, match="nowhere"):
        plugin.create_table("nowhere.t", ROWS.schema, location=f"file://{tmp_path}/t")
    plugin.shutdown()


def test_the_second_address_is_used_when_the_first_is_down(hive_catalog, tmp_path):
    plugin = connect({**hive_catalog, "uri": f"thrift://127.0.0.1:1, {hive_catalog['uri']}"}, tmp_path)
    assert plugin.health_check().state is HealthState.HEALTHY
    plugin.shutdown()
