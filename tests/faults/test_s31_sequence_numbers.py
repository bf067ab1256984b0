"""S31: writers that lose races carry the sequence number of the snapshot that landed."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import RemovePropertiesUpdate, RemoveSnapshotRefUpdate

from floe_core.dataplane import WriteKind
from floe_core.errors import CapabilityError
from floe_iceberg import CommitStrategy, IcebergTableManager
from floe_testing.audit import assert_audited
from floe_testing.java_deltas import add_equality_deletes, add_position_deletes
from floe_testing.races import losing_races, run_at_once
from floe_testing.sequence_numbers import sequence_number_breaches
from floe_testing.spark import embedded_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])

NAME = "floe.bronze.t"


def rows(*ids, x=0):
    return pa.table({"id": list(ids), "x": [x] * len(ids)}, SCHEMA)


OPERATIONS = {
    "fast append": lambda m: m.append("bronze.t", rows(1), commit_strategy=CommitStrategy.FAST_APPEND),
    "merge append": lambda m: m.append("bronze.t", rows(1), commit_strategy=CommitStrategy.MERGE),
    "stream": lambda m: m.append("bronze.t", rows(1).to_reader()),
    "overwrite": lambda m: m.overwrite("bronze.t", rows(1)),
    "overwrite by filter": lambda m: m.overwrite("bronze.t", rows(1), overwrite_filter="id = 100"),
    "upsert": lambda m: m.upsert("bronze.t", rows(1, 100, x=7), keys=["id"]),
    "delete": lambda m: m.delete("bronze.t", "id = 100"),
    "compaction": lambda m: m.compact_table("bronze.t"),
    "manifest rewrite": lambda m: m.rewrite_manifests("bronze.t"),
}
MAINTENANCE = [OPERATIONS["compaction"], OPERATIONS["manifest rewrite"]]


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_s31_a_retried_commit_carries_the_sequence_number_that_landed(open_manager, operation):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", SCHEMA)
    first.append("bronze.t", rows(100, 101))
    first.append("bronze.t", rows(102))
    rivals = [lambda n=n: second.append("bronze.t", rows(200 + n)) for n in range(3)]
    if operation in MAINTENANCE:
        # Its first commit takes the lease.
        rivals.insert(0, lambda: None)
    with losing_races(first.catalog.inner.engine, *rivals) as waiting:
        operation(first)
    assert not waiting
    first.append("bronze.t", rows(300), commit_strategy=CommitStrategy.MERGE)
    assert sequence_number_breaches(second.load_table("bronze.t")) == []
    assert_audited(second, "bronze.t")


@pytest.mark.parametrize("strategy", CommitStrategy)
def test_s31_racing_threads_carry_the_sequence_numbers_that_landed(open_manager, strategy):
    managers = [open_manager() for _ in range(4)]
    managers[0].create_table("bronze.t", SCHEMA)

    def write(number):
        for turn in range(6):
            managers[number].append("bronze.t", rows(number * 100 + turn), commit_strategy=strategy)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = open_manager().load_table("bronze.t")
    assert len(table.metadata.snapshots) == 24
    assert sequence_number_breaches(table) == []


def before_the_next_commit(manager, rival):
    """Let a rival commit after the manager's next attempt is built and before it reaches the catalog."""
    metastore = manager.catalog._sql
    commit = metastore.commit

    def late(*arguments):
        del metastore.commit
        rival()
        return commit(*arguments)

    metastore.commit = late


