"""S30: writers with different clocks."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa

from floe_iceberg.catalog import clocks


def test_s30_order_follows_sequence_numbers_when_clocks_disagree(site, name, monkeypatch):
    fast, slow = site.open_manager(), site.open_manager()
    fast.create_table(name, pa.schema([("id", pa.int64())]))
    real = time.time
    for number, (manager, skew) in enumerate([(fast, 7200), (slow, -7200), (fast, 7200), (slow, -7200)]):
        monkeypatch.setattr(clocks.time, "time", lambda skew=skew: real() + skew)
        manager.append(name, pa.table({"id": [number]}))
    monkeypatch.undo()
    newest_first = slow.list_snapshots(name)
    assert [snapshot.sequence_number for snapshot in newest_first] == [4, 3, 2, 1]
    # Iceberg's Java rejects a history that goes back by more than a minute.
    history = slow.load_table(name).history()
    assert all(a.timestamp_ms < b.timestamp_ms for a, b in itertools.pairwise(history))
    assert slow.get_current_snapshot(name).snapshot_id == newest_first[0].snapshot_id
    assert sorted(slow.scan(name)["id"].to_pylist()) == [0, 1, 2, 3]


def test_s30_a_read_as_of_a_snapshots_time_sees_that_snapshot(site, name, monkeypatch):
    manager = site.open_manager()
    manager.create_table(name, pa.schema([("id", pa.int64())]))
    monkeypatch.setattr(clocks.time, "time", lambda: 1_700_000_000.0)
    made = [manager.append(name, pa.table({"id": [number]})) for number in range(3)]
    for count, snapshot in enumerate(made, start=1):
        assert manager.scan(name, as_of=snapshot.timestamp_ms).num_rows == count
