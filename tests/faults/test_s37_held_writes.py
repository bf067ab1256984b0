"""S37: a held-back write is published after its repaired rerun."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitStateUnknownException

from floe_core.errors import ConcurrencyConflictError, WriteError
from floe_iceberg import Engine, WriteMode
from floe_iceberg.commit.read_marks import read_mark, since_mark
from floe_iceberg.staging.staged import StagedMark, discard_superseded, list_staged, open_staged, publish_staged

FIRST, RERUN, OTHER = "audit.orders.mon.run1", "audit.orders.mon.run2", "audit.orders.tue.run3"
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.string())])


@pytest.fixture
def manager(manager, name):
    manager.create_table(name, SCHEMA, partition_spec=["day"])
    manager.append(name, pa.table({"id": [0, 0], "day": ["mon", "tue"]}))
    return manager


def hold(manager, name, branch, row, *, mode=WriteMode.OVERWRITE, properties=()):
    """Write rows to a branch of their own, as a run with checks does."""
    number, day = row
    row_filter = f"day = '{day}'" if mode is WriteMode.OVERWRITE else None
    open_staged(manager, name, branch)
    manager.write_data(
        name,
        pa.table({"id": [number], "day": [day]}),
        mode,
        overwrite_filter=row_filter,
        branch=branch,
        snapshot_properties={**StagedMark(branch, mode, row_filter).properties(), **dict(properties)},
    )


def rows(manager, name):
    return sorted((row["day"], row["id"]) for row in manager.scan(name).to_pylist())


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.APPEND])
def test_s37_a_held_write_is_refused_once_a_later_run_of_the_same_partition_is_published(manager, name, mode):
    hold(manager, name, FIRST, (13, "mon"), mode=mode)
    hold(manager, name, RERUN, (1, "mon"), mode=mode)
    publish_staged(manager, name, RERUN)
    repaired = rows(manager, name)
    with pytest.raises(WriteError, match=re.escape(RERUN)) as caught:
        publish_staged(manager, name, FIRST)
    assert "floe discard" in caught.value.hint
    assert rows(manager, name) == repaired
    assert [held.branch for held in list_staged(manager, name)] == [FIRST]


def test_s37_an_earlier_run_does_not_stand_in_the_way_of_a_later_one(manager, name):
    hold(manager, name, FIRST, (13, "mon"))
    publish_staged(manager, name, FIRST)
    hold(manager, name, RERUN, (1, "mon"))
    publish_staged(manager, name, RERUN)
    assert rows(manager, name) == [("mon", 1), ("tue", 0)]


def test_s37_of_two_held_writes_of_the_same_new_rows_one_is_published(manager, name):
    read = {**read_mark("bronze.raw", 7), **since_mark("bronze.raw", None)}
    for branch in (FIRST, RERUN):
        hold(manager, name, branch, (1, "mon"), mode=WriteMode.APPEND, properties=read)
    publish_staged(manager, name, RERUN, outdated=True)
    with pytest.raises(ConcurrencyConflictError, match="Another run has already read the same rows"):
        publish_staged(manager, name, FIRST, outdated=True)
    assert rows(manager, name) == [("mon", 0), ("mon", 1), ("tue", 0)]


def test_s37_another_partition_does_not_stand_in_the_way(manager, name):
    hold(manager, name, OTHER, (2, "tue"))
    publish_staged(manager, name, OTHER)
    hold(manager, name, FIRST, (1, "mon"))
    publish_staged(manager, name, FIRST)
    assert rows(manager, name) == [("mon", 1), ("tue", 2)]


def late_rows(manager, name):
    """Write to the branch once more, as the engine's server may do for a process that was killed."""
    manager.append(name, days((13, "mon")), branch=FIRST)


def new_table(manager, name):
    """Replace the table by another one whose write has the same branch."""
    manager.drop_table(name)
    manager.create_table(name, SCHEMA)
    hold(manager, name, FIRST, (13, "mon"), mode=WriteMode.APPEND)


@pytest.mark.parametrize("change", [late_rows, new_table])
def test_s37_rows_that_were_not_checked_are_not_published(manager, name, change):
    hold(manager, name, FIRST, (1, "mon"), mode=WriteMode.APPEND)
    checked = manager.load_table(name)
    change(manager, name)
    before = rows(manager, name)
    with pytest.raises(WriteError, match="changed after") as caught:
        publish_staged(manager, name, FIRST, outdated=True, loaded=checked)
    assert caught.value.table == name
    assert rows(manager, name) == before
    assert [held.branch for held in list_staged(manager, name)] == [FIRST]


