"""S38: the next run cleans up the branches of a killed run, and nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time

import pytest
from dagster import DagsterRunStatus

from floe_core.compile import compile_project
from floe_dagster.runs.home import open_instance
from floe_testing.warm_python import WarmProcess

ASSETS = '''
import os, time
from pathlib import Path
import pyarrow as pa
from dagster import AssetCheckResult, AssetIn, asset, asset_check

ROOT = Path(__file__).parent
NAMESPACE = os.environ["FLOE_TEST_NAMESPACE"]
REPLACED = {"write_mode": "overwrite"}


def pause(name):
    """Wait as long as the test wants, and tell it that we do."""
    if (ROOT / f"pause-{name}").exists():
        (ROOT / f"reached-{name}").touch()
        while (ROOT / f"pause-{name}").exists():
            time.sleep(0.05)


@asset(key=[NAMESPACE, "orders"], metadata=REPLACED)
def orders() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})


@asset_check(asset=orders, blocking=True)
def sound(orders: pa.Table):
    pause("check")
    return AssetCheckResult(passed=orders.num_rows == 3)


@asset(key=[NAMESPACE, "bad"], metadata=REPLACED)
def bad() -> pa.Table:
    return pa.table({"id": [0]})


@asset_check(asset=bad, blocking=True)
def never(bad: pa.Table):
    return AssetCheckResult(passed=False)


@asset(key=[NAMESPACE, "late"], ins={"orders": AssetIn([NAMESPACE, "orders"])}, metadata=REPLACED)
def late(orders: pa.Table) -> pa.RecordBatchReader:
    def batches():
        for batch in orders.to_batches():
            pause("stream")
            yield batch

    return pa.RecordBatchReader.from_batches(orders.schema, batches())


@asset_check(asset=late, blocking=True)
def complete(late: pa.Table):
    return AssetCheckResult(passed=late.num_rows == 3)
'''

SPARK_ASSETS = """
import os
from pathlib import Path
from dagster import asset
from pyspark.sql import DataFrame

ROOT = Path(__file__).parent
NAMESPACE = os.environ["FLOE_TEST_NAMESPACE"]


@asset(
    key=[NAMESPACE, "orders"],
    metadata={"write_mode": "upsert", "upsert_keys": ["id"]},
    required_resource_keys={"spark"},
)
def orders(context) -> DataFrame:
    spark = context.resources.spark
    pause = 600_000 if (ROOT / "pause-spark").exists() else 0
    sleep = f"reflect('java.lang.Thread', 'sleep', cast({pause} as bigint)) as slept"
    return spark.range(0, 8, 1, 2).selectExpr("id", sleep)
