"""Commits over REST with lost replies, wrong replies and conflicts: rows and reported outcomes are correct."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from floe_core.errors import CommitStateUnknownError, FloeStorageError
from floe_iceberg import IcebergTableManager
from floe_testing.faults.gateway import COMMIT_PATH

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
LANDED_BUT_DOUBTFUL = [409, 429, 500, 502, 503, 504, "no answer"]


@pytest.fixture
def manager(connect):
    return IcebergTableManager(connect())


@pytest.fixture
def table(manager, namespace):
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    manager.create_table(name, SCHEMA)
    manager.append(name, rows([1, 2, 3], "old"))
    return name


def rows(ids, name):
    return pa.table({"id": ids, "name": [name] * len(ids)}, schema=SCHEMA)


def content(manager, name):
    return sorted((row["id"], row["name"]) for row in manager.scan(name).to_pylist())


def lose_answer(gateway, kind, *, times=1):
    """Let a commit land and answer it with something else."""
    if kind == "no answer":
        return gateway.cut(method="POST", path=COMMIT_PATH, times=times, after_forwarding=True)
    return gateway.answer(kind, method="POST", path=COMMIT_PATH, times=times, after_forwarding=True)


OLD = [(1, "old"), (2, "old"), (3, "old")]
OPERATIONS = {
    "append": (lambda m, t: m.append(t, rows([4], "new")), [*OLD, (4, "new")]),
    "overwrite": (lambda m, t: m.overwrite(t, rows([9], "new")), [(9, "new")]),
    "upsert": (lambda m, t: m.upsert(t, rows([3, 4], "new"), keys=["id"]), [*OLD[:2], (3, "new"), (4, "new")]),
    "delete": (lambda m, t: m.delete(t, "id = 2"), [OLD[0], OLD[2]]),
}


@pytest.mark.req("TM-14")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", LANDED_BUT_DOUBTFUL, ids=str)
def test_s01_s02_s03_a_landed_commit_is_success_whatever_was_answered(gateway, manager, table, operation, kind):
    act, expected = OPERATIONS[operation]
    rule = lose_answer(gateway, kind)
    snapshot = act(manager, table)
    assert rule.hits == 1
    assert content(manager, table) == expected
    assert manager.get_current_snapshot(table).snapshot_id == snapshot.snapshot_id


@pytest.mark.req("TM-14")
@pytest.mark.parametrize("kind", [503, "no answer"], ids=str)
def test_s02_every_answer_lost_leaves_one_copy_and_a_readable_table(gateway, manager, table, kind):
    lose_answer(gateway, kind, times=None)
    manager.append(table, rows([4], "new"))
    gateway.clear()
    assert content(manager, table) == [*OLD, (4, "new")]


@pytest.mark.req("TM-14")
@pytest.mark.parametrize("status", [500, 502, 504])
def test_s03_an_outcome_nobody_knows_is_named_and_keeps_the_files(gateway, manager, table, status):
    gateway.answer(status, method="POST", path=COMMIT_PATH, times=None)
    with pytest.raises(CommitStateUnknownError) as caught:
        manager.append(table, rows([4], "new"))
    assert caught.value.operation_id
    gateway.clear()
    assert content(manager, table) == OLD
    manager.append(table, rows([5], "later"))
    assert content(manager, table) == [*OLD, (5, "later")]


@pytest.mark.req("TM-14")
@pytest.mark.parametrize("status", [429, 503])
def test_s03_a_commit_the_catalog_did_not_take_is_sent_again(gateway, manager, table, status):
    gateway.answer(status, method="POST", path=COMMIT_PATH)
    manager.append(table, rows([4], "new"))
    assert content(manager, table) == [*OLD, (4, "new")]
    assert len(manager.list_snapshots(table)) == 2


@pytest.mark.req("TM-14", "TM-07")
def test_s04_writers_that_collide_each_land_once(gateway, connect, manager, table):
    managers = [IcebergTableManager(connect()) for _ in range(8)]
    storm = gateway.answer(409, method="POST", path=COMMIT_PATH, times=16)

    def write(number):
        return [managers[number].append(table, rows([100 + 10 * number + step], "new")) for step in range(3)]

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    new = [row for row in content(manager, table) if row[1] == "new"]
    assert new == sorted((100 + 10 * number + step, "new") for number in range(8) for step in range(3))
    assert storm.hits == 16


@pytest.mark.req("TM-07")
def test_s04_conflicts_that_never_end_are_a_typed_error(gateway, connect, table):
    from floe_core.errors import ConcurrencyConflictError
    from floe_iceberg import IcebergTableManagerConfig

    impatient = IcebergTableManager(connect(), config=IcebergTableManagerConfig(commit_timeout_seconds=1.0))
    gateway.answer(409, method="POST", path=COMMIT_PATH, times=None)
    with pytest.raises(ConcurrencyConflictError):
        impatient.append(table, rows([4], "new"))
    gateway.clear()
    assert content(impatient, table) == OLD


def test_a_commit_is_not_sent_again_after_silence(gateway, manager, table):
    gateway.cut(method="POST", path=COMMIT_PATH)
    before = len(gateway.seen(method="POST", path=COMMIT_PATH))
    with pytest.raises(FloeStorageError):
        manager.append(table, rows([4], "new"))
    assert len(gateway.seen(method="POST", path=COMMIT_PATH)) == before + 1
    assert content(manager, table) == OLD


def test_with_idempotency_keys_a_commit_is_sent_again_under_the_same_key(gateway, connect, namespace):
    def offer(content):
        content["idempotency-key-lifetime"] = "PT30M"

    gateway.rewrite(offer, path="/v1/config")
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.orders", SCHEMA)
    gateway.cut(method="POST", path=COMMIT_PATH)
    manager.append(f"{namespace}.orders", rows([1], "new"))
    commits = gateway.seen(method="POST", path=COMMIT_PATH)
    keys = [{name.lower(): value for name, value in item.headers.items()}["idempotency-key"] for item in commits]
    assert [item.status for item in commits] == [None, 200]
    assert len(set(keys)) == 1
    assert content(manager, f"{namespace}.orders") == [(1, "new")]
