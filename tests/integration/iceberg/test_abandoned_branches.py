"""Operation branches whose process no longer exists."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.errors import RefNotFoundError, WriteError
from floe_core.runtime.processes import ProcessMark
from floe_iceberg.commit.branches import branch_creator, first_branch, operation_branch
from floe_iceberg.staging.leftover_branches import discard_leftover, list_leftovers
from floe_iceberg.write.abandoned import clear_operations

NAME_OF_A_BRANCH = "from floe_iceberg.commit.branches import operation_branch; print(operation_branch('x', 0))"


@pytest.fixture
def dead():
    """The branch of a process that has ended."""
    done = subprocess.run([sys.executable, "-c", NAME_OF_A_BRANCH], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def table(manager):
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": [1]}))
    return "bronze.t"


def foreign(dead):
    process = branch_creator(dead).process
    return dead.replace(f".{process.host}-", ".0a0b0c0d-")


def branches(manager, table):
    return {ref.name for ref in manager.list_refs(table)} - {"main"}


def test_a_process_is_known_by_host_id_and_start():
    mark = ProcessMark.of_this()
    assert ProcessMark.parse(str(mark)) == mark
    assert mark.pid == os.getpid()
    assert mark.here
    assert not mark.dead
    assert ProcessMark(mark.host, mark.pid, "1").dead, "an id that is used again"
    assert not ProcessMark("00000000", mark.pid, "1").dead, "nobody here knows the processes of another host"
    assert ProcessMark.parse("audit") is None


def test_a_process_that_was_killed_and_not_waited_for_is_dead():
    child = subprocess.Popen(["/bin/sleep", "60"])
    mark = ProcessMark._of(child.pid)
    assert not mark.dead
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert mark.dead
    child.wait()


def test_only_branches_of_dead_processes_of_this_host_are_cleared(manager, table, dead):
    kept = {operation_branch("y", 1), first_branch("z"), foreign(dead), "floe.operation.0123456789abcdef.0", "mine"}
    for branch in (*kept, dead):
        manager.create_branch(table, branch)
    assert clear_operations(manager.context, manager.load_table(table)) == [dead]
    assert branches(manager, table) == kept
    assert clear_operations(manager.context, manager.load_table(table)) == []


def test_expiry_clears_them_first(manager, table, dead):
    manager.create_branch(table, dead)
    manager.append(table, pa.table({"id": [2]}), branch=dead)
    manager.expire_snapshots(table, older_than=datetime.now(UTC) + timedelta(seconds=5))
    assert branches(manager, table) == set()
    assert len(manager.list_snapshots(table)) == 1


def test_what_nobody_here_can_judge_is_listed_and_can_be_discarded(manager, table, dead):
    for branch in (foreign(dead), "audit.t.0a1b2c3d", "floe.operation.0123456789abcdef.0"):
        manager.create_branch(table, branch)
    left = {found.branch: found for found in list_leftovers(manager.load_table(table))}
    assert left[foreign(dead)].here is False
    assert left["audit.t.0a1b2c3d"].here is None
    assert not any(found.abandoned for found in left.values())
    for branch in left:
        discard_leftover(manager, table, branch)
    assert branches(manager, table) == set()
    with pytest.raises(RefNotFoundError):
        discard_leftover(manager, table, foreign(dead))


def test_a_branch_in_use_and_a_branch_of_the_user_are_not_discarded(manager, table):
    manager.create_branch(table, mine := operation_branch("x", 0))
    manager.create_branch(table, "repair")
    with pytest.raises(WriteError, match=f"in use by process {os.getpid()}"):
        discard_leftover(manager, table, mine)
    with pytest.raises(RefNotFoundError):
        discard_leftover(manager, table, "repair")
    assert branches(manager, table) == {mine, "repair"}
