"""The code sample of the tenancy document runs as written; only PyIceberg's configuration is set by the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request

import pytest
from azure.storage.blob import BlobServiceClient
from pyarrow.fs import S3FileSystem

BUCKET = "my-data-bucket"

SAMPLE = """
from iceberg import (
    CatalogProvider,
    IcebergCatalogBootstrapper,
    IcebergCatalogConfig,
)

config = IcebergCatalogConfig(
    name="clients",
    provider=CatalogProvider.GCS,
    warehouse_bucket="my-data-bucket",
    warehouse_prefix="warehouse",
)
bootstrapper = IcebergCatalogBootstrapper()
result = bootstrapper.bootstrap_client("tenant-123", config)

handle = bootstrapper.open_catalog("tenant-123", config)
table = handle.catalog.load_table((*handle.namespace, "events"))
"""

SHOW = """
import json
import pyarrow as pa
from datetime import UTC, datetime

table.append(pa.Table.from_pylist(
    [{"event_id": "1", "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}],
    schema=table.schema().as_arrow(),
))
again = bootstrapper.bootstrap_client("tenant-123", config)
print(json.dumps({
    "namespace": result.namespace,
    "warehouse_uri": result.warehouse_uri,
    "created": result.created_tables,
    "existing": result.existing_tables,
    "markers": [[marker.uri, marker.created] for marker in result.markers],
    "took": result.took.total_seconds(),
    "again": [again.created_tables, again.existing_tables, [marker.created for marker in again.markers]],
    "location": table.location(),
    "rows": handle.catalog.load_table((*handle.namespace, "events")).scan().to_arrow().num_rows,
}))
"""


def run_sample(code: str, environ: dict[str, str], tmp_path) -> dict:
    settings = {f"PYICEBERG_CATALOG__CLIENTS__{key}": value for key, value in environ.items()}
    done = subprocess.run(
        [sys.executable, "-c", code + SHOW],
        env={
            **os.environ,
            "PYICEBERG_CATALOG__CLIENTS__TYPE": "sql",
            "PYICEBERG_CATALOG__CLIENTS__URI": f"sqlite:///{tmp_path}/clients.db",
            # gcsfs uses an API that emulators do not have.
            "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false",
            **settings,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(shown: dict, scheme: str) -> None:
    uri = f"{scheme}://{BUCKET}/warehouse/tenant-123"
    assert shown["namespace"] == ["tenant-123"]
    assert shown["warehouse_uri"] == uri
    assert shown["created"] == ["main", "events", "metrics"]
    assert shown["existing"] == []
    assert shown["markers"] == [[f"{uri}/.catalog-bootstrap", True]]
    assert shown["took"] > 0
    assert shown["again"] == [[], ["main", "events", "metrics"], [False]]
    assert shown["location"] == f"{uri}/events"
    assert shown["rows"] == 1


@pytest.mark.live
@pytest.mark.req("TN-01", "TN-04", "TN-05", "TN-07")
def test_the_sample_runs_as_written_on_gcs(fake_gcs, tmp_path):
    request = urllib.request.Request(  # noqa: S310 - our own server's address
        f"{fake_gcs.url}/storage/v1/b?project={fake_gcs['project']}",
        data=json.dumps({"name": BUCKET}).encode(),
        headers={"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310 - our own server's address
    shown = run_sample(SAMPLE, {"GCS__SERVICE__HOST": fake_gcs.url}, tmp_path)
    check(shown, "gs")


@pytest.mark.req("TN-01", "TN-04", "TN-05", "TN-07")
def test_the_sample_runs_on_s3(minio, tmp_path):
    S3FileSystem(
        endpoint_override=minio.url,
        access_key=minio["access_key_id"],
        secret_key=minio["secret_access_key"],
        region=minio["region"],
        allow_bucket_creation=True,
    ).create_dir(BUCKET)
    settings = {
        "S3__ENDPOINT": minio.url,
        "S3__ACCESS_KEY_ID": minio["access_key_id"],
        "S3__SECRET_ACCESS_KEY": minio["secret_access_key"],
    }
    check(run_sample(SAMPLE.replace("CatalogProvider.GCS", "CatalogProvider.S3"), settings, tmp_path), "s3")


@pytest.mark.live
@pytest.mark.req("TN-01", "TN-04", "TN-05", "TN-07")
def test_the_sample_runs_on_azure(azurite, tmp_path):
    with BlobServiceClient.from_connection_string(azurite["connection_string"]) as client:
        client.create_container(BUCKET)
    settings = {"ADLS__CONNECTION_STRING": azurite["connection_string"]}
    check(run_sample(SAMPLE.replace("CatalogProvider.GCS", "CatalogProvider.AZURE"), settings, tmp_path), "abfss")
