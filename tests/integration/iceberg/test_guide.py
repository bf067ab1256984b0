"""docs/tables.md, block after block, in a project of three lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from floe_core.compile import compile_project

GUIDE = Path(__file__).parents[3] / "docs" / "tables.md"


@pytest.mark.req("API-04", "TM-10")
def test_the_guide_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = tmp_path / "floe.yaml"
    project.write_text("schema_version: 1\nname: shop\n", encoding="utf-8")
    compile_project(project).to_json_file()
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 9
    names: dict[str, object] = {}
    try:
        for number, block in enumerate(blocks, 1):
            exec(compile(block, f"block {number} of {GUIDE.name}", "exec"), names)  # noqa: S102 - the guide is ours
        manager = names["manager"]
        assert manager.scan("bronze.orders").num_rows == 2
        assert [ref.name for ref in manager.list_refs("bronze.orders")] == ["main", "repair", "month-end"]
    finally:
        names["manager"].close()
