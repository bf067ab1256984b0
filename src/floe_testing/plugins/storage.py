"""Contract suites for storage plugins."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from floe_core.errors import CapabilityError, ConfigurationError
from floe_core.plugins import FileIO
from floe_testing.plugins.metadata import PluginContract
from floe_testing.plugins.network import no_network

if TYPE_CHECKING:
    from pathlib import Path

    from floe_core.plugins import StoragePlugin
    from floe_core.plugins.object_store import ObjectStore
    from floe_core.schemas import StorageConfig


class StorageFormsContract(PluginContract):
    """Tests of the configurations that a plugin generates; the store need not be reachable.

    Override ``storage_config``; if it refers to secrets, override ``storage_secrets`` and set their variables.
    """

    @pytest.fixture
    def storage_config(self) -> StorageConfig:
        """Return a ``storage`` section that the plugin accepts."""
        msg = "override the fixture storage_config"
        raise NotImplementedError(msg)

    @pytest.fixture
    def storage_secrets(self) -> tuple[str, ...]:
        """Return the secret values that must not appear in output."""
        return ()

    @pytest.fixture
    def storage(self, plugin: StoragePlugin, storage_config: StorageConfig, tmp_path: Path) -> StoragePlugin:
        """Return the bound plugin."""
        plugin.bind(storage_config, project_root=tmp_path)
        return plugin

    def test_binding_does_not_use_the_network(
        self, plugin: StoragePlugin, storage_config: StorageConfig, tmp_path: Path
    ) -> None:
        with no_network():
            plugin.bind(storage_config, project_root=tmp_path)
            plugin.get_warehouse_uri()

    def test_an_unbound_plugin_raises_a_configuration_error(self, plugin: StoragePlugin) -> None:
        with pytest.raises(ConfigurationError):
            plugin.get_warehouse_uri()
        with pytest.raises(ConfigurationError):
            plugin.get_file_io_properties()

    def test_the_warehouse_is_a_uri_without_trailing_slash(self, storage: StoragePlugin) -> None:
        uri = storage.get_warehouse_uri()
        assert urlsplit(uri).scheme
        assert not uri.endswith("/")
        assert storage.get_warehouse_uri() == uri

    def test_a_namespace_is_below_the_warehouse(self, storage: StoragePlugin) -> None:
        uri = storage.get_warehouse_uri()
        assert storage.get_warehouse_uri("bronze") == f"{uri}/bronze"

    def test_nested_namespaces_are_nested_folders(self, storage: StoragePlugin) -> None:
        assert storage.get_warehouse_uri("bronze.raw.crm") == f"{storage.get_warehouse_uri('bronze')}/raw/crm"

    def test_a_namespace_is_not_below_another_with_the_same_prefix(self, storage: StoragePlugin) -> None:
        assert not storage.get_warehouse_uri("tenant-10").startswith(storage.get_warehouse_uri("tenant-1") + "/")

    def test_the_file_client_works_with_pyiceberg(self, storage: StoragePlugin) -> None:
        assert isinstance(storage.get_pyiceberg_fileio(), FileIO)

    def test_file_properties_are_text(self, storage: StoragePlugin) -> None:
        properties = storage.get_file_io_properties()
        assert all(isinstance(key, str) and isinstance(value, str) for key, value in properties.items())

    def test_the_dbt_profile_names_its_adapter(self, storage: StoragePlugin) -> None:
        assert storage.get_dbt_profile_config()["type"]

    @pytest.mark.parametrize(
        "form", ["get_dbt_profile_config", "get_dagster_io_manager_config", "get_helm_values_override"]
    )
    def test_generated_configuration_is_json_without_secrets(
        self, storage: StoragePlugin, storage_secrets: tuple[str, ...], form: str
    ) -> None:
        written = getattr(storage, form)()
        assert isinstance(written, dict)
        assert json.loads(json.dumps(written)) == written
        assert not any(secret in json.dumps(written) for secret in storage_secrets)

    def test_the_io_manager_accepts_its_configuration(
        self, storage: StoragePlugin, storage_secrets: tuple[str, ...]
    ) -> None:
        pytest.importorskip("dagster")
        from floe_dagster import IcebergIOManager

        given = storage.get_dagster_io_manager_config()
        io_manager = IcebergIOManager(catalog_uri="https://catalog.example", warehouse="lake", **given)
        shown = f"{io_manager} {io_manager.get_resource_definition().config_schema.default_value}"
        assert not any(secret in shown for secret in storage_secrets)

    def test_its_repr_and_uri_contain_no_secrets(
        self, storage: StoragePlugin, storage_secrets: tuple[str, ...]
    ) -> None:
        shown = repr(storage) + str(storage) + storage.get_warehouse_uri()
        assert not any(secret in shown for secret in storage_secrets)

    def test_spark_settings_are_text_and_packages_are_maven_coordinates(self, storage: StoragePlugin) -> None:
        conf = storage.get_spark_conf("lake")
        assert all(key.startswith("spark.") and isinstance(value, str) for key, value in conf.items())
        assert all(len(package.split(":")) >= 3 for package in storage.get_spark_packages())


class StoragePluginContract(StorageFormsContract):
    """Tests of the configurations, and of reading and writing files; the store must be reachable."""

    @pytest.fixture
    def location(self, storage: StoragePlugin) -> str:
        """Return the location of a new file in the warehouse."""
        return f"{storage.get_warehouse_uri('contract.nested')}/{uuid.uuid4().hex}.bin"

    @pytest.mark.parametrize("content", [b"", b"\x00iceberg\xff", b"x" * 3_000_000], ids=["empty", "bytes", "3 MB"])
    def test_a_file_is_read_as_written(self, storage: StoragePlugin, location: str, content: bytes) -> None:
        file_io = storage.get_pyiceberg_fileio()
        with file_io.new_output(location).create() as stream:
            stream.write(content)
        written = file_io.new_input(location)
        assert written.exists()
        assert len(written) == len(content)
        with written.open() as stream:
            assert stream.read() == content

    def test_a_file_is_only_overwritten_explicitly(self, storage: StoragePlugin, location: str) -> None:
        output = storage.get_pyiceberg_fileio().new_output(location)
        with output.create() as stream:
            stream.write(b"first")
        with pytest.raises(FileExistsError):
            output.create(overwrite=False)
        with output.create(overwrite=True) as stream:
            stream.write(b"second")
        with output.to_input_file().open() as stream:
            assert stream.read() == b"second"

    def test_a_deleted_file_is_gone(self, storage: StoragePlugin, location: str) -> None:
        file_io = storage.get_pyiceberg_fileio()
        with file_io.new_output(location).create() as stream:
            stream.write(b"x")
        file_io.delete(location)
        assert not file_io.new_input(location).exists()

    def test_its_object_store_contains_the_files_of_the_file_client(
        self, storage: StoragePlugin, location: str
    ) -> None:
        folder, _, name = location.rpartition("/")
        store = _object_store(storage, folder)
        if store is None:
            return
        with storage.get_pyiceberg_fileio().new_output(location).create() as stream:
            stream.write(b"x")
        assert name in {item.key for item in store.list()}
        assert store.read(name) == b"x"
        store.delete([name])
        assert not storage.get_pyiceberg_fileio().new_input(location).exists()

    def test_its_object_store_opens_at_the_warehouse(self, storage: StoragePlugin, location: str) -> None:
        key = location.removeprefix(f"{storage.get_warehouse_uri()}/")
        store = _object_store(storage)
        if store is None:
            return
        assert store.create(key, b"x")
        assert storage.get_pyiceberg_fileio().new_input(location).exists()

    def test_a_missing_file_differs_from_an_empty_one(self, storage: StoragePlugin, location: str) -> None:
        missing = storage.get_pyiceberg_fileio().new_input(location)
        assert not missing.exists()
        with pytest.raises(FileNotFoundError):
            missing.open()

    def test_it_stores_a_table(self, storage: StoragePlugin, tmp_path: Path) -> None:
        import pyarrow as pa
        from pyiceberg.catalog.sql import SqlCatalog

        properties = {**storage.get_file_io_properties(), "warehouse": storage.get_warehouse_uri()}
        catalog = SqlCatalog("contract", uri=f"sqlite:///{tmp_path / 'contract.db'}", **properties)
        rows = pa.table({"id": [1, 2, 3], "name": ["a", "b", None]})
        namespace = f"contract_{uuid.uuid4().hex[:8]}"
        try:
            catalog.create_namespace(namespace)
            table = catalog.create_table((namespace, "rows"), rows.schema)
            table.append(rows)
            assert table.location().startswith(storage.get_warehouse_uri())
            assert catalog.load_table((namespace, "rows")).scan().to_arrow().sort_by("id").equals(rows)
            catalog.purge_table((namespace, "rows"))
        finally:
            catalog.close()


def _object_store(storage: StoragePlugin, location: str | None = None) -> ObjectStore | None:
    # Plugins may not support object stores.
    try:
        return storage.object_store(location)
    except CapabilityError:
        return None
