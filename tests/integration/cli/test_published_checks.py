"""``floe test``: checks on published data, and the table of their results."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest

from floe_cli.app import main
from floe_core.errors import CatalogUnavailableError
from floe_dagster.gate.results import CheckResults
from floe_iceberg import IcebergTableManager

GONE = CatalogUnavailableError("The catalog is not there.")
PROJECT = """\
name: shop
orchestration: {module: MODULE}
tables:
  gold.orders:
    checks:
      - {type: row_count, min: 1}
      - {type: row_count, max: 2, severity: warn, name: few}
      - {type: row_count_change, min_ratio: 0.5}
      - {type: freshness, max_age: 1h}
  gold.daily:
    checks:
      - {type: row_count, min: 1}
      - {type: row_count, min: 1, scope: table, name: any}
  gold.later:
    checks:
      - {type: row_count, min: 1}
"""
ASSETS = """\
from pathlib import Path

import pyarrow as pa
from dagster import (
    AssetCheckResult, AssetCheckSpec, AssetKey, AssetSpec, DailyPartitionsDefinition, asset, asset_check,
)

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-05")
OVERWRITE = {"write_mode": "overwrite"}
COUNT = Path(__file__).with_name("count.txt")
BROKEN = Path(__file__).with_name("broken.txt")
source = AssetSpec(["raw", "source"])


@asset(key=["gold", "orders"], metadata=OVERWRITE)
def orders() -> pa.Table:
    count = int(COUNT.read_text()) if COUNT.exists() else 3
    return pa.table({"id": pa.array(range(count), pa.int64())})


@asset_check(asset=AssetKey(["gold", "orders"]), blocking=True, description="ids are small")
def small(orders: pa.Table) -> AssetCheckResult:
    if BROKEN.exists():
        raise ValueError("the check itself is broken")
    return AssetCheckResult(passed=True, metadata={"seen": orders.num_rows})


@asset_check(asset=AssetKey(["raw", "source"]))
def of_source(source: pa.Table) -> AssetCheckResult:
    return AssetCheckResult(passed=source.num_rows == 1)


@asset(key=["gold", "plain"], metadata=OVERWRITE)
def plain() -> pa.Table:
    return pa.table({"id": [1]})


@asset(key=["gold", "own"], metadata=OVERWRITE, check_specs=[AssetCheckSpec("inside", asset=["gold", "own"])])
def own():
    from dagster import Output
    yield Output(pa.table({"id": [1]}))
    yield AssetCheckResult(check_name="inside", passed=True)


@asset(key=["gold", "daily"], partitions_def=DAYS)
def daily(context) -> pa.Table:
    return pa.table({"day": pa.array([context.partition_key]).cast(pa.date32())})


@asset_check(asset=AssetKey(["gold", "daily"]), blocking=True)
def one_day(daily: pa.Table) -> AssetCheckResult:
    return AssetCheckResult(passed=daily.num_rows == 1, metadata={"days": daily.num_rows})


@asset(key=["gold", "later"], metadata=OVERWRITE)
def later() -> pa.Table:
    return pa.table({"id": [1]})
"""


@pytest.fixture
def project(lay_out):
    return lay_out(PROJECT, ASSETS)


@pytest.fixture
def floe(project):
    """Run a command on the project."""

    def call(*arguments, output="json"):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--project", str(project), "--output", output])
        if output == "text":
            return code, out.getvalue()
        document = json.loads(out.getvalue())
        return code, document.get("data", document.get("error"))

    return call


@pytest.fixture
def tables(project, floe):
    """Give the project's tables, after a run of the orders."""
    code, data = floe("run", "-s", "gold.orders")
    assert code == 0, data
    from floe_core.compile import compile_project

    with IcebergTableManager.from_artifacts(compile_project(project)) as manager:
        yield manager


def states(data):
    return {(check["table"], check["check"]): check["state"] for check in data["checks"]}


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch):
    """Nothing here needs Spark, so that nothing may start it."""
    monkeypatch.setattr("floe_spark.session.sessions.open_engine", lambda *_: pytest.fail("Spark was started"))
    monkeypatch.setattr("floe_spark.plane.plane.open_engine", lambda *_: pytest.fail("Spark was started"))


