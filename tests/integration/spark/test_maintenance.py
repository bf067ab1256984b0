"""Iceberg's maintenance procedures and the figures they return."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.dataplane import CompactionKind
from floe_testing.embedded_tables import files_of

pytestmark = pytest.mark.spark


@pytest.fixture
def many(spark_tables):
    """A table of six small files."""
    table = spark_tables.create("a.b.many", pa.schema([("id", pa.int64()), ("x y", pa.int64())]))
    for number in range(6):
        table.append(pa.table({"id": [number], "x y": [10 - number]}))
    return table


@pytest.mark.req("TM-12")
@pytest.mark.parametrize(
    ("kind", "order"),
    [
        (CompactionKind.BINPACK, ()),
        (CompactionKind.SORT, ("x y desc nulls last", "id")),
        (CompactionKind.ZORDER, ("id", "x y")),
    ],
    ids=["binpack", "sort", "zorder"],
)
def test_a_compaction_makes_one_file_of_many(spark_tables, many, kind, order):
    figures = spark_tables.plane.rewrite_data_files(
        "a.b.many", kind=kind, order=order, options={"min-input-files": "2"}
    )
    assert (figures.rewritten_files, figures.added_files) == (6, 1)
    assert figures.rewritten_bytes > 0
    found = many.refresh().scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == list(range(6))
    if kind is CompactionKind.SORT:
        assert found.column("x y").to_pylist() == [10, 9, 8, 7, 6, 5]


def test_a_compaction_can_be_limited_to_some_rows(spark_tables, many):
    figures = spark_tables.plane.rewrite_data_files(
        "a.b.many", kind=CompactionKind.BINPACK, row_filter="id < 3", options={"rewrite-all": "true"}
    )
    assert figures.rewritten_files == 3


def test_manifests_are_rewritten_into_fewer(spark_tables, many):
    figures = spark_tables.plane.rewrite_manifests("a.b.many")
    assert figures.rewritten_files == 6
    assert figures.added_files == 1


@pytest.mark.req("FR-032")
def test_expiry_deletes_the_files_only_old_snapshots_reached(spark_tables, many):
    tagged = many.snapshots()[0].snapshot_id
    many.manage_snapshots().create_tag(tagged, "keep").commit()
    spark_tables.plane.rewrite_data_files("a.b.many", kind=CompactionKind.BINPACK, options={"rewrite-all": "true"})
    before = files_of(many, ".parquet")
    figures = spark_tables.plane.expire_snapshots(
        "a.b.many", older_than=datetime.now(UTC) + timedelta(minutes=1), retain_last=1
    )
    after = files_of(many, ".parquet")
    assert len(before) - len(after) == figures.deleted_data_files == 5
    assert figures.deleted_manifest_lists == 5
    assert figures.deleted_manifests > 0
    assert many.refresh().scan(snapshot_id=tagged).to_arrow().num_rows == 1
    assert many.scan().to_arrow().num_rows == 6


def test_expiry_of_chosen_snapshots(spark_tables, many):
    chosen = [snapshot.snapshot_id for snapshot in many.snapshots()[:2]]
    old = datetime(2000, 1, 1, tzinfo=UTC)
    spark_tables.plane.expire_snapshots("a.b.many", older_than=old, retain_last=1, snapshot_ids=chosen)
    assert {snapshot.snapshot_id for snapshot in many.refresh().snapshots()}.isdisjoint(chosen)


@pytest.mark.req("TM-16")
def test_orphans_are_listed_first_and_deleted_when_asked(spark_tables, many):
    folder = files_of(many, ".parquet")[0].parent
    stray = folder / "stray file.parquet"
    stray.write_bytes(b"left behind")
    older_than = datetime.now(UTC) - timedelta(days=2)
    import os

    os.utime(stray, (0, 0))
    known = files_of(many)
    listed = spark_tables.plane.remove_orphan_files("a.b.many", older_than=older_than)
    assert [path.rpartition("/")[2] for path in listed.orphan_files] == [stray.name]
    assert stray.exists()
    swept = spark_tables.plane.remove_orphan_files("a.b.many", older_than=older_than, dry_run=False)
    assert len(swept.orphan_files) == 1
    assert set(known) - set(files_of(many)) == {stray}
