from __future__ import annotations

import multiprocessing
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from floe_core.errors import (
    CapabilityError,
    ConcurrencyConflictError,
    InvalidIdentifierError,
    InvalidScanError,
    RefExistsError,
    RefNotFoundError,
    SnapshotNotFoundError,
)
from floe_iceberg import maintenance
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.embedded_tables import make_context

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


@pytest.fixture
def empty(new_table):
    return new_table(NAME, SCHEMA)


@pytest.fixture
def events(empty):
    for number in range(4):
        empty.append(row(number))
    return empty


def ids(context, **version):
    return sorted(scan.scan(context, NAME, **version).column("id").to_pylist())


@pytest.mark.req("FR-031", "API-10")
def test_snapshots_are_listed_newest_first(context, events):
    listed = refs.list_snapshots(context, NAME)
    assert [info.sequence_number for info in listed] == [4, 3, 2, 1]
    assert listed[0].snapshot_id == events.current_snapshot().snapshot_id
    assert listed[0].parent_snapshot_id == listed[1].snapshot_id
    assert listed[0].operation == "append"
    assert listed[0].summary["added-records"] == "1"
    assert [info.timestamp_ms for info in listed] == [one.timestamp_ms for one in reversed(events.snapshots())]
    assert listed[0].timestamp == datetime.fromtimestamp(listed[0].timestamp_ms / 1000)  # noqa: DTZ006 - local time
    assert listed[0].manifest_list == events.current_snapshot().manifest_list
    assert [info.snapshot_id for info in refs.list_snapshots(context, NAME, limit=2)] == [
        info.snapshot_id for info in listed[:2]
    ]


def test_a_negative_limit_is_refused(context, events):
    with pytest.raises(InvalidScanError):
        refs.list_snapshots(context, NAME, limit=-1)


@pytest.mark.req("API-10")
def test_a_table_without_data_has_no_current_snapshot(context, empty):
    assert refs.current_snapshot(context, NAME) is None
    assert refs.list_snapshots(context, NAME) == []


def test_the_current_snapshot_of_a_branch_is_its_head(context, events):
    refs.create_branch(context, NAME, "trial")
    events.refresh().append(row(9), branch="trial")
    assert refs.current_snapshot(context, NAME, ref="trial").sequence_number == 5
    assert refs.current_snapshot(context, NAME).sequence_number == 4


@pytest.mark.req("TM-10")
def test_rollback_goes_back_to_a_snapshot_and_forward_stays_readable(context, events):
    newest, _, second, _ = refs.list_snapshots(context, NAME)
    info = refs.rollback(context, NAME, snapshot_id=second.snapshot_id)
    assert info.snapshot_id == second.snapshot_id
    assert ids(context) == [0, 1]
    assert ids(context, snapshot_id=newest.snapshot_id) == [0, 1, 2, 3]


@pytest.mark.parametrize("local", [True, False], ids=["local-datetime", "milliseconds"])
def test_rollback_goes_back_to_a_moment(context, events, local):
    third = refs.list_snapshots(context, NAME)[1]
    refs.rollback(context, NAME, to=third.timestamp if local else third.timestamp_ms)
    assert ids(context) == [0, 1, 2]


def test_rollback_before_the_first_snapshot_says_how_far_it_goes(context, events):
    with pytest.raises(SnapshotNotFoundError, match="The oldest is from"):
        refs.rollback(context, NAME, to=1)


def test_rollback_to_a_snapshot_of_another_branch_is_refused(context, events):
    refs.create_branch(context, NAME, "trial")
    events.refresh().append(row(9), branch="trial")
    stray = refs.current_snapshot(context, NAME, ref="trial")
    with pytest.raises(SnapshotNotFoundError, match="not in the history of 'main'"):
        refs.rollback(context, NAME, snapshot_id=stray.snapshot_id)
    assert ids(context) == [0, 1, 2, 3]


@pytest.mark.parametrize("goal", [{}, {"snapshot_id": 1, "to": 1}], ids=["neither", "both"])
def test_rollback_needs_one_goal(context, events, goal):
    with pytest.raises(InvalidScanError, match="either"):
        refs.rollback(context, NAME, **goal)


@pytest.mark.req("TM-10")
def test_a_tag_names_a_snapshot_with_its_age(context, events):
    third = refs.list_snapshots(context, NAME)[1]
    info = refs.create_tag(context, NAME, "v1", snapshot_id=third.snapshot_id, max_ref_age=timedelta(days=1))
    assert (info.name, info.kind, info.snapshot_id) == ("v1", "tag", third.snapshot_id)
    assert info.max_ref_age_ms == 86_400_000
    assert ids(context, ref="v1") == [0, 1, 2]


@pytest.mark.req("TM-10")
def test_a_branch_keeps_its_ages(context, events):
    info = refs.create_branch(
        context,
        NAME,
        "audit",
        max_ref_age=timedelta(days=30),
        max_snapshot_age=3_600_000,
        min_snapshots_to_keep=5,
    )
    assert (info.max_ref_age_ms, info.max_snapshot_age_ms, info.min_snapshots_to_keep) == (2_592_000_000, 3_600_000, 5)


