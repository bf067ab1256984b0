"""``floe run``, ``plan``, ``publish`` and ``discard`` on a small project without Spark."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pyarrow as pa
import pytest

from floe_cli.app import main
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager
from floe_iceberg.models import WriteMode
from floe_iceberg.staging.staged import StagedMark, list_staged, open_staged

PROJECT = """\
name: shop
orchestration: {module: MODULE}
"""
ASSETS = """\
import pyarrow as pa
from dagster import AssetIn, BackfillPolicy, DailyPartitionsDefinition, asset

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-11")


@asset(key=["bronze", "orders"], partitions_def=DAYS, backfill_policy=BackfillPolicy.single_run())
def orders(context) -> pa.Table:
    days = context.partition_keys
    return pa.table({"day": pa.array(days).cast(pa.date32()), "total": [10 * n for n, _ in enumerate(days, 1)]})


@asset(key=["bronze", "visits"], partitions_def=DAYS)
def visits(context) -> pa.Table:
    return pa.table({"day": pa.array([context.partition_key]).cast(pa.date32()), "count": [1]})


@asset(key=["gold", "revenue"], ins={"orders": AssetIn(["bronze", "orders"])}, metadata={"write_mode": "overwrite"})
def revenue(orders: pa.Table) -> pa.Table:
    return pa.table({"revenue": [sum(orders["total"].to_pylist())]})


@asset(key=["gold", "broken"], metadata={"write_mode": "overwrite"})
def broken() -> pa.Table:
    raise ValueError("the source went away")


@asset(key=["gold", "after"], ins={"broken": AssetIn(["gold", "broken"])}, metadata={"write_mode": "overwrite"})
def after(broken: pa.Table) -> pa.Table:
    return broken


@asset(key=["gold", "empty"])
def empty() -> None:
    return None
