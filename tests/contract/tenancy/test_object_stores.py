"""The object stores of tenancy keep one contract."""

from __future__ import annotations

import uuid

import pytest

from floe_core.errors import StorageError
from floe_tenancy import BucketAddress, CatalogProvider
from floe_tenancy.stores.factory import open_store
from floe_testing.object_stores import ObjectStoreContract


@pytest.fixture
def prefix():
    return f"contract/{uuid.uuid4().hex}/"


@pytest.mark.req("TN-03")
class TestLocal(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return opened(CatalogProvider.LOCAL, str(tmp_path / "bucket"), {})

    def test_empty_folders_go_with_their_last_file(self, store, prefix, tmp_path):
        store.create(f"{prefix}deep/er/x", b"x")
        store.delete([f"{prefix}deep/er/x"])
        assert list((tmp_path / "bucket").iterdir()) == []

    def test_empty_folders_that_a_killed_delete_left_go_with_the_next_one(self, store, prefix, tmp_path):
        store.create(f"{prefix}marker", b"x")
        (tmp_path / "bucket" / prefix / "deep" / "er").mkdir(parents=True)
        store.create("other/x", b"x")
        store.delete([f"{prefix}marker"])
        assert [path.name for path in (tmp_path / "bucket").iterdir()] == ["other"]

    def test_a_place_that_cannot_be_written_is_an_error(self, tmp_path):
        (tmp_path / "file").write_text("x")
        blocked = opened(CatalogProvider.LOCAL, str(tmp_path / "file"), {})
        with pytest.raises(StorageError, match="failed to write"):
            blocked.create("a", b"x")


@pytest.mark.req("TN-03")
class TestS3(ObjectStoreContract):
    @pytest.fixture
    def store(self, minio):
        properties = {
            "s3.endpoint": minio.url,
            "s3.region": minio["region"],
            "s3.access-key-id": minio["access_key_id"],
            "s3.secret-access-key": minio["secret_access_key"],
        }
        return opened(CatalogProvider.S3, minio["bucket"], properties)


@pytest.mark.live
@pytest.mark.req("TN-03")
class TestGcs(ObjectStoreContract):
    @pytest.fixture
    def store(self, fake_gcs):
        return opened(
            CatalogProvider.GCS, fake_gcs["bucket"], {"gcs.service.host": fake_gcs.url, "gcs.oauth2.token": "anon"}
        )


@pytest.mark.live
@pytest.mark.req("TN-03")
class TestAzure(ObjectStoreContract):
    @pytest.fixture
    def store(self, azurite):
        properties = {"adls.connection-string": azurite["connection_string"]}
        return opened(CatalogProvider.AZURE, azurite["container"], properties)


def opened(provider, bucket, properties):
    return open_store(provider, BucketAddress.parse(bucket, provider), properties)
