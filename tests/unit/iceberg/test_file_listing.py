"""Listings through PyIceberg's FileIO, and maintenance on fsspec file systems."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import LocalFileSystem as LocalFiles
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import load_file_io

from floe_core.errors import CapabilityError, CorruptFileError, StorageAuthenticationError, StorageError
from floe_iceberg import IcebergTableManager
from floe_iceberg.table.files.file_listing import FileIOListing
from floe_iceberg.table.recovery import newest_metadata
from floe_testing.embedded_tables import local_path

FSSPEC = "pyiceberg.io.fsspec.FsspecFileIO"
PYARROW = "pyiceberg.io.pyarrow.PyArrowFileIO"
NAME = "bronze.events"


class Disk(LocalFileSystem):
    """A file system that does not say when a file was written."""

    def find(self, path, **options):
        return {path: {"size": info["size"]} for path, info in super().find(path, **options).items()}


class Failing(LocalFileSystem):
    """A file system whose listings fail with a client's own error."""

    error: Exception

    def find(self, path, **options):
        raise self.error


class Client:
    """A FileIO with a file system of the test's."""

    def __init__(self, files):
        self._files = files

    def get_fs(self, scheme):
        return self._files


@pytest.fixture(params=[FSSPEC, PYARROW], ids=["fsspec", "pyarrow"])
def manager(request, tmp_path):
    catalog = SqlCatalog(
        "lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/lake", **{"py-io-impl": request.param}
    )
    with IcebergTableManager(catalog) as manager:
        yield manager
    catalog.close()


@pytest.fixture
def events(manager):
    manager.namespaces.create("bronze")
    manager.create_table(NAME, pa.schema([("id", pa.int64())]))
    manager.append(NAME, pa.table({"id": [1]}))
    return manager.load_table(NAME)


def stray(table):
    path = local_path(table.location()) / "data/stray.parquet"
    path.write_bytes(b"x")
    os.utime(path, (0, 0))
    return path


def test_a_file_io_that_cannot_list_is_refused():
    with pytest.raises(CapabilityError, match="does not support listing") as refused:
        FileIOListing(object(), "s3://lake/x", table=NAME)
    assert refused.value.table == NAME


def test_a_file_of_unknown_age_has_no_time(tmp_path):
    (tmp_path / "x").write_bytes(b"1")
    [found] = FileIOListing(Client(Disk()), f"file://{tmp_path}").list()
    assert (found.key, found.size, found.modified) == ("x", 1, None)


@pytest.mark.parametrize("place", ["", "file://"], ids=["path", "url"])
def test_fsspec_turns_the_url_of_a_missing_folder_into_a_path(tmp_path, place):
    path = str(tmp_path / "missing")
    assert LocalFileSystem()._strip_protocol(f"{place}{path}") == path, (
        "fsspec no longer turns a URL into a path with _strip_protocol: "
        "change _path_in in floe_iceberg/table/files/file_listing.py."
    )


@pytest.mark.parametrize("io", [FSSPEC, PYARROW], ids=["fsspec", "pyarrow"])
def test_a_file_from_the_first_second_of_1970_has_a_time(tmp_path, io):
    (tmp_path / "x").write_bytes(b"1")
    os.utime(tmp_path / "x", (0, 0))
    [found] = FileIOListing(load_file_io({"py-io-impl": io}), f"file://{tmp_path}").list()
    assert found.modified == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("broken pipe"), StorageError),
        (PermissionError("AccessDenied"), StorageAuthenticationError),
    ],
    ids=["client", "denied"],
)
def test_a_failed_listing_is_a_storage_error(tmp_path, error, kind):
    files = Failing()
    files.error = error
    with pytest.raises(kind) as failed:
        list(FileIOListing(Client(files), str(tmp_path), table=NAME).list())
    assert failed.value.table == NAME


class ByPrefix(LocalFileSystem):
    """A file system that finds by the beginning of a name, as the API of an object store does."""

    def find(self, path, **options):
        parent, name = os.path.split(self._strip_protocol(path))
        found = super().find(parent, **options)
        return {place: info for place, info in found.items() if place.startswith(f"{parent}/{name}")}


