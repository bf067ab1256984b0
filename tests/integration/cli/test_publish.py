"""``floe publish`` after main has changed: the write is repeated and checked again, or rejected with the reason."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager
from floe_iceberg.staging.staged import list_staged

pytestmark = pytest.mark.spark

PROJECT = """\
name: shop
catalog: {name: CATALOG}
compute: {master: "local[2]", driver_memory: 1g}
orchestration: {module: MODULE}
tables:
  silver.orders:
    checks:
      - {type: not_null, column: total}
      - {type: unique, columns: [id], scope: table}
"""
ASSETS = """\
import json
from pathlib import Path

import pyarrow as pa
from dagster import AssetCheckResult, DailyPartitionsDefinition, asset, asset_check

DAYS = DailyPartitionsDefinition(start_date="2026-01-01", end_date="2026-01-11")


@asset(key=["silver", "orders"], partitions_def=DAYS, metadata={"partition_column": "day"})
def orders(context) -> pa.Table:
    day = context.partition_key
    rows = json.loads(Path(__file__).with_name("rows.json").read_text())[day]
    data = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("total", pa.int64())]))
    return data.append_column("day", pa.array([day] * data.num_rows).cast(pa.date32()))


@asset_check(asset=orders, blocking=True)
def no_large_orders(orders: pa.Table) -> AssetCheckResult:
    return AssetCheckResult(passed=not any((total or 0) > 1000 for total in orders["total"].to_pylist()))
"""


@pytest.fixture
def shop(tmp_path, request):
    """A project whose rows are in a file; run its days."""
    number = abs(hash(request.node.nodeid))
    module = f"publishing_{number}"
    (tmp_path / "floe.yaml").write_text(PROJECT.replace("MODULE", module).replace("CATALOG", f"lake_{number}"))
    (tmp_path / f"{module}.py").write_text(ASSETS)
    return Shop(tmp_path)


class Shop:
    def __init__(self, folder):
        self.folder = folder

    def floe(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--project", str(self.folder)])
        return code, out.getvalue() + err.getvalue()

    def run(self, day, *rows):
        date = f"2026-01-{day:02}"
        content = [{"id": number, "total": total} for number, total in rows]
        (self.folder / "rows.json").write_text(json.dumps({date: content}))
        return self.floe("run", "--partition", date)

    def state(self):
        with IcebergTableManager.from_artifacts(compile_project(self.folder)) as tables:
            rows = tables.scan("silver.orders").to_pylist()
            found = sorted((row["day"].day, row["id"], row["total"]) for row in rows)
            return found, [held.branch for held in list_staged(tables, "silver.orders")]


def test_a_write_is_done_again_on_top_of_other_days_and_published_on_demand(shop, monkeypatch):
    assert shop.run(1, (1, None))[0] == 1
    assert shop.run(2, (2, 20))[0] == 0
    before = shop.state()
    code, said = shop.floe("publish", "silver.orders", "--dry-run")
    assert code == 0
    assert "Main has moved by 1 snapshot" in said
    assert "of silver/orders, partition 2026-01-02" in said
    monkeypatch.setattr("sys.stdin", io.StringIO())
    code, said = shop.floe("publish", "silver.orders")
    assert code == 1
    assert "--yes" in said
    assert shop.state() == before
    code, said = shop.floe("publish", "silver.orders", "--yes")
    assert code == 0, said
    assert "the write was redone on top of it" in said
    assert shop.state() == ([(1, 1, None), (2, 2, 20)], [])


def test_checks_that_fail_only_on_the_new_main_stop_the_publication(shop):
    assert shop.run(1, (1, None))[0] == 1
    assert shop.run(2, (1, 20))[0] == 0
    code, said = shop.floe("publish", "silver.orders", "--yes")
    assert code != 0
    assert "These checks now fail: unique_id" in said
    rows, [held] = shop.state()
    assert rows == [(2, 1, 20)]
    assert held.endswith(".redo1")


def test_a_published_rerun_retires_the_older_write_of_its_day_and_says_so(shop):
    assert shop.run(1, (1, None))[0] == 1
    assert shop.run(2, (2, 5000))[0] == 1
    _, held = shop.state()
    code, said = shop.run(1, (1, 10))
    assert code == 0, said
    assert f"discarded {held[0]}, an older staged write" in said
    assert shop.state() == ([(1, 1, 10)], held[1:])
