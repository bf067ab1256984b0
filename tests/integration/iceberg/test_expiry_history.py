"""Expiry keeps a table's history consistent: log entries, parents and statistics."""

from __future__ import annotations

import contextlib
import json
import time

import pyarrow as pa
import pytest
from pyiceberg.exceptions import ValidationError
from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile
from pyiceberg.table.update import RemoveSnapshotsUpdate, SetPartitionStatisticsUpdate, update_table_metadata

from floe_core.errors import CapabilityError, SnapshotNotFoundError
from floe_iceberg import maintenance
from floe_iceberg.catalog.metadata_updates import RemoveSnapshots
from floe_iceberg.read import scan
from floe_iceberg.read.versions import resolve
from floe_iceberg.table import lifecycle, refs
from floe_testing.embedded_tables import local_path

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


@pytest.fixture
def grown(context, new_table):
    """A table of four snapshots, each at a moment of its own."""
    table = new_table(NAME, SCHEMA)
    for number in range(4):
        time.sleep(0.005)
        table.append(row(number))
    return table


def ids_of(table):
    return [snapshot.snapshot_id for snapshot in table.snapshots()]


def test_a_moment_before_an_expired_snapshot_has_no_answer(context, grown):
    first, second, third, fourth = grown.metadata.snapshot_log
    refs.create_tag(context, NAME, "first", snapshot_id=first.snapshot_id)
    maintenance.expire_snapshots(context, NAME, snapshot_ids=[second.snapshot_id])
    log = [entry.snapshot_id for entry in context.load(NAME).metadata.snapshot_log]
    assert log == [third.snapshot_id, fourth.snapshot_id]
    with pytest.raises(SnapshotNotFoundError, match="history starts at"):
        scan.scan(context, NAME, as_of=second.timestamp_ms)
    assert scan.scan(context, NAME, as_of=third.timestamp_ms).num_rows == 3
    assert scan.scan(context, NAME, ref="first").num_rows == 1


def test_a_log_entry_without_its_snapshot_has_no_answer(context, grown):
    """Other writers leave such entries; the one before it was no longer current."""
    second = grown.metadata.snapshot_log[1]
    kept = [s for s in grown.snapshots() if s.snapshot_id != second.snapshot_id]
    grown.metadata = grown.metadata.model_copy(update={"snapshots": kept})
    with pytest.raises(SnapshotNotFoundError, match="no longer has the snapshot"):
        resolve(grown, as_of=second.timestamp_ms)


def test_survivors_keep_their_parents(context, grown):
    parents = {snapshot.snapshot_id: snapshot.parent_snapshot_id for snapshot in grown.snapshots()}
    maintenance.expire_snapshots(context, NAME, **ALL)
    left = context.load(NAME).snapshots()
    assert {s.snapshot_id: s.parent_snapshot_id for s in left} == {left[0].snapshot_id: parents[left[0].snapshot_id]}
    assert left[0].parent_snapshot_id is not None


def test_statistics_of_expired_snapshots_go_with_their_files(context, grown):
    folder = local_path(grown.location()) / "metadata"
    first, *_, last = ids_of(grown)
    for number, snapshot_id in enumerate((first, last)):
        for kind in ("table", "partition"):
            (folder / f"{kind}-{number}.stats").write_bytes(b"x")
        whole = StatisticsFile(
            snapshot_id=snapshot_id,
            statistics_path=f"file://{folder}/table-{number}.stats",
            file_size_in_bytes=1,
            file_footer_size_in_bytes=1,
            blob_metadata=[],
        )
        with grown.update_statistics() as update:
            update.set_statistics(whole)
        part = PartitionStatisticsFile(
            snapshot_id=snapshot_id, statistics_path=f"file://{folder}/partition-{number}.stats", file_size_in_bytes=1
        )
        grown.catalog.commit_table(grown, (), (SetPartitionStatisticsUpdate(partition_statistics=part),))
        grown.refresh()
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    metadata = context.load(NAME).metadata
    assert [file.snapshot_id for file in metadata.statistics] == [last]
    assert [file.snapshot_id for file in metadata.partition_statistics] == [last]
    assert sorted(path.name for path in folder.glob("*.stats")) == ["partition-1.stats", "table-1.stats"]
    assert expired.deleted_statistics_files == 2