def test_declared_and_own_checks_look_at_what_is_published(floe, tables):
    before = tables.get_current_snapshot("gold.orders")
    code, data = floe("test", "-s", "gold.orders")
    assert code == 0
    assert states(data) == {
        ("gold.orders", "row_count"): "passed",
        ("gold.orders", "few"): "warned",
        ("gold.orders", "row_count_change"): "passed",
        ("gold.orders", "freshness"): "passed",
        ("gold.orders", "small"): "passed",
    }
    found = {check["check"]: check for check in data["checks"]}
    assert found["few"]["figures"] == {"num_rows": 3}
    assert (found["few"]["severity"], found["few"]["blocking"], found["few"]["passed"]) == ("warn", False, False)
    assert found["row_count_change"]["figures"]["note"].startswith("no previous rows")
    assert found["small"]["figures"] == {"seen": 3}
    assert found["small"]["blocking"]
    assert found["small"]["snapshot_id"] == str(before.snapshot_id)
    assert tables.get_current_snapshot("gold.orders") == before
    code, text = floe("test", "-s", "gold.orders", output="text")
    assert code == 0
    assert "gold.orders: check 'few' warned (severity warn); expected: the row count is at most 2" in text
    assert "5 checks of 1 table: 4 passed, 1 warned." in text


def test_a_failed_check_of_severity_error_ends_with_one(floe, tables):
    tables.append("gold.orders", pa.table({"id": pa.array([9], pa.int64())}))
    tables.overwrite("gold.orders", pa.table({"id": pa.array([], pa.int64())}))
    code, data = floe("test", "-s", "gold.orders")
    assert code == 1
    assert not data["success"]
    found = states(data)
    assert found["gold.orders", "row_count"] == "failed"
    assert found["gold.orders", "row_count_change"] == "failed"
    [change] = [check for check in data["checks"] if check["check"] == "row_count_change"]
    assert change["figures"] == {"num_rows": 0, "rows_before": 4, "ratio": 0.0}


def test_what_cannot_be_checked_is_shown_as_what_it_is(floe, tables):
    for selected in ("gold.plain", "gold.own"):
        assert floe("run", "-s", selected)[0] == 0
    code, data = floe("test")
    assert code == 0
    found = {table["table"]: table["state"] for table in data["tables"]}
    assert found == {
        "raw.source": "does not exist yet",
        "gold.orders": "checked",
        "gold.plain": "no checks",
        "gold.own": "checked",
        "gold.daily": "does not exist yet",
        "gold.later": "does not exist yet",
    }
    assert states(data)["gold.own", "inside"] == "not evaluated"
    assert states(data)["gold.later", "row_count"] == "not evaluated"
    tables.create_namespace("raw")
    tables.create_table("raw.source", pa.schema([("id", pa.int64())]))
    code, data = floe("test", "-s", "raw.*")
    assert (code, states(data)) == (1, {("raw.source", "of_source"): "failed"})
    code, text = floe("test", output="text")
    assert code == 1
    assert "gold.plain" in text
    assert "gold.later: check 'row_count' not evaluated; The table does not exist yet." in text


def test_a_check_that_raises_is_the_users_to_mend(floe, tables, project):
    (project / "broken.txt").touch()
    code, data = floe("test", "-s", "gold.orders")
    assert code == 1
    [broken] = [check for check in data["checks"] if check["state"] == "error"]
    assert (broken["check"], broken["error"]) == ("small", "ValueError")
    [line] = [n for n, text in enumerate(ASSETS.splitlines(), 1) if "raise ValueError" in text]
    assert broken["reason"].startswith("ValueError: the check itself is broken (assets_of_")
    assert broken["reason"].endswith(f".py, line {line})")
    assert states(data)["gold.orders", "row_count"] == "passed"


