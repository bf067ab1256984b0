"""All object stores, and listings by PyIceberg's FileIO, pass the same contract."""

from __future__ import annotations

import uuid

import pytest
from pyiceberg.io import load_file_io

from floe_core.errors import StorageError
from floe_iceberg.table.files.file_listing import FileIOListing
from floe_storage.opening import open_store
from floe_testing.object_stores import ObjectListingContract, ObjectStoreContract

FSSPEC = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
PYARROW = {"py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
# gcsfs and adlfs pass large bodies to aiohttp in one piece.
LARGE_BODIES = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")


@pytest.fixture
def prefix():
    return f"contract/{uuid.uuid4().hex}/"


@pytest.fixture
def s3_properties(minio):
    return {
        "s3.endpoint": minio.url,
        "s3.region": minio["region"],
        "s3.access-key-id": minio["access_key_id"],
        "s3.secret-access-key": minio["secret_access_key"],
    }


@pytest.fixture
def gcs_properties(fake_gcs, monkeypatch):
    # gcsfs uses an API that emulators do not have.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    return {"gcs.service.host": fake_gcs.url, "gcs.oauth2.token": "anon", "gcs.project-id": fake_gcs["project"]}


@pytest.fixture
def azure_properties(azurite):
    return {"adls.connection-string": azurite["connection_string"]}


def below(bucket):
    """Return a location in a bucket: keys are relative to it."""
    return f"{bucket}/below/{uuid.uuid4().hex}"


@pytest.mark.req("TN-03")
class TestLocal(ObjectStoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(str(tmp_path / "bucket"), {})

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
        blocked = open_store(str(tmp_path / "file"), {})
        with pytest.raises(StorageError, match="failed to write"):
            blocked.create("a", b"x")


@pytest.mark.req("TN-03")
class TestS3(ObjectStoreContract):
    @pytest.fixture
    def store(self, minio, s3_properties):
        return open_store(f"s3://{minio['bucket']}", s3_properties)


class TestS3BelowAPrefix(ObjectStoreContract):
    @pytest.fixture
    def store(self, minio, s3_properties):
        return open_store(below(f"s3a://{minio['bucket']}"), s3_properties)


@pytest.mark.live
@pytest.mark.req("TN-03")
class TestGcs(ObjectStoreContract):
    @pytest.fixture
    def store(self, fake_gcs, gcs_properties):
        return open_store(f"gs://{fake_gcs['bucket']}", gcs_properties)


@pytest.mark.live
class TestGcsBelowAPrefix(ObjectStoreContract):
    @pytest.fixture
    def store(self, fake_gcs, gcs_properties):
        return open_store(below(f"gs://{fake_gcs['bucket']}"), gcs_properties)


@pytest.mark.live
@pytest.mark.req("TN-03")
class TestAzure(ObjectStoreContract):
    @pytest.fixture
    def store(self, azurite, azure_properties):
        return open_store(f"abfss://{azurite['container']}", azure_properties)


@pytest.mark.live
class TestAzureBelowAPrefix(ObjectStoreContract):
    @pytest.fixture
    def store(self, azurite, azure_properties):
        return open_store(below(f"abfss://{azurite['container']}@{azurite['account']}.example"), azure_properties)


class FileIOContract(ObjectListingContract):
    """The listing of a FileIO; subclasses provide ``io`` and ``location``."""

    @pytest.fixture
    def store(self, io, location):
        return FileIOListing(io, location)

    @pytest.fixture
    def put(self, io, location):
        def write(key, content):
            with io.new_output(f"{location}/{key}").create() as stream:
                stream.write(content)

        return write

    def test_a_file_deleted_by_another_thread_is_gone_from_the_listing(self, store, io, location, put, prefix):
        from concurrent.futures import ThreadPoolExecutor

        put(f"{prefix}x", b"1")
        put(f"{prefix}y", b"1")
        assert len(list(store.list(prefix))) == 2
        with ThreadPoolExecutor(1) as pool:
            pool.submit(io.delete, f"{location}/{prefix}x").result()
        assert [item.key for item in store.list(prefix)] == [f"{prefix}y"]


@pytest.mark.parametrize("io_properties", [PYARROW, FSSPEC], ids=["pyarrow", "fsspec"])
@pytest.mark.parametrize("scheme", ["file://", "file:", ""], ids=["uri", "java", "path"])
class TestLocalFileIO(FileIOContract):
    @pytest.fixture
    def location(self, tmp_path, scheme):
        return f"{scheme}{tmp_path}/lake"

    @pytest.fixture
    def io(self, io_properties, location):
        return load_file_io(io_properties, location)

    @pytest.fixture
    def put(self, tmp_path, io_properties, scheme):
        def write(key, content):
            path = tmp_path / "lake" / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

        return write


class TestS3FileIO(FileIOContract):
    @pytest.fixture
    def location(self, minio):
        return below(f"s3://{minio['bucket']}")

    @pytest.fixture
    def io(self, s3_properties, location):
        return load_file_io({**PYARROW, **s3_properties}, location)


@pytest.mark.live
@LARGE_BODIES
class TestGcsFileIO(FileIOContract):
    @pytest.fixture
    def location(self, fake_gcs):
        return below(f"gs://{fake_gcs['bucket']}")

    @pytest.fixture
    def io(self, gcs_properties, location):
        return load_file_io({**FSSPEC, **gcs_properties}, location)


@pytest.mark.live
@LARGE_BODIES
class TestAzureFileIO(FileIOContract):
    @pytest.fixture
    def location(self, azurite):
        return below(f"abfss://{azurite['container']}@{azurite['account']}.dfs.core.windows.net")

    @pytest.fixture
    def io(self, azure_properties, location):
        return load_file_io({**FSSPEC, **azure_properties}, location)
