"""Third-party plugins are available after their distribution is installed, and unavailable after it is removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "packages/floe-example-plugin"
DUCKDB = ROOT / "packages/floe-duckdb"
UV = ROOT / ".floe-dev/uv/bin/uv"

pytestmark = pytest.mark.req("PL-08")


def uv(*arguments: str | Path) -> None:
    subprocess.run([UV, *arguments], check=True, capture_output=True, text=True)


class Installation:
    """A folder that floe's environment sees beside its own packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def python(self, *arguments: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def plugins(self, cwd: Path) -> dict[str, dict[str, str]]:
        listed = self.python("-m", "floe_cli", "plugins", "list", "--output", "json", cwd=cwd)
        return {f"{plugin['type']}:{plugin['name']}": plugin for plugin in json.loads(listed.stdout)["data"]}

    def run_tests(self, package: Path, cwd: Path) -> None:
        """Run the tests of an installed package, from outside of floe's own."""
        options = ("-q", "-p", "no:cacheprovider", "-c", package / "pyproject.toml")
        done = self.python("-m", "pytest", *options, package / "tests", cwd=cwd)
        assert " passed" in done.stdout
        assert "skipped" not in done.stdout


def built(package: Path, folder: Path) -> Path:
    uv("build", "--quiet", "--wheel", "--out-dir", folder, package)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Installation:
    uv("pip", "install", "--quiet", "--no-deps", "--python", sys.executable, "--target", folder, wheel)
    return Installation(folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(EXAMPLE, tmp_path_factory.mktemp("dist"))


@pytest.fixture
def installed(wheel, tmp_path):
    return install(wheel, tmp_path / "site")


def test_an_installed_plugin_is_listed_and_a_removed_one_is_gone(installed, tmp_path):
    listed = installed.plugins(tmp_path)
    assert listed["storage:scratch"]["distribution"] == "floe-example-plugin"
    assert {"quality:row-count", "secrets:json-file"} <= set(listed)
    assert "storage:local" in listed
    uv("pip", "uninstall", "--quiet", "--target", installed.folder, "floe-example-plugin")
    assert not {"storage:scratch", "quality:row-count", "secrets:json-file"} & set(installed.plugins(tmp_path))


def test_an_installed_plugin_can_be_loaded_and_is_healthy(installed, tmp_path):
    checked = installed.python("-m", "floe_cli", "plugins", "check", "--type", "storage", cwd=tmp_path)
    assert "Temporary storage" in checked.stdout


def test_its_contract_suite_passes_from_outside(installed, tmp_path):
    installed.run_tests(EXAMPLE, tmp_path)


# Runs three pipelines.
@pytest.mark.timeout(600)
def test_an_engine_from_outside_keeps_the_contract_and_runs_projects_without_spark(tmp_path):
    installed = install(built(DUCKDB, tmp_path / "dist"), tmp_path / "site")
    assert installed.plugins(tmp_path)["compute:duckdb"]["distribution"] == "floe-duckdb"
    installed.run_tests(DUCKDB, tmp_path)


def test_a_project_uses_it_by_name(installed, tmp_path):
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: experiments\nstorage:\n  type: scratch\n")
    done = installed.python("-m", "floe_cli", "compile", cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    artifacts = json.loads((tmp_path / ".floe/compiled_artifacts.json").read_text())
    assert artifacts["plugins"]["floe.storage:scratch"] == "0.1.0"


def test_a_project_that_names_a_missing_plugin_is_told_what_there_is(tmp_path):
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: experiments\nstorage:\n  type: scratch\n")
    done = Installation(tmp_path / "empty").python("-m", "floe_cli", "compile", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert "local" in done.stdout + done.stderr
