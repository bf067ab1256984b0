"""Traces, metrics, lineage and logs of a run, as received by a backend."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from textwrap import dedent
from threading import Event, Thread
from types import SimpleNamespace

import pytest

from floe_core.compile import compile_project
from floe_dagster.telemetry.observer import step_span_id
from floe_iceberg import IcebergTableManager
from floe_testing import warm_python
from floe_testing.telemetry.collector import Collector, TraceTree, whole_trace

PROJECT = """
    schema_version: 1
    name: shop
    orchestration: {module: watched_assets}
    observability:
      otlp_endpoint: "URL"
      service_name: shop
      log_level: INFO
      log_format: json
      openlineage: {url: "URL"}
"""
ASSETS = """
    import datetime as dt

    import dagster as dg
    import pyarrow as pa

    TABLE = dg.AssetOut(key_prefix="silver", metadata={"write_mode": "overwrite"})

    @dg.asset(
        key_prefix="bronze",
        partitions_def=dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-04"),
        backfill_policy=dg.BackfillPolicy.single_run(),
    )
    def days(context: dg.AssetExecutionContext) -> pa.Table:
        return pa.table({"day": [dt.date.fromisoformat(day) for day in context.partition_keys]})

    @dg.multi_asset(outs={"cheap": TABLE, "dear": TABLE})
    def split():
        yield dg.Output(pa.table({"id": [1]}), "cheap")
        yield dg.Output(pa.table({"id": [2, 3]}), "dear")

    @dg.asset(key_prefix="bronze", metadata={"write_mode": "overwrite"})
    def orders() -> pa.Table:
        return pa.table({"id": [1, 2, 3], "total": [10.0, 20.0, 30.0]})

    @dg.asset_check(asset=dg.AssetKey(["bronze", "orders"]), blocking=True)
    def three_rows(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=orders.num_rows == 3)

    @dg.asset(key_prefix="gold", metadata={"write_mode": "overwrite"}, ins={"orders": dg.AssetIn(["bronze", "orders"])})
    def revenue(orders: pa.Table) -> pa.Table:
        return pa.table({"revenue": [sum(orders["total"].to_pylist())]})

    @dg.asset(
        key_prefix="gold",
        metadata={"write_mode": "overwrite"},
        deps=[revenue],
        retry_policy=dg.RetryPolicy(max_retries=1),
    )
    def broken() -> pa.Table:
        raise ValueError("the source went away")
