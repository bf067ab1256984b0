"""S31: after a lost race, files have the sequence number of the committed snapshot."""

from __future__ import annotations

import contextlib
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import RemovePropertiesUpdate, RemoveSnapshotRefUpdate

from floe_core.dataplane import WriteKind, WriteRequest
from floe_core.errors import CapabilityError
from floe_iceberg import CommitStrategy
from floe_testing.audit import assert_audited
from floe_testing.faults.races import run_simultaneously
from floe_testing.java.deltas import add_equality_deletes, add_position_deletes
from floe_testing.oracles.sequence_numbers import sequence_number_breaches

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])


def rows(*ids, x=0):
    return pa.table({"id": list(ids), "x": [x] * len(ids)}, SCHEMA)


OPERATIONS = {
    "fast append": lambda m, t: m.append(t, rows(1), commit_strategy=CommitStrategy.FAST_APPEND),
    "merge append": lambda m, t: m.append(t, rows(1), commit_strategy=CommitStrategy.MERGE),
    "stream": lambda m, t: m.append(t, rows(1).to_reader()),
    "overwrite": lambda m, t: m.overwrite(t, rows(1)),
    "overwrite by filter": lambda m, t: m.overwrite(t, rows(1), overwrite_filter="id = 100"),
    "upsert": lambda m, t: m.upsert(t, rows(1, 100, x=7), keys=["id"]),
    "delete": lambda m, t: m.delete(t, "id = 100"),
    "compaction": lambda m, t: m.compact_table(t),
    "manifest rewrite": lambda m, t: m.rewrite_manifests(t),
}
MAINTENANCE = [OPERATIONS["compaction"], OPERATIONS["manifest rewrite"]]


# The other tests show nothing more about REST than this one, so it always runs over REST too.
@pytest.mark.parametrize("site", ["embedded", "rest"], indirect=True)
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_s31_a_retried_commit_carries_the_sequence_number_that_landed(site, name, operation):
    first, second = site.open_manager(), site.open_manager()
    first.create_table(name, SCHEMA)
    first.append(name, rows(100, 101))
    first.append(name, rows(102))
    rivals = [lambda n=n: second.append(name, rows(200 + n)) for n in range(3)]
    if operation in MAINTENANCE:
        # Its first commit acquires the lease.
        rivals.insert(0, lambda: None)
    with site.losing_races(first, *rivals) as waiting:
        operation(first, name)
    assert not waiting
    first.append(name, rows(300), commit_strategy=CommitStrategy.MERGE)
    assert sequence_number_breaches(second.load_table(name)) == []
    assert_audited(second, name)


@pytest.mark.parametrize("strategy", CommitStrategy)
def test_s31_racing_threads_carry_the_sequence_numbers_that_landed(site, name, strategy):
    managers = [site.open_manager() for _ in range(4)]
    managers[0].create_table(name, SCHEMA)

    def write(number):
        for turn in range(6):
            managers[number].append(name, rows(number * 100 + turn), commit_strategy=strategy)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = site.open_manager().load_table(name)
    assert len(table.metadata.snapshots) == 24
    assert sequence_number_breaches(table) == []


def test_s31_a_commit_to_another_branch_between_a_writers_look_and_its_commit_is_a_conflict(site, name):
    first, second = site.open_manager(), site.open_manager()
    first.create_table(name, SCHEMA)
    first.append(name, rows(1))
    first.create_branch(name, "trial")
    with site.overtaken(first, lambda: second.append(name, rows(9), branch="trial")):
        first.append(name, rows(2))
    assert sorted(first.scan(name)["id"].to_pylist()) == [1, 2]
    assert sorted(first.scan(name, ref="trial")["id"].to_pylist()) == [1, 9]
    table = second.load_table(name)
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == [1, 2, 3]
    assert_audited(table)


def test_s31_a_first_snapshot_beside_a_branch_of_its_own_gets_a_number_of_its_own(site, name):
    first, second = site.open_manager(), site.open_manager()
    first.create_table(name, SCHEMA)
    first.append(name, rows(1))
    first.create_branch(name, "trial")
    table = first.load_table(name)
    first.catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
    with site.overtaken(first, lambda: second.append(name, rows(9), branch="trial")):
        first.append(name, rows(2))
    table = second.load_table(name)
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == [1, 2, 3]
    assert table.metadata.last_sequence_number == 3
    assert sorted(second.scan(name)["id"].to_pylist()) == [2]


@pytest.mark.parametrize("site", ["embedded"], indirect=True)
def test_s31_updates_made_for_a_state_that_is_gone_are_a_conflict(site, name):
    first, second = site.open_manager(), site.open_manager()
    first.create_table(name, SCHEMA, properties={"owner": "a"})
    stale = first.load_table(name)
    remove = RemovePropertiesUpdate(removals=["owner"])
    second.catalog.commit_table(second.load_table(name), (), (remove,))
    with pytest.raises(CommitFailedException):
        first.catalog.commit_table(stale, (), (remove,))


