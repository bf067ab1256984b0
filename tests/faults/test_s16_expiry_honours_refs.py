"""S16: expiry with tags and branches keeps all snapshots that a ref needs."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from floe_core.errors import SnapshotNotFoundError
from floe_iceberg import maintenance
from floe_iceberg.maintenance.expiry import commit_change
from floe_iceberg.read import scan
from floe_iceberg.table import refs as snapshots

SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


def ids(context, name, **version):
    return sorted(scan.scan(context, name, **version).column("id").to_pylist())


def reachable(table):
    """Every data file that some kept snapshot reads."""
    return {
        task.file.file_path
        for snapshot in table.snapshots()
        for task in table.scan(snapshot_id=snapshot.snapshot_id).plan_files()
    }


def test_s16_a_tag_and_a_branch_keep_what_they_read(site, context, new_table, name):
    table = new_table(name, SCHEMA)
    table.append(row(1))
    table.append(row(2))
    snapshots.create_tag(context, name, "v1")
    snapshots.create_branch(context, name, "trial")
    table.refresh().append(row(3), branch="trial")
    table.delete("id >= 0")
    table.append(row(9))
    maintenance.compact_table(context, name)
    expired = maintenance.expire_snapshots(context, name, **ALL)
    assert expired == 2
    assert ids(context, name) == [9]
    assert ids(context, name, ref="v1") == [1, 2]
    assert ids(context, name, ref="trial") == [1, 2, 3]
    assert set(site.files_of(table, ".parquet")) == reachable(context.load(name))


def test_s16_once_the_refs_are_gone_so_is_what_they_kept(site, context, new_table, name):
    table = new_table(name, SCHEMA)
    table.append(row(1))
    snapshots.create_tag(context, name, "v1")
    table.refresh().delete("id = 1")
    table.append(row(2))
    maintenance.expire_snapshots(context, name, **ALL)
    assert ids(context, name, ref="v1") == [1]
    snapshots.remove_tag(context, name, "v1")
    maintenance.expire_snapshots(context, name, **ALL)
    assert ids(context, name) == [2]
    assert set(site.files_of(table, ".parquet")) == reachable(context.load(name))


def test_s16_a_table_renamed_during_its_expiry_keeps_its_files(site, context, new_table, name, monkeypatch):
    table = new_table(name, SCHEMA)
    table.append(row(1))
    table.append(row(2))
    renamed = f"{name}_renamed"

    def rename_afterwards(*given, **options):
        changed = commit_change(*given, **options)
        context.catalog.rename_table(name, renamed)
        context.catalog.create_table(name, SCHEMA)
        return changed

    monkeypatch.setattr("floe_iceberg.maintenance.expiry.commit_change", rename_afterwards)
    expired = maintenance.expire_snapshots(context, name, **ALL)
    assert expired == 1
    assert ids(context, renamed) == [1, 2]
    assert expired.deleted_data_files == expired.deleted_manifest_lists == 0


def test_s16_a_rollback_that_comes_first_is_honoured(site, context, new_table, name, monkeypatch):
    table = new_table(name, SCHEMA)
    for number in range(4):
        table.append(row(number))
    first = snapshots.list_snapshots(context, name)[-1]
    other = site.open_context()
    waiting = [lambda: snapshots.rollback(other, name, snapshot_id=first.snapshot_id)]

    def late(context, target, plan, *, what):
        def planned(table, uncertain):
            change = plan(table, uncertain)
            if waiting:
                waiting.pop()()
            return change

        return commit_change(context, target, planned, what=what)

    monkeypatch.setattr("floe_iceberg.maintenance.expiry.commit_change", late)
    maintenance.expire_snapshots(context, name, **ALL)
    assert ids(context, name) == [0]
    assert snapshots.current_snapshot(context, name).snapshot_id == first.snapshot_id


def test_s16_an_expired_snapshot_is_gone_for_good(context, new_table, name):
    table = new_table(name, SCHEMA)
    table.append(row(1))
    gone = table.current_snapshot().snapshot_id
    table.append(row(2))
    maintenance.expire_snapshots(context, name, **ALL)
    for use in (
        lambda: scan.scan(context, name, snapshot_id=gone),
        lambda: snapshots.rollback(context, name, snapshot_id=gone),
        lambda: snapshots.create_tag(context, name, "late", snapshot_id=gone),
    ):
        with pytest.raises(SnapshotNotFoundError):
            use()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["main", "b0", "b1"])),
        st.tuples(st.just("delete"), st.integers(0, 8)),
        st.tuples(st.just("tag"), st.sampled_from(["t0", "t1"])),
        st.tuples(st.just("branch"), st.sampled_from(["b0", "b1"])),
        st.tuples(st.just("untag"), st.sampled_from(["t0", "t1"])),
        st.tuples(st.just("rollback"), st.integers(0, 2)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("expire"), st.integers(1, 3)),
    ),
    min_size=4,
    max_size=12,
)


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_s16_no_order_of_operations_loses_a_file_that_is_needed_or_keeps_one_that_is_not(site, context, steps):
    name = site.name(f"t{uuid.uuid4().hex[:12]}")
    table = context.catalog.create_table(tuple(name.split(".")), SCHEMA)
    table.append(row(0))
    for number, (step, argument) in enumerate(steps, start=1):
        _take(context, name, step, argument, number)
    table.refresh()
    promised = {ref: ids(context, name, ref=ref) for ref in table.refs()}
    maintenance.expire_snapshots(context, name, **ALL)
    assert {ref: ids(context, name, ref=ref) for ref in promised} == promised
    assert set(site.files_of(table, ".parquet")) == reachable(context.load(name))


def _take(context, name, step, argument, number):
    table = context.load(name)
    refs = table.refs()
    if step == "append" and argument in refs:
        table.append(row(number), branch=argument)
    elif step == "delete" and argument in ids(context, name):
        table.delete(f"id = {argument}")
    elif step == "tag" and argument not in refs:
        snapshots.create_tag(context, name, argument)
    elif step == "untag" and argument in refs:
        snapshots.remove_tag(context, name, argument)
    elif step == "branch" and argument not in refs:
        snapshots.create_branch(context, name, argument)
    elif step == "rollback" and len(table.history()) > argument:
        goal = snapshots.current_snapshot(context, name)
        for _ in range(argument):
            parent = goal.parent_snapshot_id and table.snapshot_by_id(goal.parent_snapshot_id)
            goal = parent or goal
        snapshots.rollback(context, name, snapshot_id=goal.snapshot_id)
    elif step == "compact":
        maintenance.compact_table(context, name)
    elif step == "expire":
        maintenance.expire_snapshots(context, name, older_than_days=0, retain_last=argument)
