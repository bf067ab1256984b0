"""The s3 plugin keeps the whole contract on a real store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from floe_core.schemas import StorageConfig
from floe_storage.s3 import S3StoragePlugin
from floe_testing.plugins import StoragePluginContract
from floe_testing.services.minio import Minio
from floe_testing.services.runner import ServiceRun
from floe_testing.services.toolchain import missing_toolchain


@pytest.fixture(scope="module")
def minio():
    """Give a MinIO server."""
    if reason := Minio().missing():
        missing_toolchain(reason)
    run = ServiceRun(Path(__file__).parents[3] / ".floe-dev", f"storage-{os.getpid()}")
    yield run.start(Minio())
    run.leave()


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