def test_a_folder_whose_name_begins_the_same_is_not_listed(tmp_path):
    for name in ("t", "t1", "t 1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"1")
    assert [found.key for found in FileIOListing(Client(ByPrefix()), f"file://{tmp_path}/t").list()] == ["x"]


def test_a_location_that_the_store_cannot_have_is_a_storage_error():
    listing = FileIOListing(load_file_io({"py-io-impl": PYARROW, "s3.region": "us-east-1"}), "s3://lake//t", table=NAME)
    with pytest.raises(StorageError, match="Empty path component") as failed:
        list(listing.list())
    assert failed.value.table == NAME


def test_a_link_to_a_folder_is_no_file_for_fsspec(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/x").write_bytes(b"1")
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "lake/file").symlink_to(tmp_path / "elsewhere/x")
    listing = FileIOListing(load_file_io({"py-io-impl": FSSPEC}), f"file://{tmp_path}/lake")
    assert [found.key for found in listing.list()] == ["file"]


def test_a_sweep_finds_the_orphans(manager, events):
    path = stray(events)
    swept = manager.sweep_orphans(NAME, dry_run=False)
    assert [local_path(file) for file in swept.files] == [path]
    assert not path.exists()


def test_a_sweep_leaves_files_of_unknown_age_alone(manager, events, monkeypatch):
    path = stray(events)
    listed = FileIOListing.list

    def without_times(self, prefix=""):
        return (type(found)(found.key, found.size) for found in listed(self, prefix))

    monkeypatch.setattr(FileIOListing, "list", without_times)
    assert manager.sweep_orphans(NAME, dry_run=False, older_than=datetime.now(UTC) - timedelta(days=9)).files == ()
    assert path.exists()


def test_a_purge_takes_what_no_version_references(manager, events):
    folder = local_path(events.location())
    stray(events)
    manager.drop_table(NAME, purge=True)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


class WrittenMeanwhile(LocalFiles):
    """A local file system on which a file is written as soon as its folder was listed."""

    late = None

    def get_file_info(self, selector):
        found = super().get_file_info(selector)
        self.late.write_bytes(b"1")
        return found


@pytest.mark.parametrize("key", ["data", ""], ids=["below", "itself"])
def test_a_file_written_while_an_empty_folder_is_removed_stays(tmp_path, key):
    folder = tmp_path / "t" / key
    folder.mkdir(parents=True)
    listing = FileIOListing(load_file_io({"py-io-impl": PYARROW}), f"file://{tmp_path}/t")
    listing._files = WrittenMeanwhile()
    listing._files.late = folder / "new.parquet"
    listing.remove_empty_folder(key)
    assert (folder / "new.parquet").is_file()


def test_an_empty_folder_is_removed_with_the_empty_folders_below(tmp_path):
    (tmp_path / "t/data/day=1/hour=2").mkdir(parents=True)
    listing = FileIOListing(load_file_io({"py-io-impl": PYARROW}), f"file://{tmp_path}/t")
    listing.remove_empty_folder("data")
    assert not (tmp_path / "t/data").exists()
    (tmp_path / "t/metadata").mkdir()
    listing.remove_empty_folder()
    assert (tmp_path / "t/metadata").exists()


@pytest.mark.parametrize("link", ["data", "data/link"])
def test_folders_behind_a_link_are_not_removed(tmp_path, link):
    (tmp_path / "elsewhere/empty").mkdir(parents=True)
    (tmp_path / "t" / link).parent.mkdir(parents=True)
    (tmp_path / "t" / link).symlink_to(tmp_path / "elsewhere")
    FileIOListing(load_file_io({"py-io-impl": PYARROW}), f"file://{tmp_path}/t").remove_empty_folder("data")
    assert (tmp_path / "elsewhere/empty").is_dir()


def test_the_newest_metadata_that_can_be_read_is_found(manager, events):
    before = events.metadata.metadata_log[-1].metadata_file
    local_path(events.metadata_location).write_bytes(b"{")
    (local_path(events.location()) / "metadata/deeper").mkdir()
    (local_path(events.location()) / "metadata/deeper/00009-x.metadata.json").write_bytes(
        local_path(before).read_bytes()
    )
    broken = CorruptFileError("damaged", path=events.metadata_location)
    assert newest_metadata(manager.context, NAME, broken) == before