def test_s37_a_publication_whose_reply_was_lost_is_found_below_later_commits(manager, name, monkeypatch):
    hold(manager, name, FIRST, (1, "mon"), mode=WriteMode.APPEND)
    catalog = manager.catalog
    commit = catalog.commit_table

    def lose_the_reply(*request):
        monkeypatch.undo()
        commit(*request)
        manager.append(name, days((2, "tue")))
        raise CommitStateUnknownException

    monkeypatch.setattr(catalog, "commit_table", lose_the_reply)
    publish_staged(manager, name, FIRST, outdated=True)
    assert rows(manager, name) == [("mon", 0), ("mon", 1), ("tue", 0), ("tue", 2)]
    assert list_staged(manager, name) == []


def hold_rows(manager, name, branch, data, mode, *, engine=None, **mark):
    """Write rows to a branch of their own, with whatever its run says about them."""
    properties = {**StagedMark(branch, mode, **mark).properties(), "floe.tenant": "acme", "team": "shop"}
    open_staged(manager, name, branch)
    manager.write_data(
        name,
        data,
        mode,
        keys=mark.get("keys"),
        overwrite_filter=mark.get("row_filter"),
        branch=branch,
        engine=engine,
        snapshot_properties=properties,
    )


def days(*pairs):
    return pa.table({"id": pa.array([number for number, _ in pairs], pa.int64()), "day": [day for _, day in pairs]})


def test_s37_a_rerun_over_a_range_that_holds_the_partition_makes_the_write_outdated(manager, name):
    properties = {"dagster.asset-key": "shop/orders", "dagster.partition-key": "mon"}
    open_staged(manager, name, FIRST)
    mark = StagedMark(FIRST, WriteMode.APPEND, partitions=("mon",)).properties()
    manager.append(name, days((13, "mon")), branch=FIRST, snapshot_properties={**mark, **properties})
    wide = "audit.orders.mon-tue-1a2b.run2"
    open_staged(manager, name, wide)
    mark = StagedMark(wide, WriteMode.APPEND, partitions=("mon", "tue")).properties()
    properties = {"dagster.asset-key": "shop/orders", "dagster.run-id": "0123456789"}
    manager.append(name, days((1, "mon"), (2, "tue")), branch=wide, snapshot_properties={**mark, **properties})
    publish_staged(manager, name, wide)
    with pytest.raises(WriteError, match=r"a later run of the same work.*by run 01234567 of shop/orders"):
        publish_staged(manager, name, FIRST)


def test_s37_an_overwrite_of_all_rows_is_outdated_once_main_has_others(manager, name):
    hold_rows(manager, name, FIRST, days((1, "mon")), WriteMode.OVERWRITE)
    appended = manager.append(name, days((2, "tue")), snapshot_properties={"dagster.run-id": "f00dfeed99"})
    with pytest.raises(
        WriteError, match=rf"have changed on main: snapshot {appended.snapshot_id} \(append by run f00d"
    ):
        publish_staged(manager, name, FIRST)
    assert rows(manager, name) == [("mon", 0), ("tue", 0), ("tue", 2)]


def test_s37_a_published_rerun_retires_older_writes_of_its_partitions(manager, name):
    for branch, day in ((FIRST, "mon"), (OTHER, "tue"), (RERUN, "mon")):
        hold_rows(manager, name, branch, days((1, day)), WriteMode.APPEND, partitions=(day,))
    [rerun] = [held for held in list_staged(manager, name) if held.branch == RERUN]
    publish_staged(manager, name, RERUN, outdated=True)
    assert discard_superseded(manager, name, rerun) == [FIRST]
    assert [held.branch for held in list_staged(manager, name)] == [OTHER]


@pytest.mark.parametrize(("mode", "retired"), [(WriteMode.OVERWRITE, ["audit.orders.run1"]), (WriteMode.APPEND, [])])
def test_s37_without_partitions_only_what_replaces_all_rows_retires_older_writes(manager, name, mode, retired):
    for run in ("run1", "run2"):
        hold_rows(manager, name, f"audit.orders.{run}", days((1, "mon")), mode)
    [_, newer] = list_staged(manager, name)
    publish_staged(manager, name, newer.branch)
    assert discard_superseded(manager, name, newer) == retired


@pytest.fixture
def engine_manager(site, manager, plane):
    """A manager with Spark behind it, on the table of the fixture ``manager``."""
    return site.open_manager(compute=plane)


class LateRival:
    """An engine beside which another write lands on the same branch, right before its first own one."""

    def __init__(self, plane, rival):
        self._plane = plane
        self._rival = rival

    def __getattr__(self, name):
        return getattr(self._plane, name)

    def write(self, request):
        if rival := self._rival:
            self._rival = None
            rival()
        self._plane.write(request)


