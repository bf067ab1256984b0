"""docs/reference/ matches the code."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "dev" / "generate_docs.py"


@pytest.fixture(scope="module")
def generator():
    spec = importlib.util.spec_from_file_location("generate_docs", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_committed_pages_are_up_to_date(generator):
    assert generator.stale() == [], "run: make docs"


def test_every_key_command_and_error_is_there(generator):
    assert "## `catalog.retry`" in generator.configuration()
    assert "## `tables.<name>.columns[]`" in generator.configuration()
    assert "#### floe plugins check" in generator.commands()
    assert "| `TableNotFoundError` | 1 |" in generator.error_tree()


def test_a_page_that_differs_is_named(generator, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(generator, "FOLDER", tmp_path / "reference")
    assert generator.main(["--check"]) == 1
    assert "cli.md" in capsys.readouterr().out
    assert generator.main([]) == 0
    assert generator.main(["--check"]) == 0
