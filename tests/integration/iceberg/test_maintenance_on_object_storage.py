"""Maintenance of tables on object stores, which differ in listing and deletion."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig

pytestmark = [
    pytest.mark.live,
    # aiohttp warns about large bodies in one piece, which gcsfs and adlfs send.
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),
]

NAME = "bronze.events"


def s3(request):
    store = request.getfixturevalue("minio")
    credentials = {"access_key_id": store["access_key_id"], "secret_access_key": "${LAKE_SECRET}"}
    settings = {"type": "s3", "bucket": store["bucket"], "endpoint": store.url, "credentials": credentials}
    return settings, store["secret_access_key"]


def gcs(request):
    store = request.getfixturevalue("fake_gcs")
    settings = {"type": "gcs", "bucket": store["bucket"], "endpoint": store.url, "project": store["project"]}
    return settings | {"credentials": {"token": "${LAKE_SECRET}"}}, "token-of-the-test"


def azure(request):
    store = request.getfixturevalue("azurite")
    credentials = {"account_name": store["account"], "connection_string": "${LAKE_SECRET}"}
    settings = {"type": "azure", "bucket": store["container"], "endpoint": store.url, "credentials": credentials}
    return settings, store["connection_string"]


@pytest.fixture(params=[s3, gcs, azure], ids=lambda store: store.__name__)
def manager(request, tmp_path, monkeypatch):
    storage, secret = request.param(request)
    monkeypatch.setenv("LAKE_SECRET", secret)
    storage["prefix"] = tmp_path.name
    artifacts = CompiledArtifacts.model_validate({"name": "lake", "floe_version": "0.1.0", "storage": storage})
    # The age of an object cannot be set, and users cannot set the minimum age to zero; a copy is not validated.
    config = IcebergTableManagerConfig().model_copy(update={"min_orphan_age_hours": 0.0})
    with IcebergTableManager.from_artifacts(artifacts.rooted_at(tmp_path), config=config) as manager:
        manager.create_namespace("bronze")
        manager.create_table(NAME, pa.schema([("id", pa.int64())]))
        for number in range(6):
            manager.append(NAME, pa.table({"id": [number]}))
        yield manager


def exists(table, location):
    return table.io.new_input(location).exists()


@pytest.mark.req("TM-16")
def test_orphans_are_found_by_listing_and_nothing_else_goes(manager):
    table = manager.load_table(NAME)
    stray = f"{table.location()}/data/left by a killed=writer.parquet"
    with table.io.new_output(stray).create() as stream:
        stream.write(b"left behind")
    soon = datetime.now(UTC) + timedelta(seconds=0.9)
    result = manager.sweep_orphans(NAME, older_than=soon)
    assert result.files == (stray,)
    assert result.total_bytes == len(b"left behind")
    assert exists(table, stray)
    assert manager.sweep_orphans(NAME, older_than=datetime.now(UTC), dry_run=False).files == (stray,)
    assert not exists(table, stray)
    assert sorted(manager.scan(NAME)["id"].to_pylist()) == list(range(6))


@pytest.mark.req("TM-12", "API-11")
def test_compaction_and_expiry_remove_what_they_report(manager):
    old = [file.path for file in manager.files(NAME)]
    assert len(old) == 6
    compacted = manager.compact_table(NAME)
    assert (compacted.files_before, compacted.files_after) == (6, 1)
    expired = manager.expire_snapshots(NAME, older_than=datetime.now(UTC), retain_last=1)
    assert (int(expired), expired.deleted_data_files) == (6, 6)
    table = manager.load_table(NAME)
    assert not any(exists(table, path) for path in old)
    assert sorted(manager.scan(NAME)["id"].to_pylist()) == list(range(6))