"""
GOOD = "bronze.orders,gold.revenue"


def lay_out(folder, url):
    (folder / "watched_assets.py").write_text(dedent(ASSETS))
    (folder / "floe.yaml").write_text(dedent(PROJECT).replace("URL", url))
    return folder


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """Run two assets that work, then one that fails, each in a process of its own."""
    folder = tmp_path_factory.mktemp("watched")
    environ = {key: value for key, value in os.environ.items() if key != "TRACEPARENT"}
    seen = {}
    for name, select in (("good", GOOD), ("bad", "gold.broken")):
        with Collector() as collector:
            lay_out(folder, collector.url)
            done = warm_python.run("-m", "floe_cli", "run", "--select", select, cwd=folder, env=environ)
        seen[name] = SimpleNamespace(
            code=done.returncode, log=done.stderr, collector=collector, tree=TraceTree(collector.spans)
        )
    return SimpleNamespace(folder=folder, **seen)


def snapshots(folder, *tables):
    with IcebergTableManager.from_artifacts(compile_project(folder)) as manager:
        return sorted((table, made.snapshot_id) for table in tables for made in manager.list_snapshots(table))


def ancestors(tree, span):
    return tree.path(span)[:-1]


@pytest.mark.req("FR-038")
def test_a_run_is_one_trace_with_one_root_and_no_orphan(watched):
    assert watched.good.code == 0, watched.good.log
    tree = whole_trace(watched.good.collector, root="floe.run")
    assert tree.roots[0].attributes["floe.project"] == "shop"
    assert [span.name for span in tree.spans if span.error is not None] == []


@pytest.mark.req("FR-038")
def test_every_asset_has_a_span_below_its_run_and_its_write_below_that(watched):
    tree = watched.good.tree
    assert {span.attributes["dagster.asset"] for span in tree.named("dagster.asset")} == {
        "bronze/orders",
        "gold/revenue",
    }
    assert all(tree.path(span) == ["floe.run", "dagster.run", "dagster.asset"] for span in tree.named("dagster.asset"))
    writes = tree.named("iceberg.overwrite")
    assert {span.attributes["iceberg.table"] for span in writes} >= {"bronze.orders", "gold.revenue"}
    for write in writes:
        assert ancestors(tree, write)[:2] == ["floe.run", "dagster.run"]
        assert tree.by_id[write.parent_id].name in {"dagster.asset", "dagster.step"}
    [run] = tree.named("dagster.run")
    assert {span.attributes["dagster.run_id"] for span in tree.named("dagster.asset")} == {
        run.attributes["dagster.run_id"]
    }


def test_the_span_of_a_step_can_be_ended_by_another_process(watched):
    tree = watched.good.tree
    for step in tree.named("dagster.asset", "dagster.step"):
        run = SimpleNamespace(run_id=step.attributes["dagster.run_id"])
        assert int(step.span_id, 16) == step_span_id(run, step.attributes["dagster.step"])
    tries = watched.bad.tree.named("dagster.asset")
    assert len({span.span_id for span in tries}) == len(tries) == 2


@pytest.mark.req("FR-038")
def test_every_commit_is_in_the_trace(watched):
    tree = watched.good.tree
    tables = {"bronze.orders", "floe_checks.results", "gold.revenue"}
    assert tree.commits == snapshots(watched.folder, *tables)
    assert {table for table, _ in tree.commits} == tables
    for commit in tree.named("iceberg.commit_table"):
        assert ancestors(tree, commit)[:2] == ["floe.run", "dagster.run"]


def test_metrics_tell_of_commits_rows_and_bytes(watched):
    collector = watched.good.collector
    assert sum(point.value for point in collector.points("floe.commit.duration")) == len(
        watched.good.tree.named("iceberg.commit_table")
    )
    rows = {point.attributes["table"]: point.value for point in collector.points("floe.rows.written")}
    assert (rows["bronze.orders"], rows["gold.revenue"]) == (3, 1)
    written = {point.attributes["table"]: point.value for point in collector.points("floe.bytes.written")}
    assert min(written["bronze.orders"], written["gold.revenue"]) > 0


def test_lineage_tells_what_each_asset_read_and_wrote(watched):
    events = watched.good.collector.lineage
    states = [(event["job"]["name"], event["eventType"]) for event in events]
    assert states == [
        ("shop", "START"),
        ("bronze/orders", "START"),
        ("bronze/orders", "COMPLETE"),
        ("gold/revenue", "START"),
        ("gold/revenue", "COMPLETE"),
        ("shop", "COMPLETE"),
    ]
    done = {event["job"]["name"]: event for event in events if event["eventType"] == "COMPLETE"}
    [orders] = done["bronze/orders"]["outputs"]
    assert (orders["namespace"], orders["name"]) == ("iceberg://floe", "bronze.orders")
    assert orders["outputFacets"]["outputStatistics"]["rowCount"] == 3
    assert [column["name"] for column in orders["facets"]["schema"]["fields"]] == ["id", "total"]
    assert [table["name"] for table in done["gold/revenue"]["inputs"]] == ["bronze.orders"]
    parents = {event["run"]["facets"]["parent"]["run"]["runId"] for event in events if event["job"]["name"] != "shop"}
    assert parents == {events[0]["run"]["runId"]}


@pytest.mark.req("FR-037")
def test_the_log_is_in_the_form_that_the_project_asks_for(watched):
    lines = [json.loads(line) for line in watched.good.log.splitlines() if line.startswith("{")]
    events = {line["event"] for line in lines}
    assert {"loading_table", "table_loaded", "iceberg.overwrite", "dagster.asset"} <= events
    [trace_id] = {span.trace_id for span in watched.good.tree.spans}
    assert {line["trace_id"] for line in lines if line["event"] == "iceberg.overwrite"} == {trace_id}


def test_a_failure_is_told_on_every_way(watched):
    bad = watched.bad
    assert bad.code != 0
    assert bad.tree.orphans == []
    [root], [run] = bad.tree.roots, bad.tree.named("dagster.run")
    assert root.error
    assert run.error
    assert ["the source went away" in asset.error for asset in bad.tree.named("dagster.asset")] == [True, True]
    events = {(event["job"]["name"], event["eventType"]): event for event in bad.collector.lineage}
    assert ("shop", "FAIL") in events
    told = events["gold/broken", "FAIL"]["run"]["facets"]["errorMessage"]["message"]
    assert "the source went away" in told


def test_each_try_of_an_asset_is_a_run_of_its_own_in_the_lineage(watched):
    tries = [event for event in watched.bad.collector.lineage if event["job"]["name"] == "gold/broken"]
    assert [event["eventType"] for event in tries] == ["START", "FAIL", "START", "FAIL"]
    first, failed, second, failed_again = (event["run"]["runId"] for event in tries)
    assert (first, second) == (failed, failed_again)
    assert first != second


@pytest.mark.parametrize(
    ("options", "figures", "outputs"),
    [
        (("bronze.days", "--all-partitions"), ("bronze.days", 3), [("bronze.days", 3)]),
        (("silver.cheap,silver.dear",), ("silver.cheap, silver.dear", 3), [("silver.cheap", 1), ("silver.dear", 2)]),
    ],
    ids=["a range of partitions", "several tables"],
)
def test_a_step_is_told_of_with_every_table_once(tmp_path, options, figures, outputs):
    with Collector() as collector:
        lay_out(tmp_path, collector.url)
        done = warm_python.run("-m", "floe_cli", "run", "--select", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    [step] = TraceTree(collector.spans).named("dagster.asset")
    assert (step.attributes["dagster.table"], step.attributes["dagster.num_rows"]) == figures
    [told] = [event for event in collector.lineage if event["eventType"] == "COMPLETE" and event["outputs"]]
    rows = [(table["name"], table["outputFacets"]["outputStatistics"]["rowCount"]) for table in told["outputs"]]
    assert rows == outputs


@pytest.mark.parametrize("level", ["WARNING", None])
def test_receivers_that_are_away_cost_a_run_one_warning_each_and_no_more(tmp_path, level):
    with Collector() as collector:
        url = collector.url
    lay_out(tmp_path, url)
    place = tmp_path / "floe.yaml"
    logs = "  log_level: INFO\n  log_format: json\n"
    place.write_text(place.read_text().replace(logs, f"  log_level: {level}\n" if level else ""))
    done = warm_python.run("-m", "floe_cli", "run", "--select", "bronze.orders", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert snapshots(tmp_path, "bronze.orders")
    if level:
        told = ("telemetry_not_sent", "lineage_not_sent")
    else:
        told = ("the receiver of observability.otlp_endpoint", "the receiver of observability.openlineage")
    assert [done.stderr.count(words) for words in told] == [1, 1], done.stderr
    assert len(done.stderr.splitlines()) == 4, done.stderr


class Awkward(BaseHTTPRequestHandler):
    """Answers with a redirection, or one byte at a time for as long as anybody listens."""

    trickles = False

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.trickles:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            with suppress(OSError):
                while not self.server.over.wait(0.2):
                    self.wfile.write(b"a")
            return
        self.send_response(307)
        self.send_header("Location", f"http://127.0.0.1:1{self.path}")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextmanager
def awkward(*, trickles):
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Awkward,), {"trickles": trickles}))
    server.over = Event()
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("trickles", "answer"), [(True, "none"), (False, "HTTP 307")], ids=["trickles", "redirects"])
def test_receivers_that_do_not_take_what_they_are_sent_are_given_up_and_told_of(tmp_path, trickles, answer):
    with awkward(trickles=trickles) as url:
        lay_out(tmp_path, url)
        done = warm_python.run("-m", "floe_cli", "run", "--select", "bronze.orders", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines() if "_not_sent" in line]
    assert {line["event"]: line.get("answer") for line in lines} == {
        "telemetry_not_sent": answer,
        "lineage_not_sent": None,
    }
    assert len(lines) == 2


EMBEDDING = """
    import sys
    from pathlib import Path

    import dagster as dg

    from floe_core.compile import compile_project
    from floe_dagster import create_definitions

    if __name__ == "__main__":
        names = [dg.AssetKey.from_user_string(name) for name in sys.argv[1:]]
        found = create_definitions(compile_project(Path.cwd()))
        chosen = [asset for asset in found.assets if asset.keys & set(names)]
        dg.materialize([*chosen, *found.asset_checks], resources=found.resources, raise_on_error=False)
        found.resolve_implicit_global_asset_job_def().execute_in_process(asset_selection=names, raise_on_error=False)
