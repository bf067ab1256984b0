"""Maintenance on Spark, and on both engines alternately."""

from __future__ import annotations

import datetime as dt
import os
import time
from functools import partial

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimestampType

from floe_core.errors import UnsafeRetentionError
from floe_iceberg import maintenance
from floe_iceberg.models import CompactionStrategy, Engine
from floe_iceberg.read import scan
from floe_iceberg.table import inspection
from floe_iceberg.table import refs as snapshots
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import age_snapshots, context_on, files_of, local_path

pytestmark = pytest.mark.spark

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])


@pytest.fixture
def spark_context(spark_tables):
    return context_on(spark_tables.catalog, plane=lambda: spark_tables.plane)


@pytest.fixture
def events(spark_tables):
    table = spark_tables.create(NAME, SCHEMA)
    for number in range(6):
        table.append(pa.table({"id": [number, number + 10], "city": ["Oslo", "Rome"]}, schema=SCHEMA))
    yield table
    assert_audited(table.refresh())


def content(context, **version):
    return sorted(map(str, scan.scan(context, NAME, **version).to_pylist()))


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (CompactionStrategy.BINPACK, None),
        (CompactionStrategy.SORT, ["city desc", "id"]),
        (CompactionStrategy.ZORDER, ["id", "city"]),
    ],
    ids=["binpack", "sort", "zorder"],
)
def test_spark_compacts(spark_context, events, strategy, order):
    before = content(spark_context)
    result = maintenance.compact_table(spark_context, NAME, strategy, sort_order=order, engine=Engine.SPARK)
    assert (result.files_before, result.files_after, result.rewritten_files, result.added_files) == (6, 1, 6, 1)
    assert result.snapshot_id == snapshots.current_snapshot(spark_context, NAME).snapshot_id
    assert content(spark_context) == before


def aged_table(spark_tables, version):
    """A table that asks for 90 days and whose main says one day; snapshots are 100, 2 and 0 days old."""
    spark_tables.catalog.create_namespace_if_not_exists("bronze")
    properties = f"'format-version'='{version}', 'history.expire.max-snapshot-age-ms'='{90 * 86_400_000}'"
    for statement in (
        f"CREATE TABLE floe.bronze.kept (id bigint) USING iceberg TBLPROPERTIES ({properties})",
        *(f"INSERT INTO floe.bronze.kept VALUES ({number})" for number in range(3)),
        "ALTER TABLE floe.bronze.kept CREATE OR REPLACE BRANCH main WITH SNAPSHOT RETENTION 1 SNAPSHOTS 1 DAYS",
    ):
        spark_tables.plane.session.sql(statement)
    ages = [dt.timedelta(days=days) for days in (100, 2, 0)]
    return list(age_snapshots(spark_tables.catalog.load_table("bronze.kept"), *ages))


@pytest.mark.live
@pytest.mark.parametrize("version", [2, 3])
def test_the_age_of_a_branch_does_not_undercut_the_retention_on_spark(spark_context, spark_tables, version):
    oldest, young, current = aged_table(spark_tables, version)
    expiry = partial(maintenance.expire_snapshots, spark_context, "bronze.kept", engine=Engine.SPARK)
    if version == 3:
        with pytest.raises(UnsafeRetentionError, match=f"that must be kept, such as {young}"):
            expiry()
    else:
        assert expiry().snapshot_ids == (oldest,)
    found = [one.snapshot_id for one in snapshots.list_snapshots(spark_context, "bronze.kept")]
    assert found == [current, young, oldest][: 3 if version == 3 else 2]
    assert young in expiry(allow_below_retention=True).snapshot_ids


def test_spark_expires_with_the_same_figures_as_floe(spark_context, events, spark_tables):
    twin = spark_tables.create("bronze.twin", SCHEMA)
    for number in range(6):
        twin.append(pa.table({"id": [number, number + 10], "city": ["Oslo", "Rome"]}, schema=SCHEMA))
    outcomes = []
    for name, engine in ((NAME, Engine.SPARK), ("bronze.twin", Engine.ARROW)):
        first = snapshots.list_snapshots(spark_context, name)[-1]
        snapshots.create_tag(spark_context, name, "v1", snapshot_id=first.snapshot_id)
        maintenance.compact_table(spark_context, name, engine=Engine.ARROW)
        expired = maintenance.expire_snapshots(spark_context, name, older_than_days=0, retain_last=1, engine=engine)
        assert scan.scan(spark_context, name).num_rows == 12
        assert scan.scan(spark_context, name, ref="v1").num_rows == 2
        on_disk = len(files_of(spark_context.load(name), ".parquet"))
        outcomes.append(
            (
                int(expired),
                expired.deleted_data_files,
                expired.deleted_manifests,
                expired.deleted_manifest_lists,
                on_disk,
            )
        )
    assert outcomes[0] == outcomes[1] == (5, 5, 5, 5, 2)


