"""The commit loop: waiting, reconciliation, and deletion of files."""

from __future__ import annotations

from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

from floe_core.errors import (
    CatalogUnavailableError,
    CommitStateUnknownError,
    ConcurrencyConflictError,
    ConfigurationError,
    RefNotFoundError,
    StorageFullError,
)
from floe_iceberg.commit import protocol
from floe_iceberg.commit.protocol import Backoff, stage
from floe_iceberg.commit.snapshot import SnapshotDraft
from floe_iceberg.read.versions import ref_history
from floe_iceberg.write import operations, prepared
from floe_testing.embedded_tables import files_of
from floe_testing.faults.sites import EmbeddedAddress, open_site

pytestmark = pytest.mark.req("TM-14")

NAME = "bronze.t"


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def site(tmp_path):
    with open_site(EmbeddedAddress(str(tmp_path))) as site:
        yield site


@pytest.fixture
def other(site):
    """Another writer, with a table of two rows."""
    manager = site.open_manager()
    manager.create_table(NAME, rows().schema)
    manager.append(NAME, rows(1, 2))
    return manager


@pytest.fixture
def manager(site, other):
    """A writer that gives up soon."""
    return site.open_manager(commit_timeout_seconds=0.1)


@pytest.fixture
def answers(manager, monkeypatch):
    """Let each commit of the writer meet what is scripted: given the real commit, it makes what it likes of it.

    The last of them goes on.
    """

    def play(*script):
        real, left = manager.catalog.commit_table, list(script)

        def commit_table(*call):
            act = left.pop(0) if len(left) > 1 else left[0]
            return act(lambda: real(*call))

        monkeypatch.setattr(manager.catalog, "commit_table", commit_table)

    return play


def conflict(_commit):
    raise CommitFailedException


def conflict_after_a_write_of(other):
    def act(commit):
        other.append(NAME, rows(9))
        conflict(commit)

    return act


@pytest.fixture
def counted(monkeypatch):
    """The operations whose rows were counted as written."""
    counted = []
    monkeypatch.setattr(operations, "count_written", lambda _table, _kind, summary: counted.append(summary))
    return counted


def ids(manager, **options):
    return sorted(manager.scan(NAME, **options)["id"].to_pylist())


def on_disk(manager, suffix):
    return len(files_of(manager.load_table(NAME), suffix))


def referred_to(manager):
    """Count the manifests and manifest lists that some snapshot of the table needs."""
    table = manager.load_table(NAME)
    lists = {snapshot.manifest_list for snapshot in table.snapshots()}
    return len(lists | {entry.manifest_path for s in table.snapshots() for entry in s.manifests(table.io)})


@pytest.fixture
def clock(monkeypatch):
    """Time that only sleep moves, and waits that last as long as they may."""
    clock = type("Clock", (), {"now": 100.0, "slept": []})()

    def sleep(seconds):
        clock.slept.append(seconds)
        clock.now += seconds

    monkeypatch.setattr(protocol.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(protocol.time, "sleep", sleep)
    monkeypatch.setattr(protocol.random, "uniform", lambda low, high: high + low)
    return clock


def test_waits_double_up_to_two_seconds_and_end_with_the_budget(clock):
    backoff = Backoff(10.0, started=clock.now)
    while backoff.wait():
        pass
    assert clock.slept[:9] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.0]
    # The last wait is the remaining time.
    assert sum(clock.slept) == pytest.approx(10.0)
    assert clock.slept[-1] < 2.0
    assert not backoff.wait()


def test_a_budget_of_nothing_allows_no_wait(clock):
    assert not Backoff(0.0, started=clock.now).wait()
    assert clock.slept == []


def test_many_conflicts_do_not_make_the_next_wait_longer(clock):
    backoff = Backoff(1e9, started=clock.now, tries=2000)
    assert backoff.wait()
    assert clock.slept == [2.0]


def test_attempts_that_can_never_land_leave_nothing_behind(manager, other, answers):
    answers(conflict_after_a_write_of(other))
    with pytest.raises(
        ConcurrencyConflictError, match=r"conflicted with other writers \(attempts: \d+\)\. Nothing was written"
    ):
        manager.append(NAME, rows(3))
    assert on_disk(manager, ".parquet") == len(ids(manager)) - 1
    assert on_disk(manager, ".avro") == referred_to(manager)


def test_attempts_that_may_still_land_keep_their_files(manager, other, answers):
    """The branch stands where the attempt began: a proxy may hold the commit and send it on later."""
    answers(conflict)
    with pytest.raises(ConcurrencyConflictError):
        manager.append(NAME, rows(3))
    assert on_disk(manager, ".parquet") == 2
    assert on_disk(manager, ".avro") > referred_to(manager)