"""


@pytest.fixture
def shop(lay_out):
    return lay_out(PROJECT, ASSETS)


@pytest.fixture
def floe(shop):
    def run(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--project", str(shop)])
        return code, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def answer(floe):
    def run(*arguments):
        code, out, err = floe(*arguments, "--output", "json")
        assert out, err
        return code, json.loads(out)

    return run


def tables_of(shop):
    return IcebergTableManager.from_artifacts(compile_project(shop))


@pytest.mark.req("FR-024", "FR-026", "FR-027")
def test_a_range_of_partitions_is_written_at_once_and_figures_follow(shop, answer):
    code, said = answer("run", "-s", "bronze.orders+", "--partition-range", "2026-01-02...2026-01-04")
    assert code == 0
    assert said["data"]["partitions"] == ["2026-01-02", "2026-01-03", "2026-01-04"]
    assert [(asset["table"], asset["state"], asset["rows"]) for asset in said["data"]["assets"]] == [
        ("bronze.orders", "written", 3),
        ("gold.revenue", "written", 1),
    ]
    with tables_of(shop) as tables:
        assert tables.scan("gold.revenue").to_pylist() == [{"revenue": 60}]
        assert len([info for info in tables.list_snapshots("bronze.orders") if info.summary.get("added-records")]) == 1


def test_a_range_over_assets_that_take_one_partition_a_run_is_one_run_each(shop, answer):
    code, said = answer("run", "-s", "bronze.visits", "--partition-range", "2026-01-01...2026-01-03")
    assert code == 0
    assert len(said["data"]["runs"]) == 3
    with tables_of(shop) as tables:
        assert tables.scan("bronze.visits").num_rows == 3


def test_a_failing_asset_ends_the_run_with_its_reason_and_skips_what_depends_on_it(floe):
    code, out, err = floe("run", "-s", "gold.broken+")
    assert code == 1
    assert "gold.broken failed: ValueError: the source went away" in out
    assert "0 of 2 tables written" in out
    assert "gold.after: not run" in err


def test_an_asset_that_returns_nothing_is_no_failure(answer):
    code, said = answer("run", "-s", "gold.empty")
    assert (code, said["data"]["assets"][0]["state"]) == (0, "nothing written")


def test_runs_are_remembered_in_the_project_without_calling_home(shop, answer):
    from floe_dagster.runs.home import open_instance

    _, said = answer("run", "-s", "gold.empty")
    assert "enabled: false" in (shop / ".floe/dagster/dagster.yaml").read_text()
    with open_instance(compile_project(shop)) as instance:
        assert [run.run_id for run in instance.get_runs()] == said["data"]["runs"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("-s", "gold.revenu"), "No asset matches 'gold.revenu'.", "Did you mean 'gold.revenue'?"),
        (("-s", "nothing.like.it"), "No asset matches", "Assets: "),
        (("-s", "bronze.orders"), "but no partition is given", "Partitions: 2026-01-01 to 2026-01-10."),
        (
            ("-s", "gold.revenue", "--partition", "2026-01-01"),
            "None of the selected assets has partitions",
            "Remove --partition",
        ),
        (("-s", "bronze.orders", "--partition", "2026-02-01"), "Partition '2026-02-01' does not exist", "Partitions: "),
        (
            ("-s", "bronze.orders", "--partition-range", "2026-01-01"),
            "is not a valid partition range",
            "Use FIRST...LAST",
        ),
        (
            ("-s", "bronze.orders", "--partition-range", "2026-01-05...2026-01-01"),
            "contains no partitions",
            "Pass the earlier partition first",
        ),
    ],
    ids=["mistyped", "unknown", "partition missing", "no partitions", "unknown partition", "no range", "backwards"],
)
def test_what_cannot_be_run_is_refused_with_the_way_out(answer, arguments, message, hint):
    code, said = answer("run", *arguments)
    assert code == 1
    assert message in said["error"]["message"]
    assert hint in said["error"]["hint"]


def test_a_project_without_assets_says_where_to_name_them(tmp_path):
    (tmp_path / "floe.yaml").write_text("name: shop\n")
    out = io.StringIO()
    with redirect_stdout(out):
        code = main(["run", "--project", str(tmp_path), "--output", "json"])
    assert code == 1
    assert "orchestration.module" in json.loads(out.getvalue())["error"]["hint"]


def test_a_plan_changes_nothing_and_tells_reads_writes_and_what_is_there(shop, answer):
    answer("run", "-s", "bronze.orders", "--partition", "2026-01-01")
    code, said = answer("plan", "-s", "bronze.orders+", "--partition-range", "2026-01-01...2026-01-02")
    assert code == 0
    orders, revenue = said["data"]["assets"]
    assert (orders["effect"], orders["exists"], orders["rows"]) == ("replace 2 partitions", True, 1)
    assert (revenue["effect"], revenue["exists"], revenue["reads"]) == ("replace all rows", False, ["bronze.orders"])
    with tables_of(shop) as tables:
        assert not tables.table_exists("gold.revenue")
        assert tables.scan("bronze.orders").num_rows == 1


@pytest.fixture
def held(shop):
    """Leave a write waiting on a branch, as failed checks do."""
    branch = "audit.gold_sales.0123abcd"
    with tables_of(shop) as tables:
        tables.create_namespace("gold")
        tables.create_table("gold.sales", pa.schema([("total", pa.int64())]))
        tables.append("gold.sales", pa.table({"total": [1]}))
        open_staged(tables, "gold.sales", branch)
        mark = StagedMark(branch, WriteMode.APPEND)
        data = pa.table({"total": [2, 3]})
        tables.append("gold.sales", data, branch=branch, operation_id="op", snapshot_properties=mark.properties())
    return branch


def totals(shop):
    with tables_of(shop) as tables:
        waiting = [write.branch for write in list_staged(tables, "gold.sales")]
        return sorted(tables.scan("gold.sales")["total"].to_pylist()), waiting


def test_waiting_rows_are_listed(held, answer):
    code, said = answer("publish")
    assert code == 0
    assert [(write["table"], write["branch"]) for write in said["data"]] == [("gold.sales", held)]


def test_waiting_rows_are_let_through(shop, held, floe):
    code, out, _ = floe("publish", "gold.sales", "--yes")
    assert code == 0
    assert out.startswith(f"Published {held}: gold.sales is now at snapshot ")
    assert totals(shop) == ([1, 2, 3], [])


def test_waiting_rows_are_thrown_away(shop, held, floe):
    code, _, _ = floe("discard", "gold.sales", held, "--yes")
    assert code == 0
    assert totals(shop) == ([1], [])


def test_a_dry_run_throws_nothing_away(shop, held, floe):
    code, out, _ = floe("discard", "gold.sales", "--dry-run")
    assert (code, out) == (0, f"Would discard the rows on {held}; nothing was changed.\n")
    assert totals(shop) == ([1], [held])


def test_nothing_is_thrown_away_unasked(shop, held, answer, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, said = answer("discard", "gold.sales")
    assert (code, said["error"]["hint"]) == (1, "Preview with --dry-run, then run again with --yes.")
    assert totals(shop) == ([1], [held])


def test_a_branch_that_does_not_wait_is_refused_with_those_that_do(held, answer):
    code, said = answer("publish", "gold.sales", "audit.other")
    assert code == 1
    assert held in said["error"]["hint"]
