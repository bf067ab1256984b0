"""The built-in plugins pass the contract suites for third-party plugins."""

from __future__ import annotations

import pytest

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig, StorageConfig
from floe_spark.plugin import SparkComputePlugin
from floe_storage.azure import AzureStoragePlugin
from floe_storage.gcs import GcsStoragePlugin
from floe_storage.local import LocalStoragePlugin
from floe_storage.s3 import S3StoragePlugin
from floe_testing.plugins import CatalogPluginContract, PluginContract, StorageFormsContract, StoragePluginContract

SECRETS = ("canary-storage-key", "canary-session-token")


@pytest.fixture(autouse=True)
def _secrets(monkeypatch):
    monkeypatch.setenv("STORAGE_KEY", SECRETS[0])
    monkeypatch.setenv("SESSION_TOKEN", SECRETS[1])


@pytest.mark.req("PL-01", "PL-02", "PL-05")
class TestLocalStorage(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return LocalStoragePlugin

    @pytest.fixture
    def storage_config(self):
        return StorageConfig(type="local", root="a folder/wärehouse")


class RemoteStorage(StorageFormsContract):
    """The forms of a store that needs a server; its files are tested where there is one."""

    @pytest.fixture
    def storage_secrets(self):
        return SECRETS


@pytest.mark.req("PL-01", "PL-05")
class TestS3Storage(RemoteStorage):
    @pytest.fixture
    def plugin_class(self):
        return S3StoragePlugin

    @pytest.fixture
    def storage_config(self):
        credentials = {
            "access_key_id": "id",
            "secret_access_key": "${STORAGE_KEY}",
            "session_token": "${SESSION_TOKEN}",
        }
        return StorageConfig.model_validate(
            {"type": "s3", "bucket": "lake", "region": "eu-west-1", "credentials": credentials}
        )


@pytest.mark.req("PL-01", "PL-05")
class TestGcsStorage(RemoteStorage):
    @pytest.fixture
    def plugin_class(self):
        return GcsStoragePlugin

    @pytest.fixture
    def storage_config(self):
        return StorageConfig.model_validate(
            {"type": "gcs", "bucket": "lake", "project": "p", "credentials": {"token": "${SESSION_TOKEN}"}}
        )


@pytest.mark.req("PL-01", "PL-05")
class TestAzureStorage(RemoteStorage):
    @pytest.fixture
    def plugin_class(self):
        return AzureStoragePlugin

    @pytest.fixture
    def storage_config(self):
        credentials = {"account_name": "acct", "account_key": "${STORAGE_KEY}"}
        return StorageConfig.model_validate({"type": "azure", "bucket": "lake", "credentials": credentials})


@pytest.mark.req("PL-01", "PL-06")
class TestSqlCatalog(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return SqlCatalogPlugin

    @pytest.fixture
    def catalog_config(self, tmp_path):
        return CatalogConfig(type="sql", name="lake", warehouse=f"file://{tmp_path}/warehouse")


@pytest.mark.req("PL-01")
class TestSparkCompute(PluginContract):
    """Its engine is tested where Spark runs."""

    @pytest.fixture
    def plugin_class(self):
        return SparkComputePlugin
