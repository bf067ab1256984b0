"""S37: a held write is published after its repaired rerun."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from floe_core.errors import WriteError
from floe_iceberg import WriteMode
from floe_iceberg.held import HeldMark, list_held, open_held, publish_held

FIRST, RERUN, OTHER = "audit.orders.mon.run1", "audit.orders.mon.run2", "audit.orders.tue.run3"


@pytest.fixture
def manager(manager, name):
    manager.create_table(name, pa.schema([("id", pa.int64()), ("day", pa.string())]), partition_spec=["day"])
    manager.append(name, pa.table({"id": [0, 0], "day": ["mon", "tue"]}))
    return manager


def hold(manager, name, branch, row, *, mode=WriteMode.OVERWRITE):
    """Write rows to a branch of their own, as a run with checks does."""
    number, day = row
    row_filter = f"day = '{day}'" if mode is WriteMode.OVERWRITE else None
    open_held(manager, name, branch)
    manager.write_data(
        name,
        pa.table({"id": [number], "day": [day]}),
        mode,
        overwrite_filter=row_filter,
        branch=branch,
        snapshot_properties=HeldMark(branch, mode, row_filter).properties(),
    )


def rows(manager, name):
    return sorted((row["day"], row["id"]) for row in manager.scan(name).to_pylist())


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.APPEND])
def test_s37_a_held_write_is_refused_once_a_later_run_of_the_same_partition_is_published(manager, name, mode):
    hold(manager, name, FIRST, (13, "mon"), mode=mode)
    hold(manager, name, RERUN, (1, "mon"), mode=mode)
    publish_held(manager, name, RERUN)
    repaired = rows(manager, name)
    with pytest.raises(WriteError, match=re.escape(RERUN)) as caught:
        publish_held(manager, name, FIRST)
    assert "floe discard" in caught.value.hint
    assert rows(manager, name) == repaired
    assert [held.branch for held in list_held(manager, name)] == [FIRST]


def test_s37_an_earlier_run_does_not_stand_in_the_way_of_a_later_one(manager, name):
    hold(manager, name, FIRST, (13, "mon"))
    publish_held(manager, name, FIRST)
    hold(manager, name, RERUN, (1, "mon"))
    publish_held(manager, name, RERUN)
    assert rows(manager, name) == [("mon", 1), ("tue", 0)]


def test_s37_another_partition_does_not_stand_in_the_way(manager, name):
    hold(manager, name, OTHER, (2, "tue"))
    publish_held(manager, name, OTHER)
    hold(manager, name, FIRST, (1, "mon"))
    publish_held(manager, name, FIRST)
    assert rows(manager, name) == [("mon", 1), ("tue", 2)]
