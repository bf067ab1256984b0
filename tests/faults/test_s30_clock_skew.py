"""S30: writers whose clocks disagree."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa

from floe_iceberg import clocks


def test_s30_order_follows_sequence_numbers_when_clocks_disagree(open_manager, monkeypatch):
    fast, slow = open_manager(), open_manager()
    fast.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    real = time.time
    for number, (manager, skew) in enumerate([(fast, 7200), (slow, -7200), (fast, 7200), (slow, -7200)]):
        monkeypatch.setattr(clocks.time, "time", lambda skew=skew: real() + skew)
        manager.append("bronze.t", pa.table({"id": [number]}))
    monkeypatch.undo()
    newest_first = slow.list_snapshots("bronze.t")
    assert [snapshot.sequence_number for snapshot in newest_first] == [4, 3, 2, 1]
    # Iceberg for Java refuses a history that goes back by more than a minute.
    history = slow.load_table("bronze.t").history()
    assert all(a.timestamp_ms < b.timestamp_ms for a, b in itertools.pairwise(history))
    assert slow.get_current_snapshot("bronze.t").snapshot_id == newest_first[0].snapshot_id
    assert sorted(slow.scan("bronze.t")["id"].to_pylist()) == [0, 1, 2, 3]


def test_s30_a_read_as_of_a_snapshots_time_sees_that_snapshot(open_manager, monkeypatch):
    manager = open_manager()
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    monkeypatch.setattr(clocks.time, "time", lambda: 1_700_000_000.0)
    made = [manager.append("bronze.t", pa.table({"id": [number]})) for number in range(3)]
    for count, snapshot in enumerate(made, start=1):
        assert manager.scan("bronze.t", as_of=snapshot.timestamp_ms).num_rows == count
