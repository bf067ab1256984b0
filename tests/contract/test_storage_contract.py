"""The storage plugins keep the contract; the local one with real files."""

from __future__ import annotations

import pytest

from floe_core.schemas import StorageConfig
from floe_storage.azure import AzureStoragePlugin
from floe_storage.gcs import GcsStoragePlugin
from floe_storage.local import LocalStoragePlugin
from floe_storage.s3 import S3StoragePlugin
from floe_testing.plugins import StorageFormsContract, StoragePluginContract

SECRET = "contract-canary"


@pytest.mark.req("PL-01", "PL-05")
class TestLocalStorage(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return LocalStoragePlugin

    @pytest.fixture
    def storage_config(self):
        return StorageConfig(root="lake house ü")


class RemoteStorageForms(StorageFormsContract):
    """What the remote stores share: one secret, set for the test."""

    @pytest.fixture(autouse=True)
    def _variable(self, monkeypatch):
        monkeypatch.setenv("LAKE_SECRET", SECRET)

    @pytest.fixture
    def storage_secrets(self):
        return (SECRET,)


@pytest.mark.req("PL-01", "PL-05")
class TestS3Storage(RemoteStorageForms):
    @pytest.fixture
    def plugin_class(self):
        return S3StoragePlugin

    @pytest.fixture
    def storage_config(self):
        credentials = {"access_key_id": "id", "secret_access_key": "${LAKE_SECRET}"}
        return StorageConfig(type="s3", bucket="lake", endpoint="http://127.0.0.1:9", credentials=credentials)


@pytest.mark.req("PL-01", "PL-05")
class TestGcsStorage(RemoteStorageForms):
    @pytest.fixture
    def plugin_class(self):
        return GcsStoragePlugin

    @pytest.fixture
    def storage_config(self):
        return StorageConfig(type="gcs", bucket="lake", project="p", credentials={"token": "${LAKE_SECRET}"})


@pytest.mark.req("PL-01", "PL-05")
class TestAzureStorage(RemoteStorageForms):
    @pytest.fixture
    def plugin_class(self):
        return AzureStoragePlugin

    @pytest.fixture
    def storage_config(self):
        credentials = {"account_name": "acct", "account_key": "${LAKE_SECRET}"}
        return StorageConfig(type="azure", bucket="lake", credentials=credentials)