"""


class Project:
    """A project of which ``floe run`` is a process that can be killed."""

    def __init__(self, root, site, assets):
        self.root = root
        self.site = site
        settings = {"name": "killed", "orchestration": {"module": "assets"}, **site.address.project()}
        settings["compute"] = {"master": "local[2]", "driver_memory": "1g"}
        # By now, opening the address has set the secret in the environment.
        self.environment = {**os.environ, "FLOE_TEST_NAMESPACE": site.address.namespace}
        (root / "floe.yaml").write_text(json.dumps(settings))
        (root / "assets.py").write_text(assets)

    def start(self, *arguments):
        given = ("-m", "floe_cli", *arguments, "--project", str(self.root), "--output", "json")
        return WarmProcess(*given, env=self.environment, cwd=self.root)

    def floe(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=280)
        assert out, err
        return process.returncode, json.loads(out), err

    def pause(self, place):
        (self.root / f"pause-{place}").touch()

    def reached(self, place):
        return (self.root / f"reached-{place}").exists()

    def go_on(self, place):
        (self.root / f"pause-{place}").unlink()

    def branches(self, table):
        manager = self.site.open_manager()
        name = self.site.name(table)
        if not manager.table_exists(name):
            return []
        return sorted(ref.name for ref in manager.list_refs(name) if ref.name != "main")

    def statuses(self):
        with open_instance(compile_project(self.root)) as instance:
            return {run.run_id: run.status for run in instance.get_runs()}


def await_(condition, process):
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, process.communicate(60)
        assert time.monotonic() < deadline, "it never came to that point"
        time.sleep(0.05)


def kill(process):
    os.kill(process.pid, signal.SIGKILL)
    try:
        # A Spark driver notices by itself that its Python process has ended.
        process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture
def project(tmp_path, site):
    root = tmp_path / "project"
    root.mkdir()
    return Project(root, site, ASSETS)


@pytest.mark.parametrize(
    ("place", "table", "tables"),
    [("stream", "late", ("orders", "bad", "late")), ("check", "orders", ("orders", "late"))],
    ids=["during the write", "before the verdict"],
)
def test_s38_the_next_run_clears_what_a_killed_run_left(project, place, table, tables):
    project.pause(place)
    run = project.start("run", "-s", ",".join(project.site.name(name) for name in tables))
    await_(lambda: project.reached(place), run)
    assert len(project.branches(table)) == 1
    kill(run)
    project.go_on(place)
    [(killed, status)] = project.statuses().items()
    assert status is DagsterRunStatus.STARTED
    told = project.branches("bad")

    code, said, err = project.floe("run", "-s", ",".join(project.site.name(name) for name in ("orders", "late")))
    assert code == 0, (said, err)
    assert project.branches("orders") == project.branches("late") == []
    assert project.statuses()[killed] is DagsterRunStatus.FAILURE
    [dead] = said["data"]["cleared"]
    assert dead["run_id"] == killed
    assert project.site.name(table) in {name for name, _ in dead["branches"]}
    [line] = [line for line in err.splitlines() if killed[:8] in line]
    assert "was killed on this host" in line
    # Rows that its checks had held back were reported, and are kept for a decision.
    assert project.branches("bad") == told
    assert len(told) == tables.count("bad")


def test_s38_the_doctor_clears_it_as_well(project):
    project.pause("check")
    run = project.start("run", "-s", project.site.name("orders"))
    await_(lambda: project.reached("check"), run)
    kill(run)
    _, said, _ = project.floe("doctor")
    [found] = [check for check in said["data"] if check["name"] == "runs"]
    assert found["status"] == "ok"
    assert "was killed on this host" in found["detail"]
    assert project.branches("orders") == []
    assert set(project.statuses().values()) == {DagsterRunStatus.FAILURE}


def test_s38_a_run_that_lives_keeps_its_branches(project):
    project.pause("check")
    first = project.start("run", "-s", project.site.name("orders"))
    await_(lambda: project.reached("check"), first)
    [branch] = project.branches("orders")

    code, said, _ = project.floe("run", "-s", project.site.name("bad"))
    assert (code, said["data"]["cleared"]) == (1, [])
    project.floe("doctor")
    assert project.branches("orders") == [branch]

    project.go_on("check")
    out, err = first.communicate(timeout=240)
    assert first.returncode == 0, (out, err)
    assert project.branches("orders") == []
    assert project.site.open_manager().scan(project.site.name("orders")).num_rows == 3


@pytest.mark.live
@pytest.mark.timeout(600)
@pytest.mark.parametrize("site", ["embedded"], indirect=True)
def test_s38_a_killed_merge_on_spark_leaves_nothing(tmp_path, site):
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, site, SPARK_ASSETS)
    assert project.floe("run")[0] == 0
    project.pause("spark")
    run = project.start("run")
    await_(lambda: project.branches("orders"), run)
    kill(run)
    [left] = project.branches("orders")
    assert left.startswith("floe.operation.")
    project.go_on("spark")
    code, said, err = project.floe("run")
    assert code == 0, (said, err)
    assert [left] == [branch for dead in said["data"]["cleared"] for _, branch in dead["branches"]]
    assert project.branches("orders") == []
    assert site.open_manager().scan(site.name("orders")).num_rows == 8
