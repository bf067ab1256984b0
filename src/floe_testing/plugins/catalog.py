"""Contract suite for catalog plugins."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from floe_core.errors import (
    CapabilityError,
    FloeStorageError,
    NamespaceNotEmptyError,
    NamespaceNotFoundError,
    TableExistsError,
    TableNotFoundError,
)
from floe_core.plugins import Catalog, HealthState
from floe_testing.plugins.metadata import PluginContract

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from floe_core.plugins import CatalogPlugin
    from floe_core.schemas import CatalogConfig

    Connect = Callable[[], Any]


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])


class CatalogPluginContract(PluginContract):
    """Tests of namespaces and tables in a connected catalog.

    Override ``catalog_config``; override ``file_io`` if table files are not on this machine, and ``catalog_secrets`` if
    the section refers to secrets.
    """

    @pytest.fixture
    def catalog_config(self, tmp_path: Path) -> CatalogConfig:
        """Return a ``catalog`` section for a running catalog."""
        msg = "override the fixture catalog_config"
        raise NotImplementedError(msg)

    @pytest.fixture
    def file_io(self) -> dict[str, str]:
        """Return file properties like those of a storage plugin."""
        return {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}

    @pytest.fixture
    def catalog_secrets(self) -> tuple[str, ...]:
        """Return the secret values that must not appear in output."""
        return ()

    @pytest.fixture
    def connect(
        self, plugin: CatalogPlugin, catalog_config: CatalogConfig, file_io: dict[str, str], tmp_path: Path
    ) -> Connect:
        """Return a function that connects the plugin."""
        return lambda: plugin.connect(catalog_config, file_io=file_io, project_root=tmp_path)

    @pytest.fixture
    def connected(self, plugin: CatalogPlugin, connect: Connect) -> Iterator[CatalogPlugin]:
        """Return the connected plugin."""
        connect()
        yield plugin
        plugin.shutdown()

    @pytest.fixture
    def namespace(self, connected: CatalogPlugin) -> Iterator[str]:
        """Return a new namespace, which is deleted after the test."""
        name = f"contract_{uuid.uuid4().hex[:10]}"
        connected.create_namespace(name)
        yield name
        for table in connected.list_tables(name):
            connected.drop_table(f"{name}.{table}")
        connected.delete_namespace(name)

    def test_connect_returns_a_catalog_with_the_configured_name(
        self, connect: Connect, catalog_config: CatalogConfig, plugin: CatalogPlugin
    ) -> None:
        catalog = connect()
        assert isinstance(catalog, Catalog)
        assert catalog.name == catalog_config.name
        plugin.shutdown()

    def test_connected_catalog_is_set_only_while_connected(self, plugin: CatalogPlugin, connect: Connect) -> None:
        assert plugin.connected_catalog is None
        catalog = connect()
        assert plugin.connected_catalog is catalog
        assert plugin.fresh().connected_catalog is None
        plugin.shutdown()
        assert plugin.connected_catalog is None

    def test_using_it_before_connecting_is_a_clear_error(self, plugin: CatalogPlugin) -> None:
        with pytest.raises(FloeStorageError):
            plugin.list_namespaces()

    def test_it_is_healthy_only_while_connected(self, plugin: CatalogPlugin, connect: Connect) -> None:
        assert plugin.health_check().state is not HealthState.HEALTHY
        connect()
        status = plugin.health_check()
        plugin.shutdown()
        assert status.state is HealthState.HEALTHY, status.message

    def test_it_can_reconnect_after_a_shutdown(self, plugin: CatalogPlugin, connect: Connect) -> None:
        for _ in range(2):
            connect()
            plugin.list_namespaces()
            plugin.shutdown()
            plugin.shutdown()

    def test_a_created_namespace_is_listed(self, connected: CatalogPlugin, namespace: str) -> None:
        assert namespace in connected.list_namespaces()

    def test_creating_an_existing_namespace_changes_nothing(self, connected: CatalogPlugin, namespace: str) -> None:
        connected.create_table(f"{namespace}.kept", _schema())
        connected.create_namespace(namespace, {"owner": "somebody else"})
        assert connected.list_tables(namespace) == ["kept"]

    def test_missing_parents_are_created_and_each_level_lists_its_children(
        self, connected: CatalogPlugin, namespace: str
    ) -> None:
        if not connected.capabilities.nested_namespaces:
            pytest.skip(f"capability: {connected.name} has no nested namespaces")
        connected.create_namespace(f"{namespace}.raw.crm")
        assert connected.list_namespaces(namespace) == [f"{namespace}.raw"]
        assert connected.list_namespaces((namespace, "raw")) == [f"{namespace}.raw.crm"]
        assert f"{namespace}.raw" not in connected.list_namespaces()
        connected.delete_namespace((namespace, "raw", "crm"))
        connected.delete_namespace(f"{namespace}.raw")
        assert connected.list_namespaces(namespace) == []

    def test_a_namespace_with_a_table_is_not_deleted(self, connected: CatalogPlugin, namespace: str) -> None:
        connected.create_table(f"{namespace}.orders", _schema())
        with pytest.raises(NamespaceNotEmptyError):
            connected.delete_namespace(namespace)
        assert connected.list_tables(namespace) == ["orders"]

    def test_a_missing_namespace_is_a_typed_error(self, connected: CatalogPlugin) -> None:
        missing = f"missing_{uuid.uuid4().hex[:10]}"
        with pytest.raises(NamespaceNotFoundError):
            connected.delete_namespace(missing)
        with pytest.raises(NamespaceNotFoundError):
            connected.list_tables(missing)
        with pytest.raises(NamespaceNotFoundError):
            connected.create_table(f"{missing}.orders", _schema())

    def test_tables_are_listed_by_unqualified_name_in_their_namespace(
        self, connected: CatalogPlugin, namespace: str
    ) -> None:
        for name in ("orders", "customers"):
            connected.create_table(f"{namespace}.{name}", _schema())
        assert sorted(connected.list_tables(namespace)) == ["customers", "orders"]

    def test_a_registered_table_has_its_schema_and_properties(
        self, plugin: CatalogPlugin, connect: Connect, namespace: str
    ) -> None:
        plugin.create_table(f"{namespace}.orders", _schema(), properties={"owner": "sales"})
        table = connect().load_table((namespace, "orders"))
        assert table.schema().column_names == ["id", "name"]
        assert table.properties["owner"] == "sales"

    def test_an_existing_table_is_not_registered_again(self, connected: CatalogPlugin, namespace: str) -> None:
        connected.create_table(f"{namespace}.orders", _schema())
        with pytest.raises(TableExistsError):
            connected.create_table(f"{namespace}.orders", _schema())

    def test_a_dropped_table_is_gone_and_dropping_it_again_is_a_typed_error(
        self, connected: CatalogPlugin, namespace: str
    ) -> None:
        connected.create_table(f"{namespace}.orders", _schema())
        connected.drop_table(f"{namespace}.orders")
        assert connected.list_tables(namespace) == []
        with pytest.raises(TableNotFoundError):
            connected.drop_table(f"{namespace}.orders")

    def test_a_purged_table_is_gone(self, connected: CatalogPlugin, namespace: str) -> None:
        if not connected.capabilities.purge:
            pytest.skip(f"capability: {connected.name} does not purge")
        connected.create_table(f"{namespace}.orders", _schema())
        connected.drop_table(f"{namespace}.orders", True)  # noqa: FBT003 - the signature in the contract
        assert connected.list_tables(namespace) == []

    def test_a_catalog_without_credential_vending_raises_a_capability_error(
        self, connected: CatalogPlugin, namespace: str
    ) -> None:
        if connected.capabilities.vended_credentials:
            pytest.skip(f"capability: {connected.name} vends credentials")
        with pytest.raises(CapabilityError):
            connected.vend_credentials(f"{namespace}.orders", ["READ"])

    def test_its_spark_configuration_is_text_or_a_capability_error(
        self, connect: Connect, plugin: CatalogPlugin
    ) -> None:
        properties = connect().properties
        try:
            conf = plugin.get_spark_conf("lake", properties)
        except CapabilityError:
            return
        finally:
            plugin.shutdown()
        assert "spark.sql.catalog.lake" in conf
        assert all(key.startswith("spark.") and isinstance(value, str) for key, value in conf.items())

    def test_its_repr_contains_no_secrets(self, connected: CatalogPlugin, catalog_secrets: tuple[str, ...]) -> None:
        shown = f"{connected!r} {connected}"
        assert not any(secret in shown for secret in catalog_secrets)
