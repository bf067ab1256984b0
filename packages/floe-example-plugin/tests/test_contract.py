"""The example keeps floe's plugin contracts."""

from __future__ import annotations

import tempfile

import pytest
from floe_core.errors import ConfigurationError
from floe_core.plugins import PluginRegistry, PluginType
from floe_core.schemas import StorageConfig
from floe_testing.plugins import PluginContract, StoragePluginContract

from floe_example_plugin import RowCountPlugin, ScratchStoragePlugin


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
