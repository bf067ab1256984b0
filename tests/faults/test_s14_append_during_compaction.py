"""S14: an append during a compaction; both succeed."""

from __future__ import annotations

import multiprocessing

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager, maintenance
from floe_iceberg.read import scan
from floe_iceberg.table import refs

SCHEMA = pa.schema([("id", pa.int64())])


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


@pytest.fixture
def events(new_table, name):
    table = new_table(name, SCHEMA)
    for number in range(8):
        table.append(row(number))
    return table


def ids(context, name, **version):
    return sorted(scan.scan(context, name, **version).column("id").to_pylist())


def test_s14_an_append_before_the_swap_stays(site, context, events, name, before_the_swap):
    other = site.open_context()
    before_the_swap(lambda: other.load(name).append(row(100)))
    result = maintenance.compact_table(context, name)
    assert (result.rewritten_files, result.added_files, result.files_after) == (8, 1, 2)
    assert ids(context, name) == [*range(8), 100]
    assert [info.operation for info in refs.list_snapshots(context, name, limit=2)] == ["replace", "append"]


def test_s14_an_append_to_a_branch_stays(site, context, events, name, before_the_swap):
    refs.create_branch(context, name, "trial")
    other = site.open_context()
    before_the_swap(lambda: other.load(name).append(row(100), branch="trial"))
    maintenance.compact_table(context, name)
    assert ids(context, name) == [*range(8)]
    assert ids(context, name, ref="trial") == [*range(8), 100]


def _append_many(address, first, started):
    manager = IcebergTableManager(address.open_catalog())
    started.set()
    for number in range(first, first + 5):
        manager.append(address.name("events"), row(number))


def test_s14_compactions_beside_writing_processes_lose_nothing(site, context, events, name):
    spawn = multiprocessing.get_context("spawn")
    started = [spawn.Event() for _ in range(2)]
    writers = [
        spawn.Process(target=_append_many, args=(site.address, 1000 * (place + 1), event))
        for place, event in enumerate(started)
    ]
    for writer in writers:
        writer.start()
    for event in started:
        assert event.wait(60)
    compacted = 0
    while any(writer.is_alive() for writer in writers):
        compacted += maintenance.compact_table(context, name).rewritten_files
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert compacted >= 8
    assert ids(context, name) == [*range(8), *range(1000, 1005), *range(2000, 2005)]
