"""The ``gcs`` and ``azure`` plugins pass the storage contract on emulators."""

from __future__ import annotations

import pytest

from floe_core.schemas import StorageConfig
from floe_storage.azure import AzureStoragePlugin
from floe_storage.gcs import GcsStoragePlugin
from floe_testing.plugins import StoragePluginContract

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    # aiohttp warns about large bodies in one piece, which gcsfs and adlfs send.
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]


class GcsContract(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return GcsStoragePlugin


@pytest.mark.req("PL-05")
class TestGcsWithToken(GcsContract):
    @pytest.fixture
    def storage_config(self, fake_gcs, monkeypatch):
        monkeypatch.setenv("LAKE_SECRET", "token-of-the-test")
        return StorageConfig(
            type="gcs",
            bucket=fake_gcs["bucket"],
            endpoint=fake_gcs.url,
            project=fake_gcs["project"],
            credentials={"token": "${LAKE_SECRET}"},
        )

    @pytest.fixture
    def storage_secrets(self):
        return ("token-of-the-test",)


@pytest.mark.req("PL-05")
class TestGcsAnonymous(GcsContract):
    @pytest.fixture
    def storage_config(self, fake_gcs, monkeypatch):
        # gcsfs uses an API that emulators do not have.
        monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
        return StorageConfig(type="gcs", bucket=fake_gcs["bucket"], endpoint=fake_gcs.url, project=fake_gcs["project"])


@pytest.mark.req("PL-05")
class TestAzureWithConnectionString(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return AzureStoragePlugin

    @pytest.fixture
    def storage_config(self, azurite, monkeypatch):
        monkeypatch.setenv("LAKE_SECRET", azurite["connection_string"])
        return StorageConfig(
            type="azure",
            bucket=azurite["container"],
            endpoint=azurite.url,
            credentials={"account_name": azurite["account"], "connection_string": "${LAKE_SECRET}"},
        )

    @pytest.fixture
    def storage_secrets(self, azurite):
        return (azurite["account_key"],)
