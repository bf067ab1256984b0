"""Reports of ``floe run`` on failed checks, and on assets that return nothing."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main

ASSETS = """\
import pyarrow as pa
from dagster import AssetCheckResult, AssetCheckSeverity, AssetKey, DailyPartitionsDefinition, asset, asset_check

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-05")
OVERWRITE = {"write_mode": "overwrite"}


@asset(key=["gold", "warned"], metadata=OVERWRITE)
def warned() -> pa.Table:
    return pa.table({"id": [1, 2]})


@asset_check(asset=AssetKey(["gold", "warned"]), blocking=True)
def positive(warned: pa.Table) -> AssetCheckResult:
    return AssetCheckResult(passed=True)


@asset_check(asset=AssetKey(["gold", "warned"]), blocking=True, description="at least three rows")
def enough(warned: pa.Table) -> AssetCheckResult:
    few = {"num_rows": warned.num_rows}
    return AssetCheckResult(passed=False, severity=AssetCheckSeverity.WARN, metadata=few)


@asset(key=["gold", "noted"], metadata=OVERWRITE)
def noted() -> pa.Table:
    return pa.table({"id": [1]})


@asset_check(asset=AssetKey(["gold", "noted"]))
def beside() -> AssetCheckResult:
    return AssetCheckResult(passed=False)


@asset(key=["gold", "crashed"], metadata=OVERWRITE)
def crashed() -> pa.Table:
    return pa.table({"id": [1]})


@asset_check(asset=AssetKey(["gold", "crashed"]))
def crashing() -> AssetCheckResult:
    raise ValueError("the check itself is broken")


@asset(key=["gold", "silent"], metadata=OVERWRITE)
def silent():
    return None


@asset_check(asset=AssetKey(["gold", "silent"]), blocking=True)
def never(silent: pa.Table) -> AssetCheckResult:
    return AssetCheckResult(passed=True)


@asset(key=["gold", "procedure"])
def procedure() -> None:
    return None


@asset(key=["gold", "daily"], partitions_def=DAYS)
def daily(context) -> pa.Table:
    return pa.table({"day": pa.array([context.partition_key]).cast(pa.date32())})


@asset_check(asset=AssetKey(["gold", "daily"]), blocking=True)
def once(daily: pa.Table) -> AssetCheckResult:
    first = str(daily["day"][0]) == "2026-01-01"
    return AssetCheckResult(passed=not first, severity=AssetCheckSeverity.WARN)
"""


@pytest.fixture
def run(tmp_path, request):
    module = f"checked_{abs(hash(request.node.nodeid))}"
    (tmp_path / "floe.yaml").write_text(f"name: shop\norchestration: {{module: {module}}}\n")
    (tmp_path / f"{module}.py").write_text(ASSETS)

    def call(*arguments, output="json"):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["run", *arguments, "--project", str(tmp_path), "--output", output])
        return (code, json.loads(out.getvalue())["data"], err) if output == "json" else (code, out.getvalue(), err)

    return call


def checks_of(data):
    [asset] = data["assets"]
    return {check["name"]: (check["state"], check["passed"]) for check in asset["checks"]}


def test_a_warning_is_shown_as_a_warning(run):
    code, data, _ = run("-s", "gold.warned")
    assert (code, data["assets"][0]["state"]) == (0, "published")
    assert checks_of(data) == {"positive": ("passed", True), "enough": ("warned", False)}
    [trouble] = data["failed_checks"]
    assert (trouble["table"], trouble["check"], trouble["held_back"]) == ("gold.warned", "enough", False)
    _, text, err = run("-s", "gold.warned", output="text")
    assert "1 check passed, 1 warned" in text
    assert "gold.warned: check 'enough' warned (num rows 2)" in text
    assert "gold.warned: published, 2 rows, 1 check passed, 1 warned" in err.getvalue()


def test_a_failed_check_that_does_not_block_is_shown_as_failed(run):
    code, data, _ = run("-s", "gold.noted")
    assert (code, data["assets"][0]["state"]) == (0, "written")
    assert checks_of(data) == {"beside": ("failed", False)}
    _, text, _ = run("-s", "gold.noted", output="text")
    assert "1 check failed" in text
    assert "checks passed" not in text
    assert "gold.noted: check 'beside' failed" in text


def test_a_check_that_crashes_is_a_failed_check_with_its_reason(run):
    code, data, _ = run("-s", "gold.crashed")
    assert code == 1
    assert checks_of(data) == {"crashing": ("failed", False)}
    assert "the check itself is broken" in data["failed_checks"][0]["sentence"]


def test_a_failed_check_of_an_earlier_partition_is_not_forgotten(run):
    code, data, _ = run("-s", "gold.daily", "--partition-range", "2026-01-01...2026-01-03")
    assert code == 0
    assert [(one["partition"], one["state"]) for one in data["failed_checks"]] == [("2026-01-01", "warned")]
    _, text, _ = run("-s", "gold.daily", "--partition-range", "2026-01-01...2026-01-03", output="text")
    assert "gold.daily for 2026-01-01: check 'once' warned" in text


def test_an_asset_that_returned_nothing_is_not_published(run):
    code, data, _ = run("-s", "gold.silent")
    [asset] = data["assets"]
    assert (code, asset["state"], asset["snapshot_id"]) == (0, "nothing written", None)
    assert checks_of(data) == {"never": ("not evaluated", True)}
    _, text, err = run("-s", "gold.silent", output="text")
    assert "0 tables written, 1 returned nothing" in text
    assert "gold.silent: nothing written" in err.getvalue()


def test_an_asset_that_declares_no_rows_is_not_written(run):
    code, data, _ = run("-s", "gold.procedure")
    assert (code, data["assets"][0]["state"]) == (0, "nothing written")
