"""Commits by Spark over REST that succeed but are answered with an error."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from floe_iceberg import Engine, IcebergTableManager
from floe_testing.faults.gateway import COMMIT_PATH

SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
OLD = [(1, "old"), (2, "old"), (3, "old")]
SPARK = {"engine": Engine.SPARK}
OPERATIONS = {
    "append": (lambda m, t: m.append(t, rows([4], "new"), **SPARK), [*OLD, (4, "new")]),
    "overwrite": (lambda m, t: m.overwrite(t, rows([9], "new"), **SPARK), [(9, "new")]),
    "merge": (lambda m, t: m.upsert(t, rows([3, 4], "new"), keys=["id"], **SPARK), [*OLD[:2], (3, "new"), (4, "new")]),
    "delete": (lambda m, t: m.delete(t, "id = 2", **SPARK), [OLD[0], OLD[2]]),
}


def rows(ids, name):
    return pa.table({"id": ids, "name": [name] * len(ids)}, schema=SCHEMA)


def content(manager, table):
    return sorted((row["id"], row["name"]) for row in manager.scan(table).to_pylist())


@pytest.fixture
def manager(connect, spark_over):
    catalog = connect(name=f"rest_{uuid.uuid4().hex[:8]}")
    return IcebergTableManager(catalog, compute=spark_over(catalog))


@pytest.fixture
def table(manager, namespace):
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    manager.create_table(name, SCHEMA)
    manager.append(name, rows([1, 2, 3], "old"), engine=Engine.ARROW)
    return name


@pytest.mark.spark
@pytest.mark.req("TM-14")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "kind",
    [
        409,
        "no answer",
        pytest.param(429, marks=pytest.mark.live),
        pytest.param(500, marks=pytest.mark.live),
        503,
        pytest.param(504, marks=pytest.mark.live),
    ],
    ids=str,
)
def test_s01_s02_s03_what_spark_landed_is_success_whatever_was_answered(gateway, manager, table, operation, kind):
    act, expected = OPERATIONS[operation]
    if kind == "no answer":
        rule = gateway.cut(method="POST", path=COMMIT_PATH, after_forwarding=True)
    else:
        rule = gateway.answer(kind, method="POST", path=COMMIT_PATH, after_forwarding=True)
    act(manager, table)
    assert rule.hits == 1
    assert content(manager, table) == expected


@pytest.mark.spark
@pytest.mark.parametrize("operation", ["merge", "delete"])
@pytest.mark.parametrize("kind", [pytest.param(409, marks=pytest.mark.live), 500], ids=str)
def test_s03_a_branch_that_nobody_knows_of_does_not_end_a_row_level_write(gateway, manager, table, operation, kind):
    act, expected = OPERATIONS[operation]
    # The first commit creates the branch that the engine writes to; it fails.
    rule = gateway.answer(kind, method="POST", path=COMMIT_PATH)
    act(manager, table)
    assert rule.hits == 1
    assert content(manager, table) == expected
    assert list(manager.load_table(table).metadata.refs) == ["main"]
