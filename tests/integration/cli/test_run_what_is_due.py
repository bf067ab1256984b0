"""``floe run --missing``, ``--failed``, ``--all-partitions`` and ``--full-refresh``."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager

PROJECT = """\
name: shop
orchestration: {module: MODULE}
tables:
  silver.clean:
    checks:
      - {type: row_count, min: 1}
environments:
  other: {}
"""
ASSETS = """\
from pathlib import Path

import pyarrow as pa
from dagster import AssetIn, BackfillPolicy, DailyPartitionsDefinition, asset

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-07")
BAD = Path(__file__).parent / "bad-day"
TOTALS = Path(__file__).parent / "totals"


def bad_day():
    return BAD.read_text() if BAD.exists() else ""


@asset(key=["bronze", "raw"], partitions_def=DAYS, backfill_policy=BackfillPolicy.single_run())
def raw(context) -> pa.Table:
    days = context.partition_keys
    if bad_day() in days:
        raise ValueError("the source went away")
    return pa.table({"day": pa.array(days).cast(pa.date32()), "amount": [1] * len(days)})


@asset(key=["silver", "clean"], partitions_def=DAYS, ins={"raw": AssetIn(["bronze", "raw"])})
def clean(context, raw: pa.Table) -> pa.Table:
    return raw.slice(0, 0) if bad_day() == f"empty {context.partition_key}" else raw


@asset(key=["gold", "total"], ins={"clean": AssetIn(["silver", "clean"])}, metadata={"write_mode": "overwrite"})
def total(clean: pa.Table) -> pa.Table:
    with TOTALS.open("a") as file:
        file.write("x")
    return pa.table({"total": [clean.num_rows]})


@asset(key=["gold", "log"], metadata={"write_mode": "append"})
def log() -> pa.Table:
    return pa.table({"line": ["once"]})
"""


@pytest.fixture
def shop(lay_out):
    return lay_out(PROJECT, ASSETS)


@pytest.fixture
def run(shop):
    def ask(*arguments):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main([*arguments, "--project", str(shop), "--output", "json"])
        said = json.loads(out.getvalue())
        return code, said["data"] if "data" in said else said["error"]

    return ask


def days_of(shop, table):
    with IcebergTableManager.from_artifacts(compile_project(shop)) as tables:
        return sorted(str(day) for day in tables.scan(table)["day"].to_pylist())


def days(first, last):
    return [f"2026-01-{day:02}" for day in range(first, last + 1)]


def test_missing_partitions_are_written_and_what_depends_on_them_once(shop, run):
    assert run("run", "-s", "bronze.raw", "--partition-range", "2026-01-02...2026-01-03")[0] == 0
    code, said = run("run", "-s", "bronze.raw+", "--missing")
    assert code == 0
    assert said["partitions"] == days(1, 6)
    assert days_of(shop, "silver.clean") == days(1, 6)
    assert (shop / "totals").read_text() == "x"
    rows = {asset["table"]: asset["rows"] for asset in said["assets"]}
    assert rows == {"bronze.raw": 4, "silver.clean": 6, "gold.total": 1}


def test_nothing_is_done_when_nothing_is_missing(run):
    assert run("run", "-s", "bronze.raw+", "--all-partitions")[0] == 0
    code, said = run("run", "-s", "bronze.raw+", "--missing")
    assert (code, said["runs"], said["assets"]) == (0, [], [])


def test_a_failed_partition_is_written_again_and_only_that(shop, run):
    (shop / "bad-day").write_text("2026-01-03")
    for first, last in ((1, 2), (3, 3), (4, 4)):
        run("run", "-s", "bronze.raw", "--partition-range", f"2026-01-{first:02}...2026-01-{last:02}")
    assert days_of(shop, "bronze.raw") == [*days(1, 2), *days(4, 4)]
    (shop / "bad-day").unlink()
    code, said = run("run", "-s", "bronze.raw", "--failed")
    assert (code, said["partitions"]) == (0, days(3, 3))
    assert days_of(shop, "bronze.raw") == days(1, 4)
    assert run("run", "-s", "bronze.raw", "--failed")[1]["runs"] == []


def test_rows_that_were_held_back_are_missing_and_failed(shop, run):
    (shop / "bad-day").write_text("empty 2026-01-02")
    code, said = run("run", "-s", "bronze.raw,silver.clean", "--all-partitions")
    assert code == 1
    assert {asset["table"]: asset["state"] for asset in said["assets"]}["silver.clean"] == "held back"
    (shop / "bad-day").unlink()
    assert run("plan", "-s", "silver.clean", "--failed")[1]["partitions"] == days(2, 2)
    assert run("plan", "-s", "silver.clean", "--missing")[1]["partitions"] == days(2, 6)
    code, said = run("run", "-s", "bronze.raw,silver.clean", "--missing")
    assert (code, said["partitions"]) == (0, days(2, 6))
    assert days_of(shop, "silver.clean") == days(1, 6)


def test_missing_is_asked_within_a_range(run):
    run("run", "-s", "bronze.raw", "--partition", "2026-01-02")
    code, said = run("plan", "-s", "bronze.raw", "--missing", "--partition-range", "2026-01-01...2026-01-03")
    assert (code, said["partitions"]) == (0, ["2026-01-01", "2026-01-03"])


def test_a_full_refresh_replaces_what_an_asset_appends(shop, run):
    for _ in range(3):
        run("run", "-s", "gold.log")
    with IcebergTableManager.from_artifacts(compile_project(shop)) as tables:
        assert tables.scan("gold.log").num_rows == 3
        assert run("run", "-s", "gold.log", "--full-refresh")[0] == 0
        assert tables.scan("gold.log").num_rows == 1


def test_a_full_refresh_writes_every_partition(shop, run):
    code, said = run("run", "-s", "bronze.raw", "--full-refresh")
    assert (code, said["partitions"]) == (0, days(1, 6))
    code, said = run("run", "-s", "bronze.raw", "--full-refresh", "--partition", "2026-01-02")
    assert (code, said["partitions"]) == (0, days(2, 2))
    assert days_of(shop, "bronze.raw") == days(1, 6)


def test_an_asset_without_partitions_is_missing_until_it_was_written(run):
    assert [asset["table"] for asset in run("plan", "-s", "gold.log", "--missing")[1]["assets"]] == ["gold.log"]
    run("run", "-s", "gold.log")
    assert run("plan", "-s", "gold.log", "--missing")[1]["assets"] == []


def test_an_environment_has_a_history_of_its_own(run):
    run("run", "-s", "bronze.raw", "--all-partitions")
    code, said = run("plan", "-s", "bronze.raw", "--missing", "--env", "other")
    assert (code, said["partitions"]) == (0, days(1, 6))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--missing", "--failed"), "--missing, --failed and --all-partitions cannot be combined"),
        (
            ("--all-partitions", "--partition", "2026-01-01"),
            "--all-partitions cannot be combined with --partition or --partition-range",
        ),
    ],
)
def test_contradictions_are_refused(run, arguments, message):
    code, error = run("run", "-s", "bronze.raw", *arguments)
    assert code == 1
    assert message in error["message"]