@pytest.mark.spark
def test_s37_what_a_killed_driver_lands_late_is_not_published_with_the_write(site, manager, plane, name):
    table = open_staged(manager, name, FIRST)
    rival = LateRival(plane, lambda: manager.append(name, days((7, "sun")), branch=FIRST))
    engine_manager = site.open_manager(compute=rival)
    mark = StagedMark(FIRST, WriteMode.APPEND).properties()
    engine_manager.append(name, days((1, "mon")), branch=FIRST, engine=Engine.SPARK, snapshot_properties=mark)
    publish_staged(manager, table, FIRST)
    assert rival._rival is None
    assert rows(manager, name) == [("mon", 0), ("mon", 1), ("tue", 0)]


@pytest.mark.spark
def test_s37_an_earlier_run_that_was_published_late_does_not_stand_in_the_way(engine_manager, name):
    manager = engine_manager
    hold(manager, name, FIRST, (13, "mon"))
    hold(manager, name, RERUN, (1, "mon"))
    manager.append(name, days((9, "tue")))
    publish_staged(manager, name, FIRST)
    publish_staged(manager, name, RERUN)
    assert rows(manager, name) == [("mon", 1), ("tue", 0), ("tue", 9)]


@pytest.mark.spark
def test_s37_a_repair_of_the_same_rows_by_another_hand_makes_the_write_outdated(engine_manager, name):
    manager = engine_manager
    hold(manager, name, FIRST, (13, "mon"))
    repaired = manager.overwrite(name, days((7, "mon")), overwrite_filter="day = 'mon'")
    with pytest.raises(WriteError, match=f"the rows it replaces have changed on main: snapshot {repaired.snapshot_id}"):
        publish_staged(manager, name, FIRST)
    assert rows(manager, name) == [("mon", 7), ("tue", 0)]
    assert [held.branch for held in list_staged(manager, name)] == [FIRST]


@pytest.mark.spark
def test_s37_rows_that_others_changed_elsewhere_and_compaction_let_the_write_through(engine_manager, name):
    manager = engine_manager
    hold(manager, name, FIRST, (13, "mon"))
    manager.overwrite(name, days((7, "tue")), overwrite_filter="day = 'tue'")
    manager.append(name, days((8, "tue")))
    manager.compact_table(name)
    seen = []
    publish_staged(manager, name, FIRST, audit=seen.append)
    assert seen == [f"{FIRST}.redo1"]
    assert rows(manager, name) == [("mon", 13), ("tue", 7), ("tue", 8)]


@pytest.mark.spark
def test_s37_a_held_upsert_is_outdated_by_newer_values_of_its_keys_only(engine_manager, name):
    manager = engine_manager
    manager.overwrite(name, days((1, "mon"), (2, "mon"), (3, "mon")))
    mark = {"keys": ("id",), "columns": ("id", "day", "note")}
    late = days((2, "wed"), (4, "wed")).append_column("note", pa.array(["a", "b"]))
    hold_rows(manager, name, FIRST, late, WriteMode.UPSERT, **mark)
    manager.upsert(name, days((3, "thu")), keys=["id"])
    hold_rows(manager, name, OTHER, days((3, "fri")), WriteMode.UPSERT, keys=("id",), columns=("id", "day"))
    publish_staged(manager, name, FIRST)
    assert rows(manager, name) == [("mon", 1), ("thu", 3), ("wed", 2), ("wed", 4)]
    manager.upsert(name, days((3, "sat")), keys=["id"])
    with pytest.raises(WriteError, match="the rows it replaces have changed"):
        publish_staged(manager, name, OTHER)


@pytest.mark.spark
@pytest.mark.parametrize("engine", [Engine.ARROW, Engine.SPARK])
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.OVERWRITE, WriteMode.UPSERT])
def test_s37_a_write_that_is_done_again_keeps_all_its_snapshot_properties(engine_manager, name, mode, engine):
    manager = engine_manager
    mark = {
        WriteMode.APPEND: {},
        WriteMode.OVERWRITE: {"row_filter": "day = 'mon'"},
        WriteMode.UPSERT: {"keys": ("id",), "columns": ("id", "day")},
    }[mode]
    hold_rows(manager, name, FIRST, days((5, "mon")), mode, engine=engine, partitions=("mon",), **mark)
    manager.append(name, days((9, "wed")))
    published = publish_staged(manager, name, FIRST)
    summary = published.summary
    assert (summary["floe.tenant"], summary["team"]) == ("acme", "shop")
    assert summary["floe.audit.partitions"] == '["mon"]'
    # The figures are those of the committed write.
    assert int(summary["total-records"]) == len(rows(manager, name))
