"""A long-running process keeps only the latest version of a table in memory."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.snapshots import Snapshot

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

NAME = "bronze.orders"
VERSIONS = 40


@pytest.fixture
def managers(tmp_path):
    artifacts = CompiledArtifacts.model_validate({"name": "lake", "floe_version": "0.1.0"}).rooted_at(tmp_path)
    with IcebergTableManager.from_artifacts(artifacts) as one, IcebergTableManager.from_artifacts(artifacts) as other:
        one.create_namespace("bronze")
        one.create_table(NAME, pa.schema([("id", pa.int64())]))
        yield one, other


def versions_in_memory(table):
    gc.collect()
    uuid = table.metadata.table_uuid
    return [found for found in gc.get_objects() if isinstance(found, TableMetadataV2) and found.table_uuid == uuid]


def snapshots_in_memory(table):
    gc.collect()
    found = [found for found in gc.get_objects() if isinstance(found, Snapshot)]
    return [snapshot for snapshot in found if snapshot.manifest_list.startswith(table.location())]


def test_versions_that_others_wrote_are_not_kept(managers):
    one, other = managers
    for number in range(VERSIONS):
        one.append(NAME, pa.table({"id": [number]}))
        table = other.load_table(NAME)
    assert len(table.metadata.snapshots) == VERSIONS
    assert len(versions_in_memory(table)) < 10


def test_snapshots_that_expired_are_not_kept(managers):
    one, _ = managers
    for number in range(VERSIONS):
        one.append(NAME, pa.table({"id": [number]}))
    newest = max(snapshot.timestamp_ms for snapshot in one.load_table(NAME).metadata.snapshots)
    one.expire_snapshots(NAME, older_than=newest + 1, retain_last=1)
    one.append(NAME, pa.table({"id": [VERSIONS]}))
    table = one.load_table(NAME)
    assert len(table.metadata.snapshots) == 2
    assert len(snapshots_in_memory(table)) < VERSIONS
