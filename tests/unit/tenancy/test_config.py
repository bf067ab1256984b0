"""Namespaces and locations of tenants."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from floe_core.errors import InvalidIdentifierError
from floe_tenancy import CatalogProvider, IcebergCatalogConfig


def config(**changes):
    usual = {"name": "clients", "provider": CatalogProvider.S3, "warehouse_bucket": "lake"}
    return IcebergCatalogConfig(**{**usual, **changes})


@pytest.mark.req("TN-01")
def test_namespace_and_warehouse_follow_the_document():
    clients = config(warehouse_prefix="warehouse", namespace_prefix=("org", "clients"))
    assert clients.namespace_for("tenant-123") == ("org", "clients", "tenant-123")
    assert clients.warehouse_uri_for("tenant-123") == "s3://lake/warehouse/org/clients/tenant-123"
    assert clients.table_location("tenant-123", "main") == "s3://lake/warehouse/org/clients/tenant-123/main"
    assert config().namespace_for("tenant-123") == ("tenant-123",)


@pytest.mark.parametrize(
    ("provider", "bucket", "uri"),
    [
        (CatalogProvider.GCS, "gs://Lake/", "gs://lake/t"),
        (CatalogProvider.S3, "s3a://lake", "s3://lake/t"),
        (
            CatalogProvider.AZURE,
            "abfss://lake@Account.DFS.core.windows.net/",
            "abfss://lake@account.dfs.core.windows.net/t",
        ),
        (
            CatalogProvider.AZURE,
            "wasbs://lake@account.blob.core.windows.net",
            "wasbs://lake@account.blob.core.windows.net/t",
        ),
        (CatalogProvider.LOCAL, "file:///data//wh/", "file:///data/wh/t"),
        (CatalogProvider.LOCAL, "file:/data/wh", "file:///data/wh/t"),
        (CatalogProvider.LOCAL, "/data/wh", "file:///data/wh/t"),
    ],
)
@pytest.mark.req("TN-02")
def test_buckets_have_one_normal_form(provider, bucket, uri):
    assert config(provider=provider, warehouse_bucket=bucket).warehouse_uri_for("t") == uri


def test_a_relative_folder_starts_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = config(provider=CatalogProvider.LOCAL, warehouse_bucket="wh")
    assert here.warehouse_uri_for("t") == f"file://{Path.cwd()}/wh/t"


@pytest.mark.parametrize(
    "wrong",
    [
        {"warehouse_bucket": "gs://lake"},
        {"warehouse_bucket": "la"},
        {"warehouse_bucket": "lake/path"},
        {"warehouse_bucket": "user:pass@lake"},
        {"provider": CatalogProvider.LOCAL, "warehouse_bucket": "file://host/x"},
        {"provider": CatalogProvider.LOCAL, "warehouse_bucket": "/data?x"},
        {"warehouse_prefix": "../other"},
        {"metadata_prefix": "meta"},
        {"namespace_prefix": ("a.b",)},
        {"endpoint": "http://user:canary-secret@127.0.0.1:9000"},
        {"unknown": "x"},
        {"name": ""},
    ],
    ids=",".join,
)
def test_what_cannot_be_is_refused_without_repeating_secrets(wrong):
    with pytest.raises(ValidationError) as refused:
        config(**wrong)
    assert "canary-secret" not in str(refused.value)


def test_a_metadata_bucket_moves_the_metadata_of_tables():
    clients = config(metadata_bucket="meta", metadata_prefix="/m/", namespace_prefix="org")
    assert clients.metadata_uri_for("t") == "s3://meta/m/org/t"
    assert clients.table_properties("t", "main") == {"write.metadata.path": "s3://meta/m/org/t/main/metadata"}
    assert config().table_properties("t", "main") == {}


def test_a_table_name_must_be_a_folder_on_every_store():
    with pytest.raises(InvalidIdentifierError, match="table name"):
        config().table_location("t", "../x")
