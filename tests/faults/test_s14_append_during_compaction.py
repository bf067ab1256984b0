"""S14: an append against a running compaction: both land."""

from __future__ import annotations

import multiprocessing

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager, maintenance, reads, snapshots
from floe_testing.embedded_tables import make_context

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


@pytest.fixture
def events(new_table):
    table = new_table(NAME, SCHEMA)
    for number in range(8):
        table.append(row(number))
    return table


def ids(context, **version):
    return sorted(reads.scan(context, NAME, **version).column("id").to_pylist())


def test_s14_an_append_before_the_swap_stays(context, events, tmp_path, before_the_swap):
    other = make_context(tmp_path)
    before_the_swap(lambda: other.load(NAME).append(row(100)))
    result = maintenance.compact_table(context, NAME)
    assert (result.rewritten_files, result.added_files, result.files_after) == (8, 1, 2)
    assert ids(context) == [*range(8), 100]
    assert [info.operation for info in snapshots.list_snapshots(context, NAME, limit=2)] == ["replace", "append"]


def test_s14_an_append_to_a_branch_stays(context, events, tmp_path, before_the_swap):
    snapshots.create_branch(context, NAME, "trial")
    other = make_context(tmp_path)
    before_the_swap(lambda: other.load(NAME).append(row(100), branch="trial"))
    maintenance.compact_table(context, NAME)
    assert ids(context) == [*range(8)]
    assert ids(context, ref="trial") == [*range(8), 100]


def _append_many(root, first, started):
    manager = IcebergTableManager(make_context(root).catalog)
    started.set()
    for number in range(first, first + 5):
        manager.append(NAME, row(number))


def test_s14_compactions_beside_writing_processes_lose_nothing(context, events, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Event() for _ in range(2)]
    writers = [
        spawn.Process(target=_append_many, args=(tmp_path, 1000 * (place + 1), event))
        for place, event in enumerate(started)
    ]
    for writer in writers:
        writer.start()
    for event in started:
        assert event.wait(60)
    compacted = 0
    while any(writer.is_alive() for writer in writers):
        compacted += maintenance.compact_table(context, NAME).rewritten_files
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert compacted >= 8
    assert ids(context) == [*range(8), *range(1000, 1005), *range(2000, 2005)]