def test_refs_are_listed_with_main_first(context, events):
    refs.create_tag(context, NAME, "v1")
    refs.create_branch(context, NAME, "audit")
    assert [(ref.name, ref.kind) for ref in refs.list_refs(context, NAME)] == [
        ("main", "branch"),
        ("audit", "branch"),
        ("v1", "tag"),
    ]


def test_an_existing_name_is_refused(context, events):
    refs.create_tag(context, NAME, "v1")
    with pytest.raises(RefExistsError, match="already has a tag 'v1'"):
        refs.create_branch(context, NAME, "v1")


@pytest.mark.parametrize("name", ["", " ", "a b", "floe.maintenance", "'; drop", "x" * 300])
def test_an_odd_name_is_refused(context, events, name):
    with pytest.raises(InvalidIdentifierError):
        refs.create_tag(context, NAME, name)


def test_a_catalog_without_branches_says_so(context, events):
    without = replace(context, branches=False)
    with pytest.raises(CapabilityError, match="does not support branches"):
        refs.create_branch(without, NAME, "trial")
    maintenance.compact_table(without, NAME)
    assert ids(context) == [0, 1, 2, 3]
    assert list(context.load(NAME).refs()) == ["main"]


def test_an_age_of_nothing_is_refused(context, events):
    with pytest.raises(InvalidScanError):
        refs.create_tag(context, NAME, "v1", max_ref_age=timedelta(0))


def test_a_tag_on_an_empty_table_is_refused(context, empty):
    with pytest.raises(SnapshotNotFoundError, match="Write to it first"):
        refs.create_tag(context, NAME, "v1")


def test_a_tag_on_an_unknown_snapshot_is_refused(context, events):
    with pytest.raises(SnapshotNotFoundError):
        refs.create_tag(context, NAME, "v1", snapshot_id=7)


def test_a_branch_on_an_empty_table_starts_from_an_empty_snapshot(context, empty):
    refs.create_branch(context, NAME, "trial")
    empty.refresh().append(row(1), branch="trial")
    assert ids(context) == []
    assert ids(context, ref="trial") == [1]
    refs.publish_branch(context, NAME, "trial")
    assert ids(context) == [1]


def test_tags_and_branches_are_removed_by_kind(context, events):
    refs.create_tag(context, NAME, "v1")
    refs.create_branch(context, NAME, "audit")
    with pytest.raises(RefNotFoundError):
        refs.remove_tag(context, NAME, "audit")
    refs.remove_tag(context, NAME, "v1")
    refs.remove_branch(context, NAME, "audit")
    assert [ref.name for ref in refs.list_refs(context, NAME)] == ["main"]
    with pytest.raises(RefNotFoundError, match="Existing branches and tags: main"):
        refs.remove_branch(context, NAME, "audit")


def test_main_cannot_be_removed(context, events):
    with pytest.raises(InvalidIdentifierError, match="'main' cannot be removed"):
        refs.remove_branch(context, NAME, "main")


def test_publishing_moves_main_to_the_branch_and_can_drop_it(context, events):
    refs.create_branch(context, NAME, "trial")
    events.refresh().append(row(9), branch="trial")
    info = refs.publish_branch(context, NAME, "trial", remove=True)
    assert ids(context) == [0, 1, 2, 3, 9]
    assert refs.current_snapshot(context, NAME).snapshot_id == info.snapshot_id
    assert [ref.name for ref in refs.list_refs(context, NAME)] == ["main"]


def test_publishing_twice_changes_nothing(context, events):
    refs.create_branch(context, NAME, "trial")
    events.refresh().append(row(9), branch="trial")
    first = refs.publish_branch(context, NAME, "trial")
    assert refs.publish_branch(context, NAME, "trial").snapshot_id == first.snapshot_id
    assert ids(context) == [0, 1, 2, 3, 9]


def test_publishing_is_refused_when_main_moved_on(context, events):
    refs.create_branch(context, NAME, "trial")
    events.refresh().append(row(9), branch="trial")
    events.append(row(5))
    with pytest.raises(ConcurrencyConflictError, match="'main' has 1 newer snapshot that"):
        refs.publish_branch(context, NAME, "trial")
    assert ids(context) == [0, 1, 2, 3, 5]


def test_publishing_an_unknown_branch_or_a_tag_is_refused(context, events):
    refs.create_tag(context, NAME, "v1")
    for name in ("nothing", "v1"):
        with pytest.raises(RefNotFoundError, match="no branch"):
            refs.publish_branch(context, NAME, name)


def test_a_ref_change_that_loses_a_race_is_tried_again(context, events, monkeypatch):
    original = type(context.catalog).commit_table
    losses = [CommitFailedException("another writer"), CommitFailedException("another writer")]

    def losing(self, *args):
        if losses:
            raise losses.pop()
        return original(self, *args)

    monkeypatch.setattr(type(context.catalog), "commit_table", losing)
    refs.create_tag(context, NAME, "v1")
    assert losses == []
    assert ids(context, ref="v1") == [0, 1, 2, 3]


def _tag_many(root, worker):
    context = make_context(root)
    for number in range(5):
        refs.create_tag(context, NAME, f"w{worker}-{number}")


def test_tags_from_several_processes_all_land(context, events, tmp_path):
    processes = [
        multiprocessing.get_context("spawn").Process(target=_tag_many, args=(tmp_path, worker)) for worker in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert sum(ref.kind == "tag" for ref in refs.list_refs(context, NAME)) == 15
