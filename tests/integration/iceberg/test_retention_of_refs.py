"""A declared retention applies regardless of branches, tags and table properties, also for purges."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pyarrow as pa
import pytest
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import SetSnapshotRefUpdate

from floe_core.compile import compile_project
from floe_core.errors import UnsafeRetentionError
from floe_dagster.definitions import create_definitions
from floe_iceberg import IcebergTableManager
from floe_testing.embedded_tables import age_snapshots, files_of

TABLE = "bronze.orders"
DAY = timedelta(days=1)
# Only the first is older than the declared 90 days.
AGES = (100 * DAY, 50 * DAY, 20 * DAY, timedelta())
GOVERNANCE = "governance: {enterprise: {snapshot_retention_days: 90, reason: audit}}"


def project(root, governance=GOVERNANCE, retention=""):
    (root / "floe.yaml").write_text(
        f"schema_version: 1\nname: shop\n{governance}\n"
        f"tables:\n  {TABLE}:\n    columns: [{{name: id, type: long}}]\n{retention}\n"
    )
    return compile_project(root)


@pytest.fixture
def compiled(tmp_path):
    return project(tmp_path)


@pytest.fixture
def manager(compiled):
    with IcebergTableManager.from_artifacts(compiled) as manager:
        manager.create_namespace("bronze")
        manager.create_from_config(TABLE, compiled.tables[TABLE])
        for number in range(4):
            manager.append(TABLE, pa.table({"id": [number]}))
        yield manager


def aged(manager):
    return age_snapshots(manager.load_table(TABLE), *AGES)


def set_main(manager, **ages):
    """Give main ages of its own, as other tools may."""
    table = manager.load_table(TABLE)
    given = {"max_snapshot_age_ms": None, "min_snapshots_to_keep": None, "max_ref_age_ms": None, **ages}
    head = table.current_snapshot().snapshot_id
    update = SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type="branch", snapshot_id=head, **given)
    table.catalog.commit_table(table, (), (update,))


def kept(manager):
    return {snapshot.snapshot_id for snapshot in manager.list_snapshots(TABLE)}


UNDERCUT = {
    "main's own age": lambda m: set_main(m, max_snapshot_age_ms=1, min_snapshots_to_keep=1),
    "a branch's own age": lambda m: (
        m.create_branch(TABLE, "audit", max_snapshot_age=DAY, min_snapshots_to_keep=1),
        m.rollback(TABLE, m.list_snapshots(TABLE)[-1].snapshot_id),
    ),
    "the age of a tag": lambda m: (
        m.create_tag(TABLE, "v4", max_ref_age=1),
        m.rollback(TABLE, m.list_snapshots(TABLE)[-1].snapshot_id),
    ),
    "the table's age of refs": lambda m: (
        m.create_branch(TABLE, "audit"),
        m.rollback(TABLE, m.list_snapshots(TABLE)[-1].snapshot_id),
        m.set_properties(TABLE, {"history.expire.max-ref-age-ms": "1"}),
    ),
    "a rollback": lambda m: m.rollback(TABLE, m.list_snapshots(TABLE)[-1].snapshot_id),
    "the table's own age": lambda m: m.set_properties(TABLE, {"history.expire.max-snapshot-age-ms": "1"}),
}


def expire_by_job(artifacts):
    job = create_definitions(artifacts).resolve_job_def("maintain_bronze_orders")
    assert job.execute_in_process().success


@pytest.mark.req("RD-06")
@pytest.mark.parametrize("what", UNDERCUT)
def test_nothing_of_the_table_undercuts_what_its_project_declares(manager, what):
    UNDERCUT[what](manager)
    _, *young = aged(manager)
    assert not set(manager.expire_snapshots(TABLE, retain_last=1, dry_run=True).snapshot_ids) & set(young)
    manager.expire_snapshots(TABLE, retain_last=1)
    assert set(young) <= kept(manager)
    for snapshot_id in young:
        assert manager.scan(TABLE, snapshot_id=snapshot_id).num_rows


def test_a_branchs_own_age_counts_where_nobody_declares_any_or_the_caller_says_so(manager):
    set_main(manager, max_snapshot_age_ms=int(30 * DAY / timedelta(milliseconds=1)), min_snapshots_to_keep=1)
    oldest, older, young, current = aged(manager)
    expired = manager.expire_snapshots(TABLE, older_than_days=30, allow_below_retention=True, retain_last=1)
    assert expired.snapshot_ids == (oldest, older)
    assert kept(manager) == {young, current}


def test_a_branchs_own_age_may_be_longer_than_what_is_declared(manager):
    set_main(manager, max_snapshot_age_ms=int(365 * DAY / timedelta(milliseconds=1)))
    snapshots = aged(manager)
    assert manager.expire_snapshots(TABLE, retain_last=1) == 0
    assert kept(manager) == set(snapshots)


def test_a_branchs_own_age_does_not_undercut_in_dagster(manager, compiled):
    UNDERCUT["main's own age"](manager)
    _, *young = aged(manager)
    expire_by_job(compiled)
    assert set(young) <= kept(manager)


@pytest.mark.parametrize("count", [None, 1])
def test_a_branchs_own_count_does_not_undercut_the_tables(manager, count):
    manager.set_properties(TABLE, {"history.expire.min-snapshots-to-keep": "3"})
    set_main(manager, min_snapshots_to_keep=count)
    age_snapshots(manager.load_table(TABLE), 400 * DAY, 300 * DAY, 200 * DAY, 100 * DAY)
    assert manager.expire_snapshots(TABLE) == 1


def test_a_number_of_snapshots_below_the_tables_own_is_refused(manager):
    manager.set_properties(TABLE, {"history.expire.min-snapshots-to-keep": "3"})
    age_snapshots(manager.load_table(TABLE), 400 * DAY, 300 * DAY, 200 * DAY, 100 * DAY)
    with pytest.raises(UnsafeRetentionError, match="must keep 3 snapshots: the table's history"):
        manager.expire_snapshots(TABLE, retain_last=2)
    assert manager.expire_snapshots(TABLE, retain_last=2, allow_below_retention=True) == 2


@pytest.mark.req("RD-06")
def test_a_purge_of_what_must_be_kept_is_refused(manager):
    _, *young = aged(manager)
    table = manager.load_table(TABLE)
    with pytest.raises(UnsafeRetentionError, match=r"must be kept for 90 days: enterprise requires 90 days"):
        manager.drop_table(TABLE, purge=True)
    assert set(young) <= kept(manager)
    manager.drop_table(TABLE, purge=True, allow_below_retention=True)
    assert not manager.table_exists(TABLE)
    assert not files_of(table)


def test_a_drop_without_purge_keeps_the_files_and_needs_no_leave(manager):
    table = manager.load_table(TABLE)
    manager.drop_table(TABLE)
    assert files_of(table, ".parquet")


def test_a_purge_of_what_is_old_enough_needs_no_leave(manager):
    age_snapshots(manager.load_table(TABLE), 400 * DAY, 300 * DAY, 200 * DAY, 100 * DAY)
    manager.drop_table(TABLE, purge=True)
    assert not manager.table_exists(TABLE)


def stray_file(manager, age):
    [folder] = {path.parent for path in files_of(manager.load_table(TABLE), ".parquet")}
    stray = folder / "left-behind.parquet"
    stray.write_bytes(b"x")
    moment = time.time() - age.total_seconds()
    os.utime(stray, (moment, moment))
    return stray


def test_the_declared_age_of_orphans_holds_in_python(tmp_path):
    compiled = project(tmp_path, "", "    retention: {orphan_days: 30}")
    with IcebergTableManager.from_artifacts(compiled) as manager:
        manager.create_namespace("bronze")
        manager.create_from_config(TABLE, compiled.tables[TABLE])
        manager.append(TABLE, pa.table({"id": [1]}))
        stray = stray_file(manager, 20 * DAY)
        assert manager.sweep_orphans(TABLE, dry_run=False).files == ()
        with pytest.raises(UnsafeRetentionError, match=r"30 days, as set by its retention\.orphan_days"):
            manager.sweep_orphans(TABLE, older_than_hours=10 * 24, dry_run=False)
        assert stray.exists()
        swept = manager.sweep_orphans(TABLE, older_than_hours=10 * 24, dry_run=False, allow_below_retention=True)
        assert len(swept.files) == 1
        assert not stray.exists()
