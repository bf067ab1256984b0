"""Error reports of ``floe run``: the cause, its location, and the exit code."""

from __future__ import annotations

import io
import json
import resource
import signal
import subprocess
import sys
import time
import uuid
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main
from floe_testing import warm_python
from floe_testing.faults.gateway import FaultGateway, Reply, Rule

ASSETS = """\
import os, time
from pathlib import Path
import pyarrow as pa
from dagster import asset


@asset(key=["bronze", "orders"], metadata={"write_mode": "overwrite"})
def orders() -> pa.Table:
    return pa.table({"id": [1]})


@asset(key=["bronze", "noise"], metadata={"write_mode": "overwrite"})
def noise() -> pa.Table:
    return pa.table({"noise": [os.urandom(1000) for _ in range(8000)]})


@asset(key=["bronze", "slow"], metadata={"write_mode": "overwrite"})
def slow() -> pa.Table:
    Path(__file__).with_name("reached").touch()
    time.sleep(300)
    return pa.table({"id": [1]})
"""
TWICE = """\
import pyarrow as pa
from dagster import asset


@asset(key=["bronze", "orders"], metadata={"write_mode": "overwrite"})
def orders() -> pa.Table:
    return pa.table({"id": [1]})


@asset(key=["bronze", "orders"], metadata={"write_mode": "overwrite"})
def orders_again() -> pa.Table:
    return pa.table({"id": [1]})
"""


@pytest.fixture
def shop(tmp_path):
    """A project whose module no other test has imported."""

    def make(text=ASSETS, **sections):
        module = f"assets_{uuid.uuid4().hex}"
        (tmp_path / f"{module}.py").write_text(text)
        settings = {"name": "shop", "orchestration": {"module": module}, **sections}
        (tmp_path / "floe.yaml").write_text(json.dumps(settings))
        return tmp_path

    return make


def floe(project, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments, "--project", str(project)])
    return code, out.getvalue(), err.getvalue()


def floe_process(project, *arguments, **options):
    command = [sys.executable, "-m", "floe_cli", *arguments, "--project", str(project)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=280, **options)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        ("import pyarrow as pa\n\ndef orders(:\n", 3, "SyntaxError: "),
        (
            "\nimport no_such_dependency_of_ours\n",
            2,
            "ModuleNotFoundError: No module named 'no_such_dependency_of_ours'",
        ),
        ("from math import no_such_name\n", 1, "ImportError: cannot import name 'no_such_name'"),
        ("\n\n\nprice = {}['total']\n", 4, "KeyError: 'total'"),
        ("import sys\nsys.exit(3)\n", 2, "SystemExit: 3"),
    ],
    ids=["syntax", "missing package", "missing name", "any error", "exit"],
)
@pytest.mark.parametrize("command", ["run", "plan", "validate"])
def test_a_mistake_in_the_module_is_the_users_with_file_and_line(shop, command, text, line, told):
    project = shop(text)
    [module] = project.glob("assets_*.py")
    code, out, err = floe(project, command)
    assert (code, out) == (1, "")
    assert "Traceback" not in err
    assert f"{module.name}, line {line}: {told}" in err
    code, out, _ = floe(project, command, "-o", "json")
    error = json.loads(out)["error"]
    assert (code, error["type"]) == (1, "ConfigurationError")
    assert (module.name, line) in {(problem["file"], problem["line"]) for problem in error["problems"]}


@pytest.mark.parametrize("command", ["run", "validate"])
def test_assets_of_one_key_are_named_with_their_lines(shop, command):
    project = shop(TWICE)
    [module] = project.glob("assets_*.py")
    code, out, err = floe(project, command, "-o", "json")
    error = json.loads(out)["error"]
    assert (code, error["type"]) == (1, "ConfigurationError"), err
    places = [(problem["file"], problem["line"]) for problem in error["problems"] if problem["file"] == module.name]
    assert places == [(module.name, 5), (module.name, 10)]


def test_a_damaged_catalog_file_is_named(shop):
    project = shop()
    assert warm_python.run("-m", "floe_cli", "run", "-s", "bronze.orders", cwd=project).returncode == 0
    [catalog] = [path for path in project.rglob("*.db") if "dagster" not in str(path)]
    catalog.write_bytes(b"garbage" * 1000)
    for log in project.rglob(f"{catalog.name}-*"):
        log.unlink()
    done = floe_process(project, "run", "-s", "bronze.orders", "-o", "json")
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["type"]) == (2, "CatalogConnectionError")
    assert str(catalog.name) in error["message"]
    assert "damaged" in error["message"]


@pytest.fixture
def polaris():
    """A server that knows one client and no warehouse."""
    missing = Reply.of(404, {"error": {"message": "Unable to find warehouse lake", "type": "NotFoundException"}})
    with FaultGateway("http://127.0.0.1:1/api/catalog") as gateway:
        gateway.require_tokens(client_id="shop", client_secret="canary-right-secret")
        gateway.add(Rule("GET", "/v1/config$", None, forward=False, reply=missing))
        yield gateway


TROUBLES = {
    "wrong secret": ("canary-wrong-secret", 1, "CatalogAuthenticationError", "Authentication failed."),
    "wrong warehouse": ("canary-right-secret", 1, "WarehouseNotFoundError", "Warehouse 'lake' not found"),
    "server down": ("canary-right-secret", 2, "CatalogUnavailableError", "cannot be reached"),
}


@pytest.mark.parametrize(
    "command",
    [("run",), ("run", "--processes", "2"), ("plan",), ("test",), ("publish",), ("apply", "--dry-run"), ("dev",)],
    ids=" ".join,
)
@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_catalog_that_cannot_be_connected_to_is_one_line_of_floes_own(shop, polaris, monkeypatch, trouble, command):
    secret, exit_code, error, told = TROUBLES[trouble]
    monkeypatch.setenv("SHOP_SECRET", secret)
    address = "http://127.0.0.1:9/api/catalog" if trouble == "server down" else polaris.url
    credentials = {"client_id": "shop", "client_secret": "${SHOP_SECRET}"}
    retry = {"max_attempts": 1}
    project = shop(
        catalog={"type": "polaris", "uri": address, "warehouse": "lake", "credentials": credentials, "retry": retry}
    )
    code, out, _ = floe(project, *command, "-o", "json")
    answer = json.loads(out)
    assert (code, answer["ok"], answer["error"]["type"]) == (exit_code, False, error)
    assert told in answer["error"]["message"]
    assert answer["error"]["hint"]
    code, out, err = floe(project, *command)
    assert code == exit_code
    [line] = [line for line in (out + err).splitlines() if told in line]
    assert line.startswith("Error: ")
    assert "not run" not in out + err
    assert "canary" not in out + err


def test_a_full_disk_is_a_system_error_with_its_name(shop):
    project = shop()
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))  # noqa: E731 - a hook
    done = floe_process(project, "run", "-s", "bronze.noise", "-o", "json", preexec_fn=limit)
    [asset] = json.loads(done.stdout)["data"]["assets"]
    assert (done.returncode, asset["error"]) == (2, "StorageFullError"), done.stderr
    assert asset["reason"].startswith("The storage is full")
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_a_run_with_130_and_one_line(shop):
    project = shop()
    process = subprocess.Popen(
        [sys.executable, "-m", "floe_cli", "run", "-s", "bronze.slow", "--project", str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while not (project / "reached").exists():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    told = [line for line in err.splitlines() if not line.startswith("Using the base environment")]
    assert (process.returncode, out, told) == (130, "", ["Interrupted."])