def test_files_of_a_snapshot_that_was_rolled_back_are_kept(manager, other, answers):
    """The attempt landed, and somebody undid it before the writer looked: its snapshot is in the table all the same."""
    before = other.get_current_snapshot(NAME).snapshot_id

    def landed_and_undone(commit):
        commit()
        other.rollback(NAME, before)
        conflict(commit)

    answers(landed_and_undone, conflict)
    with pytest.raises(ConcurrencyConflictError):
        manager.append(NAME, rows(3))
    assert ids(manager) == [1, 2]
    undone = [snapshot for snapshot in other.list_snapshots(NAME, limit=None) if snapshot.snapshot_id != before]
    assert undone
    for snapshot in undone:
        assert ids(manager, snapshot_id=snapshot.snapshot_id) == [1, 2, 3]


def test_a_conflict_that_was_our_own_commit_is_found_by_the_next_try(manager, other, answers, counted):
    def landed(commit):
        commit()
        conflict(commit)

    answers(landed)
    snapshot = manager.append(NAME, rows(3))
    assert snapshot.snapshot_id == other.get_current_snapshot(NAME).snapshot_id
    assert ids(other) == [1, 2, 3]
    assert on_disk(manager, ".avro") == referred_to(manager)
    assert [summary["added-records"] for summary in counted] == ["1"]


def test_of_two_calls_with_one_id_the_slower_leaves_nothing_behind(manager, other, answers, counted):
    def overtaken_by_itself(commit):
        other.append(NAME, rows(3), operation_id="op-1")
        conflict(commit)

    answers(overtaken_by_itself)
    snapshot = manager.append(NAME, rows(3), operation_id="op-1")
    assert snapshot.snapshot_id == other.get_current_snapshot(NAME).snapshot_id
    assert ids(manager) == [1, 2, 3]
    assert on_disk(manager, ".parquet") == 2
    assert on_disk(manager, ".avro") == referred_to(manager)
    assert len(counted) == 1


def test_rows_of_an_operation_that_is_repeated_are_counted_once(manager, other, counted):
    for _ in range(3):
        manager.append(NAME, rows(3), operation_id="op-1")
    assert [summary["added-records"] for summary in counted] == ["1"]


def test_a_commit_that_was_interrupted_keeps_its_files(manager, other, answers):
    def interrupted(_commit):
        raise KeyboardInterrupt

    answers(interrupted)
    with pytest.raises(KeyboardInterrupt):
        manager.append(NAME, rows(3))
    assert on_disk(manager, ".parquet") == 2
    assert on_disk(manager, ".avro") > referred_to(manager)


def test_a_commit_that_was_refused_leaves_nothing_behind(manager, other, answers):
    def refused(_commit):
        msg = "No room"
        raise StorageFullError(msg)

    answers(conflict_after_a_write_of(other), refused)
    with pytest.raises(StorageFullError):
        manager.append(NAME, rows(3))
    assert on_disk(manager, ".parquet") == 2
    assert on_disk(manager, ".avro") == referred_to(manager)


def test_a_table_that_was_made_anew_meanwhile_gets_no_rows(manager, other, answers):
    def replaced(commit):
        other.drop_table(NAME)
        other.create_table(NAME, rows().schema)
        conflict(commit)

    answers(replaced)
    location = other.load_table(NAME)
    with pytest.raises(ConcurrencyConflictError, match="dropped and recreated"):
        manager.append(NAME, rows(3))
    assert ids(manager) == []
    # The old table was dropped without its files; the files of the failed write are deleted.
    assert len(files_of(location, ".parquet")) == 1


def test_a_lost_attempt_that_landed_late_keeps_its_files_and_the_last_one_loses_its(manager, other, answers):
    held = []

    def held_by_a_proxy(commit):
        held.append(commit)
        conflict(commit)

    def sent_on_too_late(_commit):
        held[0]()
        raise CommitStateUnknownException

    answers(held_by_a_proxy, sent_on_too_late)
    manager.append(NAME, rows(3))
    assert ids(manager) == [1, 2, 3]
    assert len(other.list_snapshots(NAME)) == 2
    assert on_disk(manager, ".avro") == referred_to(manager)


def test_an_outcome_that_nobody_knows_deletes_nothing_and_names_the_operation(manager, other, answers):
    def silent(_commit):
        raise CommitStateUnknownException

    answers(silent)
    with pytest.raises(CommitStateUnknownError) as caught:
        manager.append(NAME, rows(3), operation_id="op-1")
    assert caught.value.operation_id == "op-1"
    assert on_disk(manager, ".parquet") == 2


def test_a_commit_that_landed_unheard_is_no_success_while_it_cannot_be_read(manager, other, answers):
    def landed_on_a_broken_disk(commit):
        commit()
        newest = max(files_of(other.load_table(NAME), ".avro"), key=lambda path: path.stat().st_mtime_ns)
        assert newest.name.startswith("snap-")
        newest.unlink()
        raise CommitStateUnknownException

    answers(landed_on_a_broken_disk)
    with pytest.raises(CommitStateUnknownError):
        manager.append(NAME, rows(3))


