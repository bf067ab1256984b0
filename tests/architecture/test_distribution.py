"""Documentation and messages never refer users to the unrelated package ``floe`` on PyPI."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from floe_core.runtime.distribution import DISTRIBUTION

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "examples", "packages", "src", "dev", "deploy", "benchmarks")
TEXTS = sorted(
    path
    for path in (*ROOT.glob("*"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")))
    if path.suffix in {".md", ".py", ".toml", ".txt", ".yaml", ".yml"} and ".venv" not in path.parts
)
# The package floe, alone or with extras, in an installation command; longer names are other packages.
FOREIGN = re.compile(r"(?:pip install|uv add|uv pip install|pipx install)\b[^\n`]*?['\"\s]floe(?![\w-])|['\"`]floe\[")


def test_the_project_has_the_name_that_hints_give():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert all(entry.startswith(f"{DISTRIBUTION}[") for entry in project["optional-dependencies"]["all"])


@pytest.mark.parametrize("text", ["pip install floe", "pip install 'floe[all]'", "uv add floe", "`floe[spark]`"])
def test_the_pattern_finds_what_it_is_for(text):
    assert FOREIGN.search(text)


@pytest.mark.parametrize("text", ["pip install 'floe-lakehouse[all]'", "pip install floe-example-plugin", "floe init"])
def test_the_pattern_leaves_ours_alone(text):
    assert not FOREIGN.search(text)


def test_no_text_names_the_package_of_somebody_else():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in TEXTS
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert found == []


def installs(text):
    return re.findall(r"^\s*(?:uv )?pip install (.+?)(?:\s+#.*)?$", text, flags=re.MULTILINE)


def test_the_readme_installs_the_light_set_first_and_nothing_from_an_index():
    first, *others = installs((ROOT / "README.md").read_text(encoding="utf-8"))
    assert first == "'.[spark,dagster]'"
    for wanted in (first, *others):
        assert wanted.startswith(("'.[", "'floe_lakehouse-")), wanted
    assert all(".whl[" in other for other in others if "floe_lakehouse" in other)
