from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from floe_core.errors import SnapshotNotFoundError
from floe_iceberg.table import inspection, refs

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))
BY_CITY = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="city"))


def row(number, city):
    return pa.table({"id": [number], "city": [city]})


@pytest.fixture
def events(new_table):
    table = new_table(NAME, SCHEMA, partition_spec=BY_CITY)
    table.append(row(1, "Oslo"))
    table.append(row(2, "Rome"))
    table.append(row(3, "Oslo"))
    return table


@pytest.mark.req("FR-033")
def test_files_are_listed_with_partition_and_size(context, events):
    found = inspection.files(context, NAME)
    assert sorted((file.partition, file.content, file.records) for file in found) == [
        ("city=Oslo", "data", 1),
        ("city=Oslo", "data", 1),
        ("city=Rome", "data", 1),
    ]
    assert all(file.bytes > 0 and file.format == "parquet" for file in found)
    assert sorted(file.sequence_number for file in found) == [1, 2, 3]


def test_files_of_an_older_version_are_listed(context, events):
    first = refs.list_snapshots(context, NAME)[-1]
    assert len(inspection.files(context, NAME, snapshot_id=first.snapshot_id)) == 1
    assert len(inspection.files(context, NAME, as_of=first.timestamp_ms)) == 1
    assert len(inspection.files(context, NAME, ref="main")) == 3


@pytest.mark.req("FR-033")
def test_partitions_are_summed_up(context, events):
    oslo, rome = inspection.partitions(context, NAME)
    assert (oslo.partition, oslo.records, oslo.data_files, oslo.delete_files) == ("city=Oslo", 2, 2, 0)
    assert (rome.partition, rome.records) == ("city=Rome", 1)


def test_a_table_without_partitioning_is_one_partition(context, new_table):
    table = new_table(NAME, SCHEMA)
    table.append(row(1, "Oslo"))
    (only,) = inspection.partitions(context, NAME)
    assert (only.partition, only.records) == ("", 1)


def test_manifests_are_listed(context, events):
    found = inspection.manifests(context, NAME)
    assert len(found) == 3
    assert {(manifest.content, manifest.added_files, manifest.rows) for manifest in found} == {("data", 1, 1)}


def test_history_shows_what_was_rolled_back(context, events):
    newest, second, _ = refs.list_snapshots(context, NAME)
    refs.rollback(context, NAME, snapshot_id=second.snapshot_id)
    entries = inspection.history(context, NAME)
    assert [entry.snapshot_id for entry in entries[:2]] == [second.snapshot_id, newest.snapshot_id]
    assert [entry.is_current_ancestor for entry in entries] == [True, False, True, True]
    assert entries[0].made_current_at.tzinfo is not None
    assert entries[0].operation == "append"


def test_a_snapshot_is_found_by_id_moment_or_name(context, events):
    second = refs.list_snapshots(context, NAME)[1]
    refs.create_tag(context, NAME, "v2", snapshot_id=second.snapshot_id)
    for version in ({"snapshot_id": second.snapshot_id}, {"as_of": second.timestamp_ms}, {"ref": "v2"}):
        assert inspection.find_snapshot(context, NAME, **version).snapshot_id == second.snapshot_id
    with pytest.raises(SnapshotNotFoundError):
        inspection.find_snapshot(context, NAME, snapshot_id=1)


def test_health_counts_and_finds_nothing_to_do(context, events):
    refs.create_tag(context, NAME, "v1")
    health = inspection.health(context, NAME)
    assert (health.rows, health.data_files, health.partitions, health.manifests) == (3, 3, 2, 3)
    assert (health.snapshots, health.branches, health.tags, health.delete_files) == (3, 1, 1, 0)
    assert health.small_files == 2
    assert health.data_bytes > 0
    assert health.metadata_bytes > 0
    assert health.advice == ()


def test_health_advises_compaction_and_expiry(context, new_table, monkeypatch):
    table = new_table(NAME, SCHEMA)
    for number in range(12):
        table.append(row(number, "Oslo"))
    week_later = max(snapshot.timestamp_ms for snapshot in table.snapshots()) + 8 * 86_400_000
    monkeypatch.setattr(inspection, "to_millis", lambda _: week_later)
    compact, expire = inspection.health(context, NAME).advice
    assert compact.endswith("floe tables compact bronze.events")
    assert "12 snapshots are older than 7 days" in expire


def test_an_empty_table_is_healthy(context, new_table):
    new_table(NAME, SCHEMA)
    health = inspection.health(context, NAME)
    assert (health.rows, health.data_files, health.advice) == (0, 0, ())
    assert inspection.files(context, NAME) == []
    assert inspection.partitions(context, NAME) == []
    assert inspection.manifests(context, NAME) == []
    assert inspection.history(context, NAME) == []
    assert inspection.find_snapshot(context, NAME) is None
