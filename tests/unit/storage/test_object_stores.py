"""Opening of object stores by a plugin, or from a location and PyIceberg's properties."""

from __future__ import annotations

import sys

import pytest

from floe_core.errors import CapabilityError, ConfigurationError, MissingDependencyError
from floe_core.plugins import PluginType
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import StorageConfig
from floe_storage.local import LocalObjectStore
from floe_storage.opening import StoreLocation, open_store


@pytest.mark.parametrize(
    ("location", "parts"),
    [
        ("s3://lake", ("s3", "lake", None, "")),
        ("S3A://lake/a b/100%25/", ("s3a", "lake", None, "a b/100%25")),
        ("gs://lake/wh", ("gs", "lake", None, "wh")),
        ("abfss://lake@acct.dfs.core.windows.net/wh/x", ("abfss", "lake", "acct", "wh/x")),
        ("abfss://lake/wh", ("abfss", "lake", None, "wh")),
        ("file:///data/a b%20c", ("file", "", None, "/data/a b%20c")),
        ("file:/data", ("file", "", None, "/data")),
        ("/data", ("file", "", None, "/data")),
    ],
)
def test_a_location_has_parts(location, parts):
    assert StoreLocation.parse(location) == parts


def test_a_location_of_an_unknown_scheme_is_refused():
    with pytest.raises(CapabilityError, match="'hdfs'"):
        open_store("hdfs://name/lake", {})


@pytest.mark.parametrize("location", ["file://localhost/tmp/x", "file://tmp/x", "s3://", "s3:///lake", "gs:///lake"])
def test_a_location_that_is_no_folder_and_no_bucket_is_refused(tmp_path, monkeypatch, location):
    # A host must not become a folder below the working directory.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CapabilityError, match=location):
        open_store(location, {})


@pytest.mark.parametrize(
    "properties",
    [
        {"adls.account-name": "acct", "adls.account-key": "a2V5"},
        {"adls.connection-string": "AccountName=acct;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/acct"},
    ],
    ids=["key", "connection-string"],
)
def test_credentials_of_another_azure_account_are_not_used(properties):
    # They would open the container of the same name in their own account.
    with pytest.raises(CapabilityError, match=r"'other'.*'acct'"):
        open_store("abfss://lake@other.dfs.core.windows.net/wh", properties)
    assert open_store("abfss://lake@ACCT.dfs.core.windows.net/wh", properties)
    assert open_store("abfss://lake/wh", properties)


@pytest.mark.parametrize(
    ("location", "client", "extra"),
    [
        ("s3://lake", "obstore.store", "s3"),
        ("gs://lake", "google.cloud", "gcs"),
        ("abfss://lake@acct.dfs.core.windows.net", "obstore.store", "azure"),
    ],
    ids=["s3", "gcs", "azure"],
)
def test_a_missing_client_names_its_extra(monkeypatch, location, client, extra):
    monkeypatch.setitem(sys.modules, client, None)
    with pytest.raises(MissingDependencyError, match=rf"floe-lakehouse\[{extra}\]"):
        open_store(location, {})


def test_a_plugin_opens_its_warehouse_and_what_is_below(tmp_path):
    plugin = PluginRegistry().get(PluginType.STORAGE, "local")
    plugin.bind(StorageConfig(type="local", root="lake"), project_root=tmp_path)
    assert plugin.object_store().create("bronze/x", b"1")
    assert (tmp_path / "lake/bronze/x").read_bytes() == b"1"
    assert [item.key for item in plugin.object_store(plugin.get_warehouse_uri("bronze")).list()] == ["x"]


def test_an_unbound_plugin_opens_nothing():
    with pytest.raises(ConfigurationError):
        PluginRegistry().get(PluginType.STORAGE, "local").object_store()


def test_a_file_that_goes_during_a_listing_is_left_out(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).write_bytes(b"1")
    listing = LocalObjectStore(tmp_path).list()
    assert next(listing).key == "a"
    (tmp_path / "b").unlink()
    assert [item.key for item in listing] == ["c"]