def test_statistics_that_two_snapshots_share_stay(context, grown):
    folder = local_path(grown.location()) / "metadata"
    (folder / "shared.stats").write_bytes(b"x")
    first, *_, last = ids_of(grown)
    for snapshot_id in (first, last):
        part = PartitionStatisticsFile(
            snapshot_id=snapshot_id, statistics_path=f"file://{folder}/shared.stats", file_size_in_bytes=1
        )
        grown.catalog.commit_table(grown, (), (SetPartitionStatisticsUpdate(partition_statistics=part),))
        grown.refresh()
    maintenance.expire_snapshots(context, NAME, **ALL)
    assert (folder / "shared.stats").exists()


def test_the_update_goes_over_the_wire_as_any_other(grown):
    from pyiceberg.table import CommitTableRequest, TableIdentifier

    update = RemoveSnapshots(snapshot_ids=[1, 2])
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=["bronze"], name="events"), requirements=(), updates=(update,)
    )
    assert '"updates":[{"action":"remove-snapshots","snapshot-ids":[1,2]}]' in request.model_dump_json()


def test_pyiceberg_itself_still_breaks_the_history(grown):
    """Once this fails, PyIceberg applies the update as the specification's reference does: drop our own version."""
    log = grown.metadata.snapshot_log
    theirs = update_table_metadata(grown.metadata, (RemoveSnapshotsUpdate(snapshot_ids=[log[1].snapshot_id]),))
    assert len(theirs.snapshot_log) == 3
    assert theirs.snapshot_by_id(log[2].snapshot_id).parent_snapshot_id is None


@pytest.mark.spark
def test_spark_reads_on_after_expiry(spark_tables):
    """Time travel, incremental reads and Java's parser agree with what floe left."""
    from floe_core.dataplane import ReadRequest
    from floe_testing.embedded_tables import context_on

    context = context_on(spark_tables.catalog, plane=lambda: spark_tables.plane)
    table = spark_tables.create(NAME, SCHEMA)
    for number in range(5):
        time.sleep(0.005)
        table.append(row(number))
    log = table.metadata.snapshot_log
    maintenance.expire_snapshots(context, NAME, snapshot_ids=[log[0].snapshot_id, log[1].snapshot_id], engine="arrow")
    history = spark_tables.plane.session.sql(f"SELECT snapshot_id, parent_id FROM floe.{NAME}.history").collect()
    assert [(r[0], r[1]) for r in history] == [(log[n].snapshot_id, log[n - 1].snapshot_id) for n in (2, 3, 4)]
    # The exclusive start of an incremental read may be an expired parent, as long as the history contains its id.
    rows = spark_tables.plane.read_arrow(ReadRequest(NAME, start_snapshot_id=log[1].snapshot_id))
    assert sorted(rows.column("id").to_pylist()) == [2, 3, 4]
    with pytest.raises(Exception, match=r"older than|Cannot find a snapshot"):
        spark_tables.plane.session.sql(
            f"SELECT * FROM floe.{NAME} TIMESTAMP AS OF {log[1].timestamp_ms // 1000}"
        ).collect()


def test_a_table_of_format_version_1_expires_like_any_other(context, new_table):
    table = new_table(NAME, SCHEMA, properties={"format-version": "1"})
    assert table.format_version == 1
    table.append(row(1))
    table.append(row(2))
    table.overwrite(row(3))
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    assert expired.deleted_data_files == 2
    assert scan.scan(context, NAME).column("id").to_pylist() == [3]
    assert len(context.load(NAME).snapshots()) == 1


def test_snapshots_without_a_manifest_list_are_no_damage(context, grown):
    """Early writers of version 1 kept the manifests in the snapshot itself."""
    path = local_path(grown.metadata_location)
    metadata = json.loads(path.read_text())
    metadata["snapshots"][0]["manifests"] = ["file:///somewhere.avro"]
    del metadata["snapshots"][0]["manifest-list"]
    other = path.with_name("00099-early.metadata.json")
    other.write_text(json.dumps(metadata))
    with pytest.raises(CapabilityError, match="manifest list"):
        lifecycle.register_table(context, "bronze.early", f"file://{other}")
    # Java's catalog accepts such a table.
    with contextlib.suppress(ValidationError):
        context.catalog.register_table(("bronze", "early"), f"file://{other}")
    with pytest.raises(CapabilityError, match="manifest list"):
        maintenance.expire_snapshots(context, "bronze.early", **ALL)
