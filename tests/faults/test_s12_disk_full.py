"""S12: a full disk or an exhausted bucket quota during a write."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import urllib.request
import uuid

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from floe_testing.faults.sites import RestSite

WRITE = textwrap.dedent(
    """
    import os, resource, sys
    import pyarrow as pa
    from floe_core.errors import StorageFullError, WriteError
    from floe_testing.faults.sites import EmbeddedSite, address_of, open_site

    address, kind, location = sys.argv[1:]
    with open_site(address_of(address)) as site:
        manager, name = site.open_manager(), site.name("t")
        schema = pa.schema([("id", pa.int64()), ("noise", pa.binary())])
        spec = ["bucket(4, id)"] if kind == "partitioned" else None
        table = manager.create_table(name, schema, partition_spec=spec, location=location)
        before = manager.append(name, pa.table({"id": [1], "noise": [b"x"]}))
        files = site.files_of(table, ".parquet")

        # MinIO answers before it has read all of a larger body, and cuts the rest off.
        count = 4000 if isinstance(site, EmbeddedSite) else 200
        big = pa.table({"id": list(range(count)), "noise": [os.urandom(1000) for _ in range(count)]})
        data = pa.RecordBatchReader.from_batches(big.schema, big.to_batches(100)) if kind == "stream" else big
        if isinstance(site, EmbeddedSite):
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
        try:
            manager.append(name, data)
        except StorageFullError as err:
            assert "full" in str(err), err
            assert isinstance(err, WriteError), type(err).__mro__
        else:
            raise SystemExit("the write went through")
        assert manager.get_current_snapshot(name).snapshot_id == before.snapshot_id
        assert manager.scan(name).num_rows == 1
        assert site.files_of(table, ".parquet") == files, "half a file was left behind"
    """
)


@pytest.fixture
def location(site, request):
    """Where the table goes: to a folder of the site, or to a bucket that takes no file of 30 kB."""
    if not isinstance(site, RestSite):
        return site.folder("t")
    store, bucket = request.getfixturevalue("minio"), f"full-{uuid.uuid4().hex[:12]}"
    put(store, bucket)
    # The request that MinIO's own client sends.
    quota = {"quota": 30_000, "size": 30_000, "quotatype": "hard"}
    put(store, f"minio/admin/v3/set-bucket-quota?bucket={bucket}", json.dumps(quota))
    return f"s3://{bucket}/t"


def put(store, path, body=""):
    """Send a signed request to MinIO."""
    url = f"{store.url}/{path}"
    request = AWSRequest("PUT", url, data=body)
    S3SigV4Auth(Credentials(store["access_key_id"], store["secret_access_key"]), "s3", store["region"]).add_auth(
        request
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    sent = urllib.request.Request(url, body.encode(), dict(request.headers), method="PUT")  # noqa: S310 - our own server
    with opener.open(sent, timeout=30) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("kind", ["plain", "partitioned", "stream"])
def test_s12_a_full_store_is_a_clean_error_and_the_table_stays(site, location, kind):
    command = [sys.executable, "-c", WRITE, site.address.text(), kind, location]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