def test_a_system_that_fails_ends_with_two(floe, tables, monkeypatch):
    monkeypatch.setattr("floe_dagster.gate.checker.evaluate", Mock(side_effect=GONE))
    code, data = floe("test", "-s", "gold.orders", "--no-keep")
    assert code == 2
    assert {check["error"] for check in data["checks"] if check["state"] == "error"} == {"CatalogUnavailableError"}


def test_a_broken_table_spoils_its_own_checks_only(floe, tables, project):
    assert floe("run", "-s", "gold.later")[0] == 0
    Path(tables.load_table("gold.later").metadata_location.removeprefix("file://")).unlink()
    code, data = floe("test", "-s", "gold.orders,gold.later", "--no-keep")
    assert code == 2
    assert states(data)["gold.later", "row_count"] == "error"
    assert states(data)["gold.orders", "row_count"] == "passed"


def test_a_branch_or_a_tag_is_checked_as_it_is(floe, tables):
    tables.create_branch("gold.orders", "audit.x")
    tables.overwrite("gold.orders", pa.table({"id": pa.array([1], pa.int64())}), branch="audit.x")
    tables.create_tag("gold.orders", "v1")
    tables.overwrite("gold.orders", pa.table({"id": pa.array([1, 2], pa.int64())}))

    def figures(*options):
        code, data = floe("test", "-s", "gold.orders", *options)
        found = {check["check"]: check["figures"] for check in data["checks"]}
        return code, found["row_count"]["num_rows"], found["row_count_change"]["rows_before"], found["small"]["seen"]

    assert figures() == (0, 2, 3, 2)
    assert figures("--ref", "audit.x") == (0, 1, 2, 1)
    assert figures("--ref", "v1") == (0, 3, 0, 3)
    code, error = floe("test", "--ref", "v2")
    assert (code, error["type"]) == (1, "RefNotFoundError")


def test_a_partition_is_looked_at_alone(floe, tables):
    for day in ("2026-01-01", "2026-01-02"):
        tables.create_namespace("gold")
        rows = pa.table({"day": pa.array([day]).cast(pa.date32())})
        tables.create_table_if_not_exists("gold.daily", rows.schema)
        tables.append("gold.daily", rows)
    code, data = floe("test", "-s", "gold.daily", "--no-keep")
    assert code == 1
    assert states(data) == {
        ("gold.daily", "row_count"): "not evaluated",
        ("gold.daily", "any"): "passed",
        ("gold.daily", "one_day"): "failed",
    }
    [own] = [check for check in data["checks"] if check["check"] == "one_day"]
    assert own["figures"] == {"days": 2}
    code, error = floe("test", "-s", "gold.daily", "--partition", "2027-01-01")
    assert (code, error["type"]) == (1, "ConfigurationError")
    code, error = floe("test", "-s", "gold.orders", "--partition", "2026-01-01")
    assert (code, error["type"]) == (1, "ConfigurationError")


COLUMNS = ["kind", "table_name", "asset", "check_name", "severity", "blocking", "passed", "state", "ref"]


def test_results_of_runs_and_tests_are_kept_as_a_table(floe, tables):
    kept = tables.scan("floe_checks.results")
    assert kept.num_rows == 5
    assert set(kept["kind"].to_pylist()) == {"run"}
    assert len(tables.list_snapshots("floe_checks.results")) == 1
    [few] = [row for row in kept.to_pylist() if row["check_name"] == "few"]
    snapshot = tables.get_current_snapshot("gold.orders").snapshot_id
    assert [few[name] for name in COLUMNS] == [
        "run",
        "gold.orders",
        "gold/orders",
        "few",
        "warn",
        False,
        False,
        "warned",
        "main",
    ]
    assert (few["snapshot_id"], few["environment"], few["partition_key"]) == (snapshot, None, None)
    assert json.loads(few["figures"]) == {"num_rows": 3}
    assert few["checked_at"].tzinfo is not None
    _, data = floe("test", "-s", "gold.orders,gold.plain,gold.later")
    assert data["results"] == "floe_checks.results"
    kept = tables.scan("floe_checks.results", row_filter="kind = 'test'").to_pylist()
    assert {(row["run_id"], row["table_name"]) for row in kept} == {
        (data["id"], "gold.orders"),
        (data["id"], "gold.later"),
    }
    assert {row["passed"] for row in kept if row["table_name"] == "gold.later"} == {None}
    assert len(tables.list_snapshots("floe_checks.results")) == 2
    assert floe("test", "-s", "gold.orders", "--no-keep")[1]["results"] is None
    assert len(tables.list_snapshots("floe_checks.results")) == 2
    assert floe("validate")[0] == 0
    assert floe("plan", "-s", "gold.orders")[0] == 0


