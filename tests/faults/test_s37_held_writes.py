"""S37: a held write is published after its repaired rerun."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from floe_core.errors import WriteError
from floe_iceberg import WriteMode
from floe_iceberg.held import HeldMark, list_held, open_held, publish_held

TABLE = "bronze.orders"
FIRST, RERUN, OTHER = "audit.orders.mon.run1", "audit.orders.mon.run2", "audit.orders.tue.run3"


@pytest.fixture
def manager(open_manager):
    manager = open_manager()
    manager.create_table(TABLE, pa.schema([("id", pa.int64()), ("day", pa.string())]), partition_spec=["day"])
    manager.append(TABLE, pa.table({"id": [0, 0], "day": ["mon", "tue"]}))
    return manager


def hold(manager, branch, number, day, mode=WriteMode.OVERWRITE):
    """Write rows to a branch of their own, as a run with checks does."""
    row_filter = f"day = '{day}'" if mode is WriteMode.OVERWRITE else None
    open_held(manager, TABLE, branch)
    manager.write_data(
        TABLE,
        pa.table({"id": [number], "day": [day]}),
        mode,
        overwrite_filter=row_filter,
        branch=branch,
        snapshot_properties=HeldMark(branch, mode, row_filter).properties(),
    )


def rows(manager):
    return sorted((row["day"], row["id"]) for row in manager.scan(TABLE).to_pylist())


@pytest.mark.parametrize("mode", [WriteMode.OVERWRITE, WriteMode.APPEND])
def test_s37_a_held_write_is_refused_once_a_later_run_of_the_same_partition_is_published(manager, mode):
    hold(manager, FIRST, 13, "mon", mode)
    hold(manager, RERUN, 1, "mon", mode)
    publish_held(manager, TABLE, RERUN)
    repaired = rows(manager)
    with pytest.raises(WriteError, match=re.escape(RERUN)) as caught:
        publish_held(manager, TABLE, FIRST)
    assert "floe discard" in caught.value.hint
    assert rows(manager) == repaired
    assert [held.branch for held in list_held(manager, TABLE)] == [FIRST]


def test_s37_an_earlier_run_does_not_stand_in_the_way_of_a_later_one(manager):
    hold(manager, FIRST, 13, "mon")
    publish_held(manager, TABLE, FIRST)
    hold(manager, RERUN, 1, "mon")
    publish_held(manager, TABLE, RERUN)
    assert rows(manager) == [("mon", 1), ("tue", 0)]


def test_s37_another_partition_does_not_stand_in_the_way(manager):
    hold(manager, OTHER, 2, "tue")
    publish_held(manager, TABLE, OTHER)
    hold(manager, FIRST, 1, "mon")
    publish_held(manager, TABLE, FIRST)
    assert rows(manager) == [("mon", 1), ("tue", 2)]