def test_s31_a_commit_to_another_branch_between_a_writers_look_and_its_commit_is_a_conflict(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", SCHEMA)
    first.append("bronze.t", rows(1))
    first.create_branch("bronze.t", "trial")
    before_the_next_commit(first, lambda: second.append("bronze.t", rows(9), branch="trial"))
    first.append("bronze.t", rows(2))
    assert sorted(first.scan("bronze.t")["id"].to_pylist()) == [1, 2]
    assert sorted(first.scan("bronze.t", ref="trial")["id"].to_pylist()) == [1, 9]
    table = second.load_table("bronze.t")
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == [1, 2, 3]
    assert_audited(table)


def test_s31_a_first_snapshot_beside_a_branch_of_its_own_gets_a_number_of_its_own(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", SCHEMA)
    first.append("bronze.t", rows(1))
    first.create_branch("bronze.t", "trial")
    table = first.load_table("bronze.t")
    first.catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
    before_the_next_commit(first, lambda: second.append("bronze.t", rows(9), branch="trial"))
    first.append("bronze.t", rows(2))
    table = second.load_table("bronze.t")
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == [1, 2, 3]
    assert table.metadata.last_sequence_number == 3
    assert sorted(second.scan("bronze.t")["id"].to_pylist()) == [2]


def test_s31_updates_made_for_a_state_that_is_gone_are_a_conflict(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", SCHEMA, properties={"owner": "a"})
    stale = first.load_table("bronze.t")
    remove = RemovePropertiesUpdate(removals=["owner"])
    second.catalog.commit_table(second.load_table("bronze.t"), (), (remove,))
    with pytest.raises(CommitFailedException):
        first.catalog.commit_table(stale, (), (remove,))


def test_s31_writers_on_several_branches_do_not_share_sequence_numbers(open_manager):
    managers = [open_manager() for _ in range(3)]
    managers[0].create_table("bronze.t", SCHEMA)
    managers[0].append("bronze.t", rows(1))
    for name in ("one", "two"):
        managers[0].create_branch("bronze.t", name)

    def write(number):
        for turn in range(5):
            managers[number].append("bronze.t", rows(turn), branch=("main", "one", "two")[number])

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, range(3)))
    table = open_manager().load_table("bronze.t")
    assert sorted(snapshot.sequence_number for snapshot in table.metadata.snapshots) == list(range(1, 17))
    assert_audited(table)


WRITER = textwrap.dedent(
    """
    import sys
    import pyarrow as pa
    from pyiceberg.catalog.sql import SqlCatalog
    from floe_iceberg import IcebergTableManager

    root, number = sys.argv[1], int(sys.argv[2])
    catalog = SqlCatalog("test", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}/warehouse")
    manager = IcebergTableManager(catalog)
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(8):
        rows = pa.table({"id": [number], "x": [turn]})
        manager.append("bronze.t", rows) if turn % 2 else manager.upsert("bronze.t", rows, keys=["id"])
    """
)


def test_s31_racing_processes_carry_the_sequence_numbers_that_landed(open_manager, tmp_path):
    manager = open_manager()
    manager.create_table("bronze.t", SCHEMA)
    commands = [[sys.executable, "-c", WRITER, str(tmp_path), str(number)] for number in range(3)]
    assert run_at_once(commands) == [0] * 3
    assert sequence_number_breaches(manager.load_table("bronze.t")) == []


@pytest.fixture
def shared(spark_tables, tmp_path):
    """A table with three rows, and a manager of it beside Spark."""
    spark_tables.create("bronze.t", SCHEMA)
    manager = IcebergTableManager(embedded_catalog(tmp_path))
    manager.append("bronze.t", rows(1, 2, 3))
    yield manager
    manager.catalog.close()


def spark_deletes(spark_tables, session, kind):
    """Return what Spark and Java commit, one after the other: rows, deletes of all but one of them, rows."""

    def insert():
        spark_tables.write(WriteKind.APPEND, "bronze.t", rows(10, 11))

    def delete():
        if kind == "equality":
            add_equality_deletes(session, NAME, ["id"], [[1], [2], [10], [11], [50]])
        else:
            files = session.sql(f"SELECT file_path, record_count FROM {NAME}.data_files").collect()
            add_position_deletes(session, NAME, {file.file_path: [0, 1][: file.record_count] for file in files})

    return insert, delete, insert


LEFT_BY_OTHERS = [3, 10, 11]


def ids(session):
    return [row.id for row in session.sql(f"SELECT id FROM {NAME} ORDER BY id").collect()]


LATE_WRITES = {
    "fast append": OPERATIONS["fast append"],
    "merge append": OPERATIONS["merge append"],
    "overwrite": OPERATIONS["overwrite"],
    "upsert": lambda m: m.upsert("bronze.t", rows(1, x=7), keys=["id"]),
}


@pytest.mark.spark
@pytest.mark.parametrize("deletes", ["equality", "position"])
@pytest.mark.parametrize("operation", ["fast append", "merge append", "overwrite", "upsert"])
def test_s31_a_write_that_loses_to_deletes_of_another_engine_lands_after_them(
    spark_tables, spark_session, shared, deletes, operation
):
    rivals = spark_deletes(spark_tables, spark_session, deletes)
    with losing_races(shared.catalog.inner.engine, *rivals) as waiting:
        if (operation, deletes) == ("upsert", "equality"):
            # Its rows can no longer be found in process, and guessing would bring deleted rows back.
            with pytest.raises(CapabilityError, match="equality deletes"):
                LATE_WRITES[operation](shared)
            expected = [3]
        else:
            LATE_WRITES[operation](shared)
            expected = [1] if operation == "overwrite" else [1, *LEFT_BY_OTHERS]
            assert not waiting
    assert ids(spark_session) == expected
    assert sequence_number_breaches(shared.load_table("bronze.t")) == []


@pytest.mark.spark
@pytest.mark.parametrize("deletes", ["equality", "position"])
def test_s31_deletes_that_land_during_a_compaction_still_apply(spark_tables, spark_session, shared, deletes):
    shared.append("bronze.t", rows(4))
    insert, delete, _ = spark_deletes(spark_tables, spark_session, deletes)
    # Its first commit takes the lease.
    with losing_races(shared.catalog.inner.engine, lambda: None, insert, delete) as waiting:
        # New files that carry a newer number than the deletes would bring the rows back; refusing is right too.
        with contextlib.suppress(CapabilityError):
            shared.compact_table("bronze.t")
        assert not waiting
    assert ids(spark_session) == ([3, 4] if deletes == "equality" else [3])
    assert sequence_number_breaches(shared.load_table("bronze.t")) == []
    assert_audited(shared, "bronze.t")
