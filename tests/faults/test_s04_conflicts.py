"""S04: many writers, one table."""

from __future__ import annotations

import textwrap

import pyarrow as pa
import pytest

from floe_iceberg import ConcurrencyConflictError
from floe_testing.faults.database_faults import DatabaseFault, DatabaseFaults
from floe_testing.faults.races import run_simultaneously

pytestmark = pytest.mark.req("TM-07", "TM-14")

WRITER = textwrap.dedent(
    """
    import sys
    import pyarrow as pa
    from pathlib import Path
    from floe_iceberg import IcebergTableManager
    from floe_testing.embedded_tables import open_catalog

    root, number, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    manager = IcebergTableManager(open_catalog(root))
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(count):
        manager.append("bronze.t", pa.table({"writer": [number], "turn": [turn]}))
    """
)


def test_s04_sixteen_processes_append_ten_times_each(open_manager, tmp_path):
    manager = open_manager()
    manager.create_table("bronze.t", pa.schema([("writer", pa.int64()), ("turn", pa.int64())]))
    programs = [("-c", WRITER, str(tmp_path), str(number), "10") for number in range(16)]
    assert run_simultaneously(programs) == [0] * 16
    rows = manager.scan("bronze.t").to_pylist()
    assert sorted((row["writer"], row["turn"]) for row in rows) == [(w, t) for w in range(16) for t in range(10)]
    snapshots = manager.list_snapshots("bronze.t", limit=None)
    assert len(snapshots) == 160
    assert [snapshot.sequence_number for snapshot in snapshots] == list(range(160, 0, -1))


def test_s04_an_append_that_loses_a_race_does_not_write_its_data_again(faulty, database):
    faulty.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    database.play([DatabaseFault.CONFLICT] * 5)
    faulty.append("bronze.t", pa.table({"id": [1]}))
    table = faulty.load_table("bronze.t")
    folder = table.location().removeprefix("file://")
    from pathlib import Path

    assert len(list(Path(folder).rglob("*.parquet"))) == 1
    # Five lost attempts leave no files behind: one manifest, one manifest list.
    assert len(list(Path(folder).rglob("*.avro"))) == 2


def test_s04_a_writer_that_never_wins_gives_up_within_its_budget(open_manager):
    manager = open_manager(commit_timeout_seconds=0.3)
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    database = DatabaseFaults(manager.catalog.inner.engine)
    database.play([DatabaseFault.CONFLICT] * 10_000)
    with pytest.raises(ConcurrencyConflictError, match="conflicted with other writers"):
        manager.append("bronze.t", pa.table({"id": [1]}))
    database.play([])
    assert manager.scan("bronze.t").num_rows == 0


def test_s04_an_upsert_against_a_concurrent_change_of_the_same_rows_is_redone(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    first.append("bronze.t", pa.table({"id": [1, 2], "x": [0, 0]}))
    meddle(first, lambda: second.upsert("bronze.t", pa.table({"id": [2], "x": [5]}), keys=["id"]))
    first.upsert("bronze.t", pa.table({"id": [1, 3], "x": [7, 7]}), keys=["id"])
    found = {row["id"]: row["x"] for row in first.scan("bronze.t").to_pylist()}
    assert found == {1: 7, 2: 5, 3: 7}


def test_s04_a_delete_takes_rows_that_arrived_meanwhile(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    first.append("bronze.t", pa.table({"id": [1, 2]}))
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [2, 9]})))
    first.delete("bronze.t", "id = 2")
    assert sorted(first.scan("bronze.t")["id"].to_pylist()) == [1, 9]


def test_s04_rewritten_files_are_kept_when_the_other_change_is_elsewhere(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_spec=["p"])
    first.append("bronze.t", pa.table({"id": [1, 2], "p": ["a", "a"]}))
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [3], "p": ["b"]})))
    first.delete("bronze.t", "p = 'a' and id = 2")
    assert sorted(first.scan("bronze.t")["id"].to_pylist()) == [1, 3]


def test_s04_a_commit_to_another_branch_is_a_conflict_and_no_doubt(open_manager):
    first, second = open_manager(), open_manager()
    first.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    first.append("bronze.t", pa.table({"id": [1]}))
    first.create_branch("bronze.t", "trial")
    meddle(first, lambda: second.append("bronze.t", pa.table({"id": [9]}), branch="trial"))
    first.append("bronze.t", pa.table({"id": [2]}))
    assert sorted(first.scan("bronze.t")["id"].to_pylist()) == [1, 2]
    assert sorted(first.scan("bronze.t", ref="trial")["id"].to_pylist()) == [1, 9]


def meddle(manager, change):
    """Let another writer commit just before the manager's next commit."""
    DatabaseFaults(manager.catalog.inner.engine).play([change])


def test_s04_threads_of_one_manager_do_not_lose_rows(open_manager):
    from concurrent.futures import ThreadPoolExecutor

    manager = open_manager()
    manager.create_table("bronze.t", pa.schema([("writer", pa.int64()), ("turn", pa.int64())]))

    def write(number):
        for turn in range(5):
            manager.append("bronze.t", pa.table({"writer": [number], "turn": [turn]}))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    found = sorted((row["writer"], row["turn"]) for row in manager.scan("bronze.t").to_pylist())
    assert found == [(writer, turn) for writer in range(6) for turn in range(5)]
