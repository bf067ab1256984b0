"""Runs with several processes have a single trace."""

from __future__ import annotations

import os
from itertools import pairwise
from textwrap import dedent

import pytest

from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager
from floe_testing import warm_python
from floe_testing.telemetry.collector import Collector, TraceTree, whole_trace

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

PROJECT = """
    schema_version: 1
    name: shop
    orchestration: {module: assets_of_processes}
    observability: {otlp_endpoint: "URL", openlineage: {url: "URL"}}
"""
ASSETS = """
    import datetime as dt
    import os
    import signal

    import dagster as dg
    import pyarrow as pa

    from floe_core.observing.observability import flush_observability
    from floe_iceberg import IcebergTableManager

    DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04")

    @dg.asset(key_prefix="bronze", partitions_def=DAYS)
    def raw(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [dt.date.fromisoformat(context.partition_key)]})

    @dg.asset(key_prefix="bronze", metadata={"write_mode": "overwrite"})
    def source() -> pa.Table:
        return pa.table({"id": [1]})

    nightly = dg.define_asset_job("nightly", selection=["bronze/source"])

    @dg.asset(key_prefix="bronze", metadata={"write_mode": "overwrite"})
    def lost(tables: dg.ResourceParam[IcebergTableManager]) -> pa.Table:
        tables.table_exists("bronze.lost")
        flush_observability()
        os.kill(os.getpid(), signal.SIGKILL)

    @dg.asset(key_prefix="bronze", metadata={"write_mode": "overwrite"}, retry_policy=dg.RetryPolicy(max_retries=2))
    def lost_again(context: dg.AssetExecutionContext) -> pa.Table:
        if context.retry_number == 0:
            raise ValueError("the source went away")
        # At once: what the process had to tell of its beginning dies with it.
        os.kill(os.getpid(), signal.SIGKILL)

    @dg.asset(key_prefix="silver", metadata={"write_mode": "overwrite"})
    def orders() -> pa.Table:
        return pa.table({"id": [1, 2]})

    @dg.asset_check(asset=dg.AssetKey(["silver", "orders"]), blocking=True)
    def two_rows(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=orders.num_rows == 2)

    # Its resource connects before the step begins.
    @dg.asset(key_prefix="gold", metadata={"write_mode": "overwrite"}, deps=[orders])
    def total(tables: dg.ResourceParam[IcebergTableManager]) -> pa.Table:
        return pa.table({"orders": [tables.scan("silver.orders").num_rows]})
"""
PROGRAM = """
    import sys
    from contextlib import nullcontext

    import floe_cli.commands.spark
    from floe_cli.app import main

    if __name__ == "__main__":
        # Several processes share one Spark, and these assets need none.
        floe_cli.commands.spark.shared_spark = lambda workspace: nullcontext()
        sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def collector():
    with Collector() as collector:
        yield collector


@pytest.fixture
def folder(tmp_path, collector):
    (tmp_path / "assets_of_processes.py").write_text(dedent(ASSETS))
    (tmp_path / "floe.yaml").write_text(dedent(PROJECT).replace("URL", collector.url))
    (tmp_path / "program.py").write_text(dedent(PROGRAM))
    return tmp_path


@pytest.fixture
def environ(folder):
    taken = {"TRACEPARENT", "FLOE_ENV", "FLOE_PER_TENANT"}
    return {key: value for key, value in os.environ.items() if key not in taken} | {"FLOE_PROJECT": str(folder)}


def snapshots(folder):
    """Return every snapshot that the project's tables have, as the trace names them."""
    with IcebergTableManager.from_artifacts(compile_project(folder)) as manager:
        tables = [
            ".".join(name) for layer in manager.catalog.list_namespaces() for name in manager.catalog.list_tables(layer)
        ]
        return sorted((table, made.snapshot_id) for table in tables for made in manager.list_snapshots(table))


