from __future__ import annotations

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import LongType, NestedField

from floe_core.errors import MaintenanceError
from floe_iceberg.table.history.retention import Floor, plan_expiry

NOW = 1_000


def history(*snapshots, refs, properties=None):
    """Make metadata of snapshots given as (id, parent, timestamp)."""
    return TableMetadataV2(
        location="file:///t",
        last_column_id=1,
        schemas=[Schema(NestedField(1, "id", LongType()))],
        current_schema_id=0,
        partition_specs=[{"spec-id": 0, "fields": []}],
        sort_orders=[{"order-id": 0, "fields": []}],
        properties=properties or {},
        snapshots=[
            Snapshot(
                snapshot_id=number,
                parent_snapshot_id=parent,
                timestamp_ms=when,
                manifest_list="file:///m",
                sequence_number=number,
                summary=Summary(operation=Operation.APPEND),
            )
            for number, parent, when in snapshots
        ],
        current_snapshot_id=refs["main"].snapshot_id,
        refs=refs,
    )


def branch(snapshot_id, **ages):
    return SnapshotRef(snapshot_id=snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH, **ages)


def tag(snapshot_id, **ages):
    return SnapshotRef(snapshot_id=snapshot_id, snapshot_ref_type=SnapshotRefType.TAG, **ages)


LINE = ((1, None, 100), (2, 1, 200), (3, 2, 300), (4, 3, 400))


def expired(metadata, **rule):
    rule = {"older_than_ms": NOW, "retain_last": 1, **rule}
    return plan_expiry(metadata, now_ms=NOW, **rule)


def test_the_head_of_main_always_stays():
    assert expired(history(*LINE, refs={"main": branch(4)})).snapshot_ids == (1, 2, 3)


@pytest.mark.parametrize(("retain", "gone"), [(2, (1, 2)), (4, ()), (9, ())])
def test_the_last_ones_stay_whatever_their_age(retain, gone):
    assert expired(history(*LINE, refs={"main": branch(4)}), retain_last=retain).snapshot_ids == gone


@pytest.mark.parametrize(("limit", "gone"), [(300, (1, 2)), (301, (1, 2, 3)), (100, ()), (0, ())])
def test_only_older_ones_go(limit, gone):
    assert expired(history(*LINE, refs={"main": branch(4)}), older_than_ms=limit).snapshot_ids == gone


def test_a_tag_keeps_its_snapshot_and_not_what_came_before():
    metadata = history(*LINE, refs={"main": branch(4), "v2": tag(2)})
    assert expired(metadata).snapshot_ids == (1, 3)


def test_a_branch_has_ages_of_its_own():
    metadata = history(
        *LINE,
        (5, 2, 500),
        refs={"main": branch(4), "audit": branch(5, min_snapshots_to_keep=2, max_snapshot_age_ms=850)},
    )
    # 1 is older than 850 ms; 2 is young enough for the branch, but not for main.
    assert expired(metadata).snapshot_ids == (1, 3)


def test_a_ref_goes_when_its_snapshot_is_older_than_it_may_be():
    metadata = history(*LINE, refs={"main": branch(4, max_ref_age_ms=1), "old": tag(1, max_ref_age_ms=899)})
    plan = expired(metadata)
    assert plan.refs == ("old",)
    assert plan.snapshot_ids == (1, 2, 3)
    kept = history(*LINE, refs={"main": branch(4), "old": tag(1, max_ref_age_ms=900)})
    assert expired(kept).refs == ()


def test_the_table_can_limit_the_age_of_refs():
    metadata = history(
        *LINE, refs={"main": branch(4), "old": tag(1)}, properties={"history.expire.max-ref-age-ms": "500"}
    )
    assert expired(metadata).refs == ("old",)


def test_young_snapshots_without_a_ref_stay_for_whoever_staged_them():
    metadata = history(*LINE, (5, 2, 500), refs={"main": branch(4)})
    assert expired(metadata, older_than_ms=500).snapshot_ids == (1, 2, 3)
    assert expired(metadata, older_than_ms=501).snapshot_ids == (1, 2, 3, 5)


def test_a_skewed_clock_in_the_middle_of_the_line_cuts_it_there():
    skewed = ((1, None, 100), (2, 1, 900), (3, 2, 300), (4, 3, 400))
    metadata = history(*skewed, refs={"main": branch(4)})
    # 3 is too old, so earlier snapshots expire as well, as in Iceberg's Java.
    assert expired(metadata, older_than_ms=350).snapshot_ids == (1, 2, 3)


def test_chosen_snapshots_go_and_nothing_else():
    metadata = history(*LINE, refs={"main": branch(4), "v2": tag(2)})
    assert expired(metadata, older_than_ms=None, snapshot_ids=[1, 3]).snapshot_ids == (1, 3)
    with pytest.raises(MaintenanceError, match="it is referenced by v2"):
        expired(metadata, older_than_ms=None, snapshot_ids=[2])


def test_a_branch_keeps_its_snapshots_as_long_as_it_says_whatever_the_caller_asks():
    metadata = history(*LINE, refs={"main": branch(4, max_snapshot_age_ms=700)})
    assert expired(metadata).snapshot_ids == (1, 2)
    assert expired(history(*LINE, refs={"main": branch(4, max_snapshot_age_ms=599)})).snapshot_ids == (1, 2, 3)


def test_a_floor_keeps_what_is_as_young_as_it_says_whatever_a_branch_says():
    metadata = history(*LINE, refs={"main": branch(4, max_snapshot_age_ms=1, min_snapshots_to_keep=1)})
    assert expired(metadata, floor=Floor(since_ms=200)).snapshot_ids == (1,)
    assert expired(metadata, floor=Floor(since_ms=201)).snapshot_ids == (1, 2)
    assert expired(metadata, floor=Floor(count=3)).snapshot_ids == (1,)
