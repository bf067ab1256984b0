"""S04 on Spark: many writers, one table, over REST and on the embedded catalog."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from floe_core.errors import ConcurrencyConflictError
from floe_iceberg import Engine, IcebergTableManager, IcebergTableManagerConfig
from floe_testing.faults.gateway import COMMIT_PATH

pytestmark = [pytest.mark.spark, pytest.mark.req("TM-07", "TM-14")]

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("writer", pa.int64())])


def rows(ids, writer):
    return pa.table({"id": ids, "writer": [writer] * len(ids)}, schema=SCHEMA)


def content(manager, table):
    return sorted((row["id"], row["writer"]) for row in manager.scan(table).to_pylist())


def all_at_once(writers, work):
    """Let every writer do its work at the same time, and raise what went wrong for one of them."""
    with ThreadPoolExecutor(writers) as threads:
        return list(threads.map(work, range(writers)))


@pytest.fixture
def manager_over(connect, spark_over):
    """Give a way to make managers over REST, each with a connection of its own."""

    def manager(**config):
        catalog = connect(name=f"rest_{uuid.uuid4().hex[:8]}")
        return IcebergTableManager(catalog, config=IcebergTableManagerConfig(**config), compute=spark_over(catalog))

    return manager


@pytest.fixture
def over_rest(manager_over, namespace):
    """Give a manager over REST, and the name of an empty table."""
    manager, name = manager_over(), f"{namespace}.orders"
    manager.create_namespace(namespace)
    manager.create_table(name, SCHEMA)
    return manager, name


@pytest.mark.live
@pytest.mark.timeout(600)
def test_s04_sixteen_writers_of_one_table_each_land_once(over_rest):
    manager, table = over_rest
    all_at_once(16, lambda writer: manager.append(table, rows([writer], writer), engine=Engine.SPARK))
    assert content(manager, table) == [(writer, writer) for writer in range(16)]
    snapshots = manager.list_snapshots(table, limit=None)
    assert sorted(snapshot.sequence_number for snapshot in snapshots) == list(range(1, 17))


@pytest.mark.live
@pytest.mark.timeout(600)
def test_s04_merges_and_deletes_of_one_table_at_once_are_all_done(over_rest):
    manager, table = over_rest
    manager.append(table, rows(list(range(6)), 99), engine=Engine.ARROW)

    def work(writer):
        if writer < 3:
            manager.upsert(table, rows([writer, 100 + writer], writer), keys=["id"], engine=Engine.SPARK)
        else:
            manager.delete(table, f"id = {writer}", engine=Engine.SPARK)

    all_at_once(6, work)
    assert content(manager, table) == sorted([(w, w) for w in range(3)] + [(100 + w, w) for w in range(3)])


@pytest.mark.live
def test_s04_a_storm_of_refusals_leaves_one_copy(gateway, over_rest):
    manager, table = over_rest
    storm = gateway.answer(409, method="POST", path=COMMIT_PATH, times=12)
    manager.append(table, rows([1, 2], 0), engine=Engine.SPARK)
    assert storm.hits == 12
    assert content(manager, table) == [(1, 0), (2, 0)]


@pytest.mark.live
def test_s04_refusals_that_never_end_are_a_typed_error(gateway, over_rest, manager_over):
    manager, table = over_rest
    hurried = manager_over(commit_timeout_seconds=3)
    gateway.answer(409, method="POST", path=COMMIT_PATH, times=None)
    with pytest.raises(ConcurrencyConflictError, match=table):
        hurried.append(table, rows([1], 0), engine=Engine.SPARK)
    gateway.clear()
    assert content(manager, table) == []


def test_s04_both_engines_write_one_embedded_table_at_once(spark_tables):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", SCHEMA)

    def work(writer):
        manager.append("bronze.t", rows([writer], writer), engine=Engine.SPARK if writer % 2 else Engine.ARROW)

    all_at_once(4, work)
    assert content(manager, "bronze.t") == [(writer, writer) for writer in range(4)]
