"""The ``s3`` plugin passes the storage contract on MinIO."""

from __future__ import annotations

import pytest

from floe_core.schemas import StorageConfig
from floe_storage.s3 import S3StoragePlugin
from floe_testing.plugins import StoragePluginContract


@pytest.mark.req("PL-05")
@pytest.mark.timeout(900)
class TestS3OnMinio(StoragePluginContract):
    @pytest.fixture
    def plugin_class(self):
        return S3StoragePlugin

    @pytest.fixture
    def storage_config(self, minio, monkeypatch):
        monkeypatch.setenv("LAKE_SECRET", minio["secret_access_key"])
        credentials = {"access_key_id": minio["access_key_id"], "secret_access_key": "${LAKE_SECRET}"}
        return StorageConfig(type="s3", bucket=minio["bucket"], endpoint=minio.url, credentials=credentials)

    @pytest.fixture
    def storage_secrets(self, minio):
        return (minio["secret_access_key"],)
