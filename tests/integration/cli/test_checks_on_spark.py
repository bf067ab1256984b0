"""Declared checks on Spark, in a run and in ``floe test``."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main

pytestmark = [pytest.mark.spark, pytest.mark.live]

PROJECT = """\
name: shop
catalog: {name: CATALOG}
compute: {master: "local[2]", driver_memory: 1g}
orchestration: {module: MODULE}
tables:
  silver.customers: {}
  silver.orders:
    checks:
      - {type: expression, name: paid, expression: "total >= 0 and `the currency` in ('EUR', 'it''s')"}
      - {type: expression, name: small, expression: "total < 15", severity: warn}
      - {type: relationship, column: customer, to: silver.customers, to_columns: [id], blocking: false}
      - {type: row_count_change, min_ratio: 0.5, severity: warn}
"""
ASSETS = """\
import json
from pathlib import Path

import pyarrow as pa
from dagster import DailyPartitionsDefinition, asset

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-11")


@asset(key=["silver", "customers"], metadata={"write_mode": "overwrite"})
def customers() -> pa.Table:
    return pa.table({"id": [1, 2]})


@asset(key=["silver", "orders"], deps=[customers], partitions_def=DAYS, metadata={"partition_column": "day"})
def orders(context) -> pa.Table:
    day = context.partition_key
    rows = json.loads(Path(__file__).with_name("rows.json").read_text())[day]
    data = pa.table({"total": [row[0] for row in rows], "customer": [row[1] for row in rows]})
    data = data.append_column("the currency", pa.array(["EUR"] * data.num_rows))
    return data.append_column("day", pa.array([day] * data.num_rows).cast(pa.date32()))
"""


@pytest.fixture
def floe(lay_out, request):
    number = abs(hash(request.node.nodeid))
    folder = lay_out(PROJECT.replace("CATALOG", f"lake_{number}"), ASSETS)

    def call(*arguments, rows=None):
        if rows is not None:
            (folder / "rows.json").write_text(json.dumps(rows))
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--project", str(folder), "-o", "json"])
        return code, json.loads(out.getvalue())["data"]

    return call


def checks_of(data):
    orders = next(asset for asset in data["assets"] if asset["table"] == "silver.orders")
    return {check["name"]: (check["state"], check["figures"]) for check in orders["checks"]}


def test_warnings_are_published_and_errors_held_back_on_spark_and_found_again_by_floe_test(floe):
    first, second = "2026-01-01", "2026-01-02"
    assert floe("run", "-s", "silver.customers")[0] == 0
    code, data = floe("run", "-s", "silver.orders", "--partition", first, rows={first: [[10, 1], [20, 3], [5, None]]})
    assert (code, data["assets"][0]["state"]) == (0, "published")
    assert checks_of(data) == {
        "paid": ("passed", {"failing_rows": 0}),
        "small": ("warned", {"failing_rows": 1, "example": '{"total":20}'}),
        "relationship_customer": ("failed", {"failing_rows": 1, "example": "3"}),
        "row_count_change": (
            "passed",
            {"num_rows": 3, "rows_before": 0, "note": "no previous rows to compare with"},
        ),
    }
    code, data = floe("run", "-s", "silver.orders", "--partition", second, rows={second: [[-1, 1]]})
    assert (code, data["assets"][0]["state"]) == (1, "held back")
    assert checks_of(data)["paid"][0] == "failed"
    branch = data["assets"][0]["branch"]
    # Less than half of the first day is left, which is only a warning.
    code, data = floe("run", "-s", "silver.orders", "--partition", first, rows={first: [[10, 1]]})
    assert (code, data["assets"][0]["state"]) == (0, "published")
    assert checks_of(data)["row_count_change"] == ("warned", {"num_rows": 1, "rows_before": 3, "ratio": 0.3333})

    def tested(*options):
        code, data = floe("test", "-s", "silver.orders", *options)
        return code, {check["check"]: (check["state"], check["figures"]) for check in data["checks"]}

    code, found = tested("--partition", first)
    assert code == 0
    assert found == {
        "paid": ("passed", {"failing_rows": 0}),
        "small": ("passed", {"failing_rows": 0}),
        "relationship_customer": ("passed", {"failing_rows": 0}),
        "row_count_change": ("warned", {"num_rows": 1, "rows_before": 3, "ratio": 0.3333}),
    }
    code, found = tested("--ref", branch)
    assert code == 1
    assert found["paid"][0] == "failed"
    assert found["row_count_change"] == ("not evaluated", {})