def test_s31_writers_on_several_branches_do_not_share_sequence_numbers(site, name):
    managers = [site.open_manager() for _ in range(3)]
    managers[0].create_table(name, SCHEMA)
    managers[0].append(name, rows(1))
    for branch in ("one", "two"):
        managers[0].create_branch(name, branch)

    def write(number):
        for turn in range(5):
            managers[number].append(name, rows(turn), branch=("main", "one", "two")[number])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    table = site.open_manager().load_table(name)
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == list(range(1, 17))
    assert_audited(table)


WRITER = textwrap.dedent(
    """
    import sys
    import pyarrow as pa
    from floe_iceberg import IcebergTableManager
    from floe_testing.faults.sites import address_of

    address, number = address_of(sys.argv[1]), int(sys.argv[2])
    manager = IcebergTableManager(address.open_catalog())
    table = address.name("events")
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(8):
        rows = pa.table({"id": [number], "x": [turn]})
        manager.append(table, rows) if turn % 2 else manager.upsert(table, rows, keys=["id"])
    """
)


def test_s31_racing_processes_carry_the_sequence_numbers_that_landed(site, manager, name):
    manager.create_table(name, SCHEMA)
    programs = [("-c", WRITER, site.address.text(), str(number)) for number in range(3)]
    assert run_simultaneously(programs) == [0] * 3
    assert sequence_number_breaches(manager.load_table(name)) == []


@pytest.fixture
def shared(manager, name):
    """A manager of a table with three rows, beside Spark."""
    manager.create_table(name, SCHEMA)
    manager.append(name, rows(1, 2, 3))
    return manager


def spark_deletes(site, plane, kind):
    """Return what Spark and Java commit, one after the other: rows, deletes of all but one of them, rows."""
    session, table = plane.session, site.spark_name("events")

    def insert():
        plane.write(WriteRequest(site.name("events"), WriteKind.APPEND, data=rows(10, 11)))

    def delete():
        if kind == "equality":
            add_equality_deletes(session, table, ["id"], [[1], [2], [10], [11], [50]])
        else:
            files = session.sql(f"SELECT file_path, record_count FROM {table}.data_files").collect()
            add_position_deletes(session, table, {file.file_path: [0, 1][: file.record_count] for file in files})

    return insert, delete, insert


LEFT_BY_OTHERS = [3, 10, 11]


def ids(site, plane):
    return [row.id for row in plane.session.sql(f"SELECT id FROM {site.spark_name('events')} ORDER BY id").collect()]


LATE_WRITES = {
    "fast append": OPERATIONS["fast append"],
    "merge append": OPERATIONS["merge append"],
    "overwrite": OPERATIONS["overwrite"],
    "upsert": lambda m, t: m.upsert(t, rows(1, x=7), keys=["id"]),
}


# Over REST, where each case takes longer, one case of each kind.
LATE_OVER_REST = [("fast append", "equality"), ("overwrite", "position"), ("upsert", "position")]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("site", "operation", "deletes"),
    [
        *(("embedded", operation, kind) for operation in LATE_WRITES for kind in ("equality", "position")),
        *(pytest.param("rest", *case, marks=pytest.mark.live) for case in LATE_OVER_REST),
    ],
    indirect=["site"],
)
def test_s31_a_write_that_loses_to_deletes_of_another_engine_lands_after_them(site, plane, shared, deletes, operation):
    name = site.name("events")
    with site.losing_races(shared, *spark_deletes(site, plane, deletes)) as waiting:
        if (operation, deletes) == ("upsert", "equality"):
            # Its rows can no longer be found in process, and a guess would restore deleted rows.
            with pytest.raises(CapabilityError, match="equality deletes"):
                LATE_WRITES[operation](shared, name)
            expected = [3]
        else:
            LATE_WRITES[operation](shared, name)
            expected = [1] if operation == "overwrite" else [1, *LEFT_BY_OTHERS]
            assert not waiting
    assert ids(site, plane) == expected
    assert sequence_number_breaches(shared.load_table(name)) == []


@pytest.mark.spark
@pytest.mark.parametrize("deletes", ["equality", "position"])
def test_s31_deletes_that_land_during_a_compaction_still_apply(site, plane, shared, name, deletes):
    shared.append(name, rows(4))
    insert, delete, _ = spark_deletes(site, plane, deletes)
    # Its first commit acquires the lease.
    with site.losing_races(shared, lambda: None, insert, delete) as waiting:
        # New files with a higher number than the deletes would restore the rows; rejecting the write is correct, too.
        with contextlib.suppress(CapabilityError):
            shared.compact_table(name)
        assert not waiting
    assert ids(site, plane) == ([3, 4] if deletes == "equality" else [3])
    assert sequence_number_breaches(shared.load_table(name)) == []
    assert_audited(shared, name)
