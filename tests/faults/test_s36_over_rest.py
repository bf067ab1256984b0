"""S36 over REST: clocks that differ by minutes, and a server that checks timestamps."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog import clocks
from floe_testing.audit import assert_audited

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])


def rows(*ids, x=0):
    return pa.table({"id": list(ids), "x": [x] * len(ids)}, SCHEMA)


@pytest.fixture
def table(connect, namespace):
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    name = f"{namespace}.t"
    manager.create_table(name, SCHEMA)
    manager.append(name, rows(1, 2))
    return name


OPERATIONS = {
    "fast append": lambda m, t: m.append(t, rows(7), commit_strategy="fast_append"),
    "merge append": lambda m, t: m.append(t, rows(7), commit_strategy="merge"),
    "overwrite": lambda m, t: m.overwrite(t, rows(7)),
    "upsert": lambda m, t: m.upsert(t, rows(1, 7, x=1), keys=["id"]),
    "delete": lambda m, t: m.delete(t, "id = 1"),
}


@pytest.mark.parametrize("skews", [(120, -120), (-120, 120)], ids=["ahead first", "behind first"])
def test_s36_writers_with_wrong_clocks_over_rest_are_accepted(connect, table, monkeypatch, skews):
    manager = IcebergTableManager(connect())
    real = time.time
    for skew, operate in zip(itertools.cycle(skews), OPERATIONS.values(), strict=False):
        monkeypatch.setattr(clocks.time, "time", lambda skew=skew: real() + skew)
        operate(manager, table)
        with manager.load_table(table).transaction() as change:
            change.set_properties({"turn": str(skew)})
        manager.create_tag(table, f"t{real()}".replace(".", "_"))
    monkeypatch.undo()
    loaded = manager.load_table(table)
    moments = [entry.timestamp_ms for entry in loaded.metadata.snapshot_log]
    assert moments == sorted(moments)
    assert_audited(loaded)