"""


@pytest.mark.parametrize(
    ("chosen", "state", "reason"),
    [
        (["bronze/orders", "gold/revenue"], "COMPLETE", None),
        (["bronze/orders", "gold/broken"], "FAIL", "Step 'gold__broken' failed"),
    ],
    ids=["success", "failure"],
)
def test_runs_in_a_program_of_the_users_own_are_one_trace_each(tmp_path, chosen, state, reason):
    (tmp_path / "embedding.py").write_text(dedent(EMBEDDING))
    environ = {key: value for key, value in os.environ.items() if key != "TRACEPARENT"}
    with Collector() as collector:
        lay_out(tmp_path, collector.url)
        done = warm_python.run("embedding.py", *chosen, cwd=tmp_path, env=environ)
    assert done.returncode == 0, done.stderr
    tree = TraceTree(collector.spans)
    assert [(span.name, span.error) for span in tree.roots] == [("dagster.run", reason)] * 2
    assert tree.orphans == []
    assert len({span.trace_id for span in tree.spans}) == 2
    for run in tree.roots:
        below = [span for span in tree.named("dagster.asset") if span.parent_id == run.span_id]
        assert {span.attributes["dagster.asset"] for span in below} == set(chosen)
    runs = [span.attributes["dagster.run_id"] for span in tree.roots]
    told = [(event["run"]["runId"], event["eventType"]) for event in collector.lineage]
    assert [event for event in told if event[0] in runs] == [(run, step) for run in runs for step in ("START", state)]