def test_a_write_that_is_held_back_is_kept_with_its_branch(floe, tables, project):
    (project / "count.txt").write_text("0")
    code, data = floe("run", "-s", "gold.orders")
    assert code == 1
    [asset] = data["assets"]
    rows = tables.scan("floe_checks.results").to_pylist()
    held = {row["check_name"]: row for row in rows if row["ref"] == asset["branch"]}
    assert held["row_count"]["state"] == "failed"
    assert (
        held["row_count"]["snapshot_id"] == tables.load_table("gold.orders").metadata.refs[asset["branch"]].snapshot_id
    )


def test_a_step_that_is_run_again_keeps_its_results_once(floe, tables, monkeypatch):
    kept = []
    original = CheckResults.keep

    def twice(self, records, **options):
        original(self, records, **options)
        original(self, records, **options)
        kept.append(options["operation_id"])

    monkeypatch.setattr(CheckResults, "keep", twice)
    assert floe("run", "-s", "gold.orders")[0] == 0
    assert len(kept) == 1
    assert tables.scan("floe_checks.results").num_rows == 10


def test_results_that_cannot_be_kept_are_told_and_hold_nothing_back(floe, tables, monkeypatch):
    monkeypatch.setattr(CheckResults, "keep", Mock(side_effect=GONE))
    code, data = floe("run", "-s", "gold.orders")
    assert (code, data["assets"][0]["state"]) == (0, "published")
    assert data["assets"][0]["results_not_kept"] == "The catalog is not there."
    code, text = floe("run", "-s", "gold.orders", output="text")
    assert code == 0
    assert "gold.orders: check results were not stored: The catalog is not there." in text
    code, data = floe("test", "-s", "gold.orders")
    assert (code, data["results"], data["results_not_kept"]) == (0, None, "The catalog is not there.")


def test_the_table_of_results_can_be_named_or_turned_off(floe, tables, project):
    text = (project / "floe.yaml").read_text()
    (project / "floe.yaml").write_text(text.replace("module:", "check_results: {table: ops.checks}, module:"))
    assert floe("test", "-s", "gold.orders")[1]["results"] == "ops.checks"
    assert tables.scan("ops.checks").num_rows == 5
    (project / "floe.yaml").write_text(text.replace("module:", "check_results: {enabled: false}, module:"))
    assert floe("test", "-s", "gold.orders")[1]["results"] is None
    assert floe("run", "-s", "gold.orders")[0] == 0
    assert tables.scan("floe_checks.results").num_rows == 5


def test_checks_of_a_project_without_assets_are_run_as_well(lay_out, tmp_path):
    project = lay_out("name: shop\ntables: {bronze.a: {checks: [{type: row_count, min: 1}]}, bronze.b: }\n", "")

    def call(*arguments):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main(["test", *arguments, "--project", str(project), "-o", "json"])
        document = json.loads(out.getvalue())
        return code, document.get("data", document.get("error"))

    code, data = call()
    assert (code, [table["state"] for table in data["tables"]]) == (0, ["does not exist yet", "no checks"])
    from floe_core.compile import compile_project

    with IcebergTableManager.from_artifacts(compile_project(project)) as manager:
        manager.create_namespace("bronze")
        manager.create_table("bronze.a", pa.schema([("id", pa.int64())]))
    code, data = call("-s", "bronze.a")
    assert (code, states(data)) == (1, {("bronze.a", "row_count"): "failed"})
    code, error = call("-s", "bronze.c")
    assert (code, error["type"]) == (1, "ConfigurationError")