def test_a_commit_is_unknown_while_the_table_cannot_be_looked_at(manager, other, answers, monkeypatch):
    def landed_and_gone(commit):
        commit()
        monkeypatch.setattr(manager.catalog, "load_table", Mock(side_effect=CatalogUnavailableError("Away.")))
        raise CommitStateUnknownException

    answers(landed_and_gone)
    with pytest.raises(CommitStateUnknownError, match="no files were deleted"):
        manager.append(NAME, rows(3))
    assert ids(other) == [1, 2, 3]


def test_whoever_interrupts_a_write_after_its_commit_loses_no_rows(manager, other, monkeypatch):
    monkeypatch.setattr(protocol, "delete_old_metadata", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        manager.append(NAME, rows(3))
    assert ids(other) == [1, 2, 3]


def test_an_operation_is_found_below_later_ones_and_only_on_its_branch(manager, other):
    first = manager.append(NAME, rows(3), operation_id="op-1")
    manager.append(NAME, rows(4), operation_id="op-2")
    assert manager.append(NAME, rows(3), operation_id="op-1").snapshot_id == first.snapshot_id
    assert ids(manager) == [1, 2, 3, 4]
    assert on_disk(manager, ".parquet") == 3
    other.create_branch(NAME, "trial", snapshot_id=other.list_snapshots(NAME, limit=None)[-1].snapshot_id)
    manager.append(NAME, rows(3), operation_id="op-1", branch="trial")
    assert ids(manager, ref="trial") == [1, 2, 3]
    heads = [
        snapshot.summary.additional_properties.get("floe.operation-id") for snapshot in ref_history(_metadata(other))
    ]
    assert heads[:2] == ["op-2", "op-1"]
    assert len(heads) == 3


def _metadata(manager):
    return manager.load_table(NAME).metadata


def test_rows_go_to_branches_that_are_there(manager, other):
    other.create_branch(NAME, "trial")
    other.create_tag(NAME, "release")
    manager.append(NAME, rows(3), branch="main")
    for missing in ("release", "trail"):
        with pytest.raises(RefNotFoundError, match=f"has no branch '{missing}'") as caught:
            manager.append(NAME, rows(4), branch=missing)
        assert "Existing branches: main, trial. Create it" in str(caught.value)
    assert ids(manager) == [1, 2, 3]


def test_a_table_without_rows_has_no_branch_to_write_to(manager, other):
    other.create_table("bronze.empty", rows().schema)
    with pytest.raises(RefNotFoundError, match="Existing branches: none"):
        manager.append("bronze.empty", rows(1), branch="trial")


def test_staged_updates_are_worked_out_and_not_committed(manager, other):
    table = manager.load_table(NAME)
    staged = stage(table, lambda transaction: transaction.set_properties(owner="us"))
    assert staged.metadata.properties["owner"] == "us"
    assert [update.action for update in staged.updates] == ["set-properties"]
    assert "owner" not in _metadata(other).properties
    nothing = stage(table, lambda _: None)
    assert (nothing.updates, nothing.metadata) == ((), table.metadata)


DELETE_OLD = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}


@pytest.mark.parametrize(
    ("properties", "left"),
    [
        pytest.param(DELETE_OLD, 2, id="asked for"),
        pytest.param({**DELETE_OLD, "gc.enabled": "false"}, 5, id="shared files"),
        pytest.param({"write.metadata.previous-versions-max": "1"}, 5, id="not asked for"),
    ],
)
def test_old_metadata_files_go_only_when_the_table_says_so(manager, other, properties, left):
    other.create_table("bronze.logged", rows().schema, properties=properties)
    for number in range(4):
        manager.append("bronze.logged", rows(number))
    assert len(files_of(other.load_table("bronze.logged"), ".metadata.json")) == left


def test_a_table_that_cannot_be_written_is_refused_before_the_first_byte(manager, other, monkeypatch):
    other.create_table("bronze.odd", rows().schema, properties={"write.avro.compression-codec": "shorthand"})
    written = Mock()
    monkeypatch.setattr(prepared, "write_rows", written)
    with pytest.raises(ConfigurationError, match="shorthand"):
        manager.append("bronze.odd", rows(1))
    written.assert_not_called()


def test_a_write_that_fails_before_its_commit_leaves_nothing_behind(manager, other, monkeypatch):
    def full(*_, **__):
        msg = "No room"
        raise StorageFullError(msg)

    monkeypatch.setattr(SnapshotDraft, "attempt", full)
    with pytest.raises(StorageFullError):
        manager.append(NAME, rows(3))
    assert on_disk(manager, ".parquet") == 1