def test_spark_rewrites_manifests_and_sweeps_orphans(spark_context, events):
    result = maintenance.rewrite_manifests(spark_context, NAME, engine=Engine.SPARK)
    assert (result.manifests_before, result.manifests_after) == (6, 1)
    stray = local_path(events.location()) / "data" / "stray.parquet"
    stray.write_bytes(b"left behind")
    when = time.time() - 100 * 3600
    os.utime(stray, (when, when))
    found = maintenance.sweep_orphans(spark_context, NAME, engine=Engine.SPARK)
    assert [local_path(path.replace("file:/", "file:///", 1)).name for path in found.files] == ["stray.parquet"]
    assert stray.exists()
    maintenance.sweep_orphans(spark_context, NAME, engine=Engine.SPARK, dry_run=False)
    assert not stray.exists()
    assert scan.scan(spark_context, NAME).num_rows == 12


def test_spark_reads_what_floe_compacted_in_every_partition(spark_context, spark_tables):
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "at", TimestampType()),
        NestedField(3, "city", StringType()),
        NestedField(4, "day", DateType()),
    )
    spec = PartitionSpec(
        PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="at_day"),
        PartitionField(source_id=3, field_id=1001, transform=IdentityTransform(), name="city"),
        PartitionField(source_id=1, field_id=1002, transform=BucketTransform(2), name="id_bucket"),
    )
    table = spark_tables.create(NAME, schema, partition_spec=spec)
    for number in range(3):
        table.append(
            pa.table(
                {
                    "id": [number, number, number],
                    "at": [dt.datetime(2024, 5, 1), dt.datetime(1969, 12, 31, 23), None],  # noqa: DTZ001 - no zone
                    "city": ["Oslo", "a/b=c", None],
                    "day": [dt.date(2024, 5, 1), None, dt.date(1, 1, 1)],
                },
                schema=pa.schema(
                    [("id", pa.int64()), ("at", pa.timestamp("us")), ("city", pa.string()), ("day", pa.date32())]
                ),
            )
        )
    before = spark_tables.read(NAME)
    maintenance.compact_table(spark_context, NAME, engine=Engine.ARROW)
    maintenance.expire_snapshots(spark_context, NAME, older_than_days=0, retain_last=1, engine=Engine.ARROW)
    assert spark_tables.read(NAME) == before
    assert len(spark_tables.read(NAME, row_filter="city = 'a/b=c' and at < timestamp '1970-01-01'")) == 3
    spark_tables.write("append", NAME, spark_tables.plane.session.table(f"{NAME}").limit(1))
    assert scan.scan(spark_context, NAME).num_rows == 10


def test_an_open_manager_goes_on_after_plain_spark_maintained_the_table(spark_context, events, spark_tables):
    before = content(spark_context)
    session, catalog = spark_tables.plane.session, spark_tables.catalog.name
    session.sql(f"CALL {catalog}.system.rewrite_data_files(table => '{NAME}', options => map('rewrite-all','true'))")
    session.sql(
        f"CALL {catalog}.system.expire_snapshots(table => '{NAME}', "
        f"older_than => timestamp '2999-01-01 00:00:00', retain_last => 1)"
    ).collect()
    assert content(spark_context) == before
    assert len(snapshots.list_snapshots(spark_context, NAME)) == 1
    events.refresh().append(pa.table({"id": [99], "city": ["Bern"]}, schema=SCHEMA))
    maintenance.compact_table(spark_context, NAME, engine=Engine.ARROW)
    assert scan.scan(spark_context, NAME).num_rows == 13


def test_floe_applies_the_deletes_that_spark_merges_on_read(spark_context, spark_tables):
    session = spark_tables.plane.session
    spark_tables.create(NAME, SCHEMA, properties={"write.delete.mode": "merge-on-read", "format-version": "2"})
    spark_tables.write("append", NAME, pa.table({"id": list(range(100)), "city": ["Oslo"] * 100}, schema=SCHEMA))
    session.sql(f"DELETE FROM {spark_tables.catalog.name}.{NAME} WHERE id % 10 = 3")
    health = inspection.health(spark_context, NAME)
    assert health.rows == 90
    assert health.delete_files >= 1
    assert any("delete files slow down reads" in line for line in health.advice)
    before = content(spark_context)
    assert len(before) == 90
    maintenance.compact_table(spark_context, NAME, engine=Engine.ARROW)
    assert content(spark_context) == before
    assert not any(task.delete_files for task in spark_context.load(NAME).scan().plan_files())
    assert len(spark_tables.read(NAME)) == 90


def test_spark_sees_no_lease_left_behind(spark_context, events, spark_tables):
    maintenance.compact_table(spark_context, NAME, engine=Engine.SPARK)
    refs = spark_tables.plane.session.sql(f"SELECT name FROM {spark_tables.catalog.name}.{NAME}.refs").collect()
    assert [row["name"] for row in refs] == ["main"]