def test_steps_of_a_run_with_processes_of_their_own_are_one_trace(folder, collector, environ):
    chosen = ("run", "--select", "silver.orders,gold.total", "--processes", "2", "--verbose")
    done = warm_python.run(str(folder / "program.py"), *chosen, cwd=folder, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("iceberg.overwrite") == 2
    tree = whole_trace(collector, root="floe.run")
    assert tree.assets == [("gold/total", None), ("silver/orders", None)]
    assert tree.commits == snapshots(folder)
    assert {table for table, _ in tree.commits} == {"silver.orders", "gold.total", "floe_checks.results"}
    [run] = tree.named("dagster.run")
    steps = tree.named("dagster.asset", "dagster.step")
    assert {step.parent_id for step in steps} == {run.span_id}
    # Two assets, and the gate between them.
    assert len({step.process for step in steps}) == 3
    assert run.process not in {step.process for step in steps}
    rows = {point.attributes["table"]: point.value for point in collector.points("floe.rows.written")}
    assert rows == {"silver.orders": 2, "gold.total": 1, "floe_checks.results": 1}
    states = sorted((event["job"]["name"], event["eventType"]) for event in collector.lineage)
    assert states == [
        (job, state) for job in ("gold/total", "shop", "silver/orders") for state in ("COMPLETE", "START")
    ]


def test_a_step_whose_process_is_killed_is_still_told_to_its_end(folder, collector, environ):
    chosen = ("run", "--select", "bronze.lost", "--processes", "2")
    done = warm_python.run(str(folder / "program.py"), *chosen, cwd=folder, env=environ)
    assert done.returncode != 0
    assert "it was killed" in done.stdout
    tree = whole_trace(collector, root="floe.run")
    [step], [run] = tree.named("dagster.asset"), tree.named("dagster.run")
    assert step.attributes["dagster.asset"] == "bronze/lost"
    assert "it was killed" in step.error
    assert run.error
    [looked] = tree.named("iceberg.table_exists")
    assert (looked.parent_id, looked.process == run.process) == (step.span_id, False)
    assert looked.end < step.end
    told = [(event["job"]["name"], event["eventType"], event["run"]["runId"]) for event in collector.lineage]
    assert [state for _, state, _ in told] == ["START", "START", "FAIL", "FAIL"]
    assert [job for job, _, _ in told] == ["shop", "bronze/lost", "bronze/lost", "shop"]
    assert told[1][2] == told[2][2]


def test_tries_whose_processes_are_killed_are_told_to_their_end(folder, collector, environ):
    chosen = ("run", "--select", "bronze.lost_again", "--processes", "2")
    done = warm_python.run(str(folder / "program.py"), *chosen, cwd=folder, env=environ)
    assert done.returncode != 0
    tree = whole_trace(collector, root="floe.run")
    [run] = tree.named("dagster.run")
    assert run.error == "Step 'bronze__lost_again' failed"
    tries = sorted(tree.named("dagster.asset"), key=lambda span: span.start)
    reasons = ("the source went away", "it was killed", "it was killed")
    assert [reason in step.error for step, reason in zip(tries, reasons, strict=True)] == [True, True, True]
    assert all(before.end < after.start < after.end for before, after in pairwise(tries))
    told = [(event["eventType"], event["run"]["runId"]) for event in collector.lineage][1:-1]
    assert [state for state, _ in told] == ["START", "FAIL"] * 3
    ids = [run_id for _, run_id in told]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 3


def test_partitions_that_run_beside_each_other_are_one_trace(folder, collector, environ):
    chosen = ("run", "--select", "bronze.raw", "--all-partitions", "--processes", "2")
    done = warm_python.run(str(folder / "program.py"), *chosen, cwd=folder, env=environ)
    assert done.returncode == 0, done.stdout + done.stderr
    tree = whole_trace(collector, root="floe.run")
    assert tree.assets == [("bronze/raw", f"2026-01-0{day}") for day in (1, 2, 3)]
    assert tree.commits == snapshots(folder)
    assert len(tree.commits) >= 3
    assert {tuple(tree.path(span)) for span in tree.named("dagster.asset")} == {
        ("floe.run", "dagster.run", "dagster.asset")
    }
    assert tree.roots[0].process not in {span.process for span in tree.named("dagster.run")}


@pytest.mark.parametrize(
    "command",
    [("asset", "materialize", "--select", "key:bronze/source"), ("job", "execute", "-j", "nightly")],
    ids=["asset", "job"],
)
def test_a_run_that_dagster_itself_executes_is_one_trace(folder, collector, environ, command):
    home = folder / "home"
    home.mkdir()
    chosen = (*command, "-m", "floe_dagster.code_location")
    done = warm_python.run("-m", "dagster", *chosen, cwd=folder, env=environ | {"DAGSTER_HOME": str(home)})
    assert done.returncode == 0, done.stdout + done.stderr
    tree = whole_trace(collector, root="dagster.run")
    assert tree.assets == [("bronze/source", None)]
    assert tree.commits == snapshots(folder)
    assert {table for table, _ in tree.commits} == {"bronze.source"}
    [asset] = tree.named("dagster.asset")
    assert asset.process != tree.roots[0].process
    runs = [event["eventType"] for event in collector.lineage if "parent" not in event["run"]["facets"]]
    assert runs == ["START", "COMPLETE"]


def test_a_run_joins_the_trace_of_whoever_started_it(folder, collector, environ):
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    chosen = ("run", "--select", "bronze.source")
    done = warm_python.run("-m", "floe_cli", *chosen, cwd=folder, env=environ | {"TRACEPARENT": parent})
    assert done.returncode == 0, done.stdout + done.stderr
    assert {span.trace_id for span in collector.spans} == {parent.split("-")[1]}
    tree = TraceTree(collector.spans)
    [run] = tree.named("floe.run")
    assert run.parent_id == parent.split("-")[2]
    assert tree.orphans == [run]
