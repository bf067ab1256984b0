"""The example plugins satisfy floe's plugin contracts."""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pytest
from floe_core.errors import ConfigurationError
from floe_core.plugins import CheckedData, PluginRegistry, PluginType
from floe_core.schemas import CompiledArtifacts, StorageConfig
from floe_iceberg import open_project
from floe_testing.plugins import PluginContract, StoragePluginContract

from floe_example_plugin import JsonFileSecretsPlugin, RowCountPlugin, ScratchStoragePlugin


@pytest.fixture(autouse=True)
def _temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


class TestScratchStorage(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return ScratchStoragePlugin

    @pytest.fixture
    def plugin_config(self):
        return {"clean_up": True}

    @pytest.fixture
    def storage_config(self):
        return StorageConfig(type="scratch")

    @pytest.mark.parametrize("clean_up", [True, False])
    def test_files_stay_unless_they_are_to_be_cleaned_up(self, storage, clean_up):
        registry = PluginRegistry(source=list)
        registry.register(storage)
        registry.configure(PluginType.STORAGE, "scratch", {"clean_up": clean_up})
        registry.startup()
        storage.folder.mkdir(parents=True)
        registry.shutdown()
        assert storage.folder.exists() is not clean_up

    @pytest.mark.parametrize("clean_up", ["true", "false"])
    def test_a_project_cleans_up_when_it_is_closed_and_told_to(self, plugin, tmp_path, clean_up):
        registry = PluginRegistry()
        registry.register(plugin)
        section = {"type": "scratch", "options": {"clean_up": clean_up}}
        project = {"name": "experiments", "floe_version": "0", "storage": section}
        with open_project(CompiledArtifacts.model_validate(project).rooted_at(tmp_path), registry=registry) as opened:
            opened.namespaces.create("bronze")
            opened.catalog.create_table("bronze.trials", pa.schema([("id", pa.int64())]))
            folder = opened.storage_plugin.folder
            assert list(folder.rglob("*.metadata.json"))
        assert folder.exists() is (clean_up == "false")


class TestRowCount(PluginContract):
    @pytest.fixture
    def plugin_class(self):
        return RowCountPlugin

    @pytest.fixture
    def plugin_config(self):
        return {"at_least": 10}

    def test_it_judges_by_its_configuration(self, registry, plugin):
        assert plugin.judge(10)
        assert not plugin.judge(9)

    def test_a_bad_configuration_is_refused(self, registry):
        with pytest.raises(ConfigurationError, match="at_least"):
            registry.configure(PluginType.QUALITY, "row-count", {"at_least": -1})

    @pytest.mark.parametrize(("rows", "passed"), [(10, True), (9, False)])
    def test_it_counts_the_rows_it_is_given(self, registry, plugin, rows, passed):
        table = pa.table({"id": list(range(rows))})
        result = plugin.check(CheckedData("bronze.trials", None, (), lambda: table.to_reader(max_chunksize=4)))
        assert (result.passed, result.figures["num_rows"]) == (passed, rows)


class TestJsonFile(PluginContract):
    @pytest.fixture
    def plugin_class(self):
        return JsonFileSecretsPlugin

    @pytest.fixture
    def file(self, tmp_path):
        file = tmp_path / "secrets.json"
        file.write_text('{"lake": "canary5Tq8Zw"}')
        file.chmod(0o600)
        return file

    @pytest.fixture
    def plugin_config(self, file):
        return {"path": str(file)}

    def test_it_knows_secrets_while_it_is_started(self, registry, plugin):
        assert plugin.get_secret("lake") is None
        registry.startup().raise_for_failures()
        assert plugin.get_secret("lake").get_secret_value() == "canary5Tq8Zw"
        assert plugin.get_secret("sea") is None
        registry.shutdown()
        assert plugin.get_secret("lake") is None

    @pytest.mark.parametrize(("content", "mode"), [('{"lake": "canary5Tq8Zw"}', 0o644), ("canary5Tq8Zw", 0o600)])
    def test_a_file_that_will_not_do_keeps_it_from_starting(self, registry, file, content, mode):
        file.write_text(content)
        file.chmod(mode)
        report = registry.startup()
        assert not report.ok
        assert "canary5Tq8Zw" not in str(report.failures[0])

    def test_a_project_takes_its_secrets_from_the_file(self, plugin, file, tmp_path):
        registry = PluginRegistry()
        registry.register(plugin)
        credentials = {"access_key_id": "id", "secret_access_key": {"secret_ref": "lake"}}
        storage = {"type": "s3", "bucket": "lake", "endpoint": "http://127.0.0.1:9", "credentials": credentials}
        secrets = {"type": "json-file", "options": {"path": str(file)}}
        project = {"name": "experiments", "floe_version": "0", "storage": storage, "vault": secrets}
        with open_project(CompiledArtifacts.model_validate(project).rooted_at(tmp_path), registry=registry) as opened:
            assert opened.catalog.properties["s3.secret-access-key"] == "canary5Tq8Zw"
