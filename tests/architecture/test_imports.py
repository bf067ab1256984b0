"""Importing floe is fast and has no side effects."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).resolve().parents[2] / "src"
PACKAGES = sorted(init.parent.relative_to(SRC).as_posix().replace("/", ".") for init in SRC.rglob("__init__.py"))
TOP_LEVEL = [package for package in PACKAGES if "." not in package]
HEAVY = {"dagster", "pandas", "polars", "pyarrow", "pyiceberg", "pyspark"}

WATCH = """
import os, sys, threading
deeds = []
def watch(event, args):
    # No socket.bind: urllib3 binds ::1 once to learn whether there is IPv6.
    if event in {"socket.connect", "socket.getaddrinfo", "subprocess.Popen", "os.system", "os.mkdir", "os.remove",
                 "os.rename", "shutil.rmtree"}:
        deeds.append((event, str(args)))
    if event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        deeds.append((event, str(args)))
sys.addaudithook(watch)
environ, threads = dict(os.environ), threading.active_count()
"""


def run(code: str) -> str:
    # -B: otherwise, bytecode written in a new checkout would count as a side effect.
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_there_are_packages_to_look_at():
    assert {"floe_cli", "floe_core", "floe_core.plugins", "floe_iceberg", "floe_testing"} <= set(PACKAGES)


def test_importing_floe_core_imports_nothing_heavy():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", "import floe_core"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "floe_core" in imported
    assert not HEAVY & imported
    assert not {"pydantic", "structlog", "opentelemetry"} & imported


def test_no_module_of_floe_core_imports_anything_heavy():
    modules = [
        path.relative_to(SRC).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for path in (SRC / "floe_core").rglob("*.py")
    ]
    code = f"import importlib, sys\nfor name in {modules!r}: importlib.import_module(name)\nprint(*sys.modules)"
    assert not HEAVY & set(run(code).split())


def test_the_command_line_imports_nothing_heavy_until_it_has_to():
    assert not HEAVY & set(run("import sys, floe_cli.app\nprint(*sys.modules)").split())


@pytest.mark.parametrize("package", TOP_LEVEL)
def test_importing_a_package_has_no_side_effects(package):
    code = f"""{WATCH}
import {package}
import logging, structlog
print(deeds) if deeds else None
changed = {{key for key in {{*environ, *os.environ}} if environ.get(key) != os.environ.get(key)}}
print("environment", changed) if changed else None
print("threads") if threading.active_count() != threads else None
print("structlog") if structlog.is_configured() else None
print("handlers") if logging.getLogger().handlers or logging.getLogger("floe").handlers else None
"""
    assert run(code) == ""


def test_public_names_are_sorted_and_there():
    code = f"""
import importlib
def kind(name):
    return 0 if name.isupper() else 1 if name[0].isupper() else 2
for package in {PACKAGES!r}:
    module = importlib.import_module(package)
    names = list(getattr(module, "__all__", []))
    if not module.__doc__:
        print(package, "has no docstring")
    if missing := [name for name in names if not hasattr(module, name)]:
        print(package, "lacks", missing)
    if names != sorted(set(names), key=lambda name: (kind(name), name)):
        print(package, "should list", sorted(set(names), key=lambda name: (kind(name), name)))
"""
    assert run(code) == ""


def test_floe_core_knows_where_each_public_name_lives():
    code = """
import floe_core
assert set(floe_core.__all__) == set(floe_core._HOMES) == set(dir(floe_core))
try:
    floe_core.nonsense
except AttributeError as err:
    assert "nonsense" in str(err)
else:
    raise SystemExit("a name that is not there was found")
"""
    run(code)


@pytest.mark.parametrize(
    ("package", "name", "current"),
    [
        ("floe_dagster", "discard_held", "discard_staged"),
        ("floe_dagster", "list_held", "list_staged"),
        ("floe_dagster", "publish_held", "publish_staged"),
        ("floe_iceberg.project", "open_project", "open_project"),
    ],
)
def test_a_renamed_name_still_works_and_says_what_to_use(package, name, current):
    module, top = importlib.import_module(package), importlib.import_module(package.partition(".")[0])
    with pytest.warns(
        DeprecationWarning, match=rf"{package}\.{name} is deprecated\. Use {top.__name__}\.{current}\."
    ) as warned:
        found = getattr(module, name)
    assert found is getattr(top, current)
    assert [warning.filename for warning in warned] == [__file__]
    assert name not in dir(module)
