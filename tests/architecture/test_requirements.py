"""``make requirements``: what is promised is shown to hold, or the command fails."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "dev" / "requirements.py"


@pytest.fixture
def script():
    return runpy.run_path(str(SCRIPT))


@pytest.fixture
def main(script):
    """Give the command, and what it looks at by name."""
    command = script["main"]
    return command, command.__globals__


def test_every_requirement_is_shown_to_hold(main):
    command, _ = main
    assert command(["--check"]) == 0


def test_a_requirement_that_loses_its_tests_is_named_and_fails(main, capsys):
    command, names = main
    tests = names["tests_by_requirement"]()
    del tests["FR-019"]
    names["tests_by_requirement"] = lambda: tests
    assert command(["--check"]) == 1
    assert "nothing shows FR-019" in capsys.readouterr().out


def test_a_test_that_names_an_unknown_requirement_fails(main, capsys):
    command, names = main
    tests = names["tests_by_requirement"]()
    names["tests_by_requirement"] = lambda: {**tests, "FR-999": ["tests/x.py::test_x"]}
    assert command(["--check"]) == 1
    assert "unknown requirement FR-999 in tests/x.py::test_x" in capsys.readouterr().out


@pytest.mark.parametrize(("met", "code"), [(True, 0), (False, 1)])
def test_a_figure_counts_only_when_it_meets_its_goal(main, tmp_path, met, code):
    command, names = main
    figures = [
        {"figure": "seconds", "value": 1.0, "goal": 2.0, "met": met, "requirement": requirement}
        for requirement in ("SC-002", "SC-003", "SC-005")
    ]
    results = tmp_path / "latest.json"
    results.write_text(json.dumps({"workloads": [{"name": "p1", "variant": "", "figures": figures}]}))
    names["FIGURES"] = str(results)
    assert command(["--check"]) == code
