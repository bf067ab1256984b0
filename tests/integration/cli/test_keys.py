"""``floe plan`` and ``floe run`` if the keys in floe.yaml differ from those of the table."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager
from floe_iceberg.table.keys.row_keys import recorded_keys

ASSETS = """\
from pathlib import Path

import pyarrow as pa
import pyarrow.json
from dagster import asset


@asset(key=["silver", "lines"], metadata={"write_mode": "upsert"})
def lines() -> pa.Table:
    return pyarrow.json.read_json(Path(__file__).with_name("rows.json"))
"""


@pytest.fixture
def shop(lay_out):
    """A project with one upserting asset; write its rows and its keys."""

    def declare(keys, *rows):
        table = f"tables: {{silver.lines: {{keys: [{', '.join(keys)}]}}}}\n" if keys else ""
        folder = lay_out(f"name: shop\norchestration: {{module: MODULE}}\n{table}", ASSETS)
        (folder / "rows.json").write_text("\n".join(json.dumps(row) for row in rows))
        return folder

    return declare


@pytest.fixture
def floe(tmp_path):
    def run(*arguments):
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*arguments, "--project", str(tmp_path)])
        return code, out.getvalue() + err.getvalue()

    return run


def state(tmp_path):
    with IcebergTableManager.from_artifacts(compile_project(tmp_path)) as tables:
        if not tables.table_exists("silver.lines"):
            return None
        rows = sorted(tuple(row.values()) for row in tables.scan("silver.lines").to_pylist())
        return rows, recorded_keys(tables.load_table("silver.lines"))


def test_plan_shows_keys_that_differ_and_the_run_goes_by_those_declared(shop, floe, tmp_path):
    shop(["order"], {"order": 1, "line": 1, "qty": 5})
    assert floe("run")[0] == 0
    shop(["order", "line"], {"order": 1, "line": 2, "qty": 7})
    code, said = floe("plan")
    assert code == 0
    assert "upsert by order, line" in said
    assert "silver.lines: keys: declared order, line, actual order." in said
    assert state(tmp_path) == ([(1, 1, 5)], ("order",))
    assert floe("run")[0] == 0
    assert state(tmp_path) == ([(1, 1, 5), (1, 2, 7)], ("order", "line"))
    assert "keys declared" not in floe("plan")[1]


def test_a_run_stops_before_it_writes_when_rows_are_not_unique_by_the_keys(shop, floe, tmp_path):
    shop(["order", "line"], {"order": 1, "line": 1, "qty": 5}, {"order": 1, "line": 2, "qty": 6})
    assert floe("run")[0] == 0
    before = state(tmp_path)
    shop(["order"], {"order": 2, "line": 1, "qty": 9})
    code, said = floe("run")
    assert code == 1
    assert "are order; the table records order, line" in said
    assert state(tmp_path) == before


def test_a_first_run_without_keys_leaves_nothing_behind(shop, floe, tmp_path):
    shop([], {"order": 1, "line": 1, "qty": 5})
    code, said = floe("plan")
    assert code == 0
    assert "The run would fail before writing. Set keys for the table in floe.yaml." in said
    code, said = floe("run")
    assert code == 1
    assert "no keys are declared" in said
    assert state(tmp_path) is None
    shop(["order"], {"order": 1, "line": 1, "qty": 5})
    assert floe("run")[0] == 0
    assert state(tmp_path) == ([(1, 1, 5)], ("order",))
