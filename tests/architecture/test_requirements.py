"""``make requirements`` fails if a requirement has no evidence."""

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
    assert "no evidence for FR-019" in capsys.readouterr().out


PLAIN = """
import pytest

@pytest.mark.req("FR-001")
def test_it(): ...
"""
IN_A_CLASS = """
import pytest

class TestIt:
    @pytest.mark.req("FR-001")
    def test_it(self): ...
"""
SUITE = """
import pytest

class Contract:
    @pytest.mark.req("FR-001")
    def test_it(self): ...

class ContractOfServers(Contract): ...
"""
USER = """
from floe_testing.suite import ContractOfServers

class TestServer(ContractOfServers): ...
"""


@pytest.fixture
def tests_found(main, tmp_path):
    """Give the tests that a tree of sources has for FR-001."""

    def find(sources):
        for name, text in sources.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        _, names = main
        names["ROOT"] = tmp_path
        return names["tests_by_requirement"]().get("FR-001", [])

    return find


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"tests/unit/test_a.py": PLAIN}, ["tests/unit/test_a.py::test_it"]),
        ({"tests/test_a.py": IN_A_CLASS}, ["tests/test_a.py::test_it"]),
        (
            {
                "tests/test_a.py": IN_A_CLASS.replace("    @", '    """Of one."""\n    @').replace(
                    "...", "pytest.skip()"
                )
            },
            [],
        ),
        (
            {"src/floe_testing/suite.py": SUITE, "tests/test_a.py": USER},
            ["src/floe_testing/suite.py::test_it"],
        ),
        ({"tests/test_a.py": PLAIN.replace("@pytest.mark.req", "# ")}, []),
        ({"tests/test_a.py": PLAIN.replace("def test_it", "def it")}, []),
        ({"tests/a.py": PLAIN}, []),
        ({"tests/test_a.py": IN_A_CLASS.replace("TestIt", "It")}, []),
        ({"tests/test_a.py": PLAIN.replace("def", "@pytest.mark.skip\ndef")}, []),
        ({"tests/test_a.py": PLAIN.replace("def", "@pytest.mark.xfail(reason='later')\ndef")}, []),
        ({"tests/test_a.py": PLAIN.replace("...", "pytest.skip('later')")}, []),
        ({"tests/test_a.py": PLAIN + "\npytestmark = [pytest.mark.skip(reason='later')]\n"}, []),
        (
            {"tests/test_a.py": PLAIN.replace("import pytest", "import pytest\npytest.skip(allow_module_level=True)")},
            [],
        ),
        ({"tests/test_a.py": IN_A_CLASS.replace("class", "@pytest.mark.skip\nclass")}, []),
        ({"src/floe_testing/suite.py": SUITE}, []),
        ({"src/floe_testing/suite.py": SUITE, "tests/test_a.py": USER.replace("class Test", "class ")}, []),
        (
            {"src/floe_testing/suite.py": SUITE, "tests/test_a.py": USER.replace("class", "@pytest.mark.skip\nclass")},
            [],
        ),
    ],
    ids=[
        "function",
        "class",
        "class that leaves at once",
        "suite",
        "no mark",
        "function renamed",
        "file renamed",
        "class renamed",
        "skipped",
        "expected to fail",
        "leaves at once",
        "module skipped",
        "module leaves at once",
        "class skipped",
        "suite without users",
        "user renamed",
        "user skipped",
    ],
)
def test_only_what_pytest_runs_shows_anything(tests_found, sources, expected):
    assert tests_found(sources) == expected


@pytest.mark.parametrize(
    "settings",
    [{"COVERED_PACKAGES": ("floe_iceberg",), "COVERAGE_FLOOR": "85"}, {"COVERAGE_FLOOR": "80"}],
    ids=["one package", "a lower floor"],
)
def test_coverage_is_a_gate_only_while_it_looks(main, monkeypatch, capsys, settings):
    command, names = main
    usual = runpy.run_path(str(SCRIPT.parent / "check.py"))
    monkeypatch.setattr(names["runpy"], "run_path", lambda _: {**usual, **settings})
    assert command(["--check"]) == 1
    assert "no evidence for SC-010" in capsys.readouterr().out


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
