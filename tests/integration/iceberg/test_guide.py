"""The code blocks of docs/tables.md and of the README, in a minimal project."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from floe_core.compile import compile_project

README = Path(__file__).parents[3] / "README.md"
GUIDE = Path(__file__).parents[3] / "docs" / "tables.md"


@pytest.mark.req("API-04", "TM-10")
def test_the_guide_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "floe.yaml"
    project.write_text("schema_version: 1\nname: shop\n", encoding="utf-8")
    compile_project(project).to_json_file()
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 10
    names: dict[str, object] = {}
    try:
        for number, block in enumerate(blocks, 1):
            exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), names)  # noqa: S102 - the guide is ours
        manager = names["manager"]
        assert manager.scan("bronze.orders").num_rows == 2
        assert [ref.name for ref in manager.list_refs("bronze.orders")] == ["main", "repair", "month-end"]
    finally:
        names["manager"].close()


def test_the_tables_of_the_readme_are_made_written_and_read_as_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "floe.yaml"
    project.write_text("schema_version: 1\nname: shop\n", encoding="utf-8")
    compile_project(project).to_json_file()
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    [block] = [one for one in blocks if "create_table" in one]
    schema = pa.schema([("id", pa.int64()), ("placed", pa.timestamp("us")), ("total", pa.decimal128(10, 2))])
    deliveries = [{1: "19.90", 2: "120.00"}, {2: "130.00", 3: "5.00"}]
    placed = datetime.fromisoformat("2026-01-05")
    orders, late_orders = (
        pa.table([list(rows), [placed] * len(rows), [Decimal(total) for total in rows.values()]], schema=schema)
        for rows in deliveries
    )
    names: dict[str, object] = {"orders": orders, "late_orders": late_orders}
    try:
        exec(compile(block, README.name, "exec"), names)  # noqa: S102 - the page is ours
        rows = names["manager"].scan("bronze.orders").to_pylist()
        assert {row["id"]: str(row["total"]) for row in rows} == {1: "19.90", 2: "130.00", 3: "5.00"}
    finally:
        names["manager"].close()
