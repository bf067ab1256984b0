"""floe connects only to addresses in the configuration."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from floe_core.observing.privacy import OPT_OUTS, opt_out_of_usage_statistics

pytestmark = pytest.mark.req("FR-035", "SC-008")

# Runs in every Python process of the scenario, including child processes.
WATCHER = """
import json, os, sys
def watch(event, args):
    if event in {"socket.connect", "socket.connect_ex", "socket.sendto", "socket.sendmsg"}:
        target = args[1]
    elif event in {"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"}:
        target = args[0]
    else:
        return
    with open(os.environ["FLOE_TEST_CALLS"], "a") as stream:
        stream.write(json.dumps([event, repr(target)]) + "\\n")
sys.addaudithook(watch)
"""

TABLE = """
import pyarrow as pa
from floe_core.schemas import CompiledArtifacts
from floe_iceberg.catalog.connection import open_project
with open_project(CompiledArtifacts.from_json_file()) as project:
    project.namespaces.create("bronze")
    rows = pa.table({"id": [1, 2, 3]})
    project.catalog.create_table("bronze.orders", rows.schema).append(rows)
    assert project.catalog.load_table("bronze.orders").scan().to_arrow().num_rows == 3
"""


@pytest.mark.req("FR-006")
def test_no_address_of_a_vendor_is_built_in():
    found = {
        (file.name, host)
        for file in (Path(__file__).parents[2] / "src").rglob("*.py")
        if "floe_testing" not in file.parts
        for host in re.findall(r"https?://([A-Za-z0-9.-]+)", file.read_text(encoding="utf-8"))
    }
    others = {one for one in found if not re.fullmatch(r"127\.0\.0\.1|localhost|host|.*\.example(\.com)?", one[1])}
    # The name of a standard, not an address.
    assert others == {("editor_schema.py", "json-schema.org")}


@pytest.fixture
def run(tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WATCHER)
    calls = tmp_path / "calls"
    calls.touch()
    environ = {name: value for name, value in os.environ.items() if name not in OPT_OUTS}
    environ |= {"PYTHONPATH": str(site), "FLOE_TEST_CALLS": str(calls)}

    def _run(*arguments: str, cwd: Path = tmp_path) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=cwd, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    _run.calls = lambda: [json.loads(line) for line in calls.read_text().splitlines()]
    return _run


def test_the_watcher_sees_a_call(run):
    run(
        "-c", "import socket, contextlib\nwith contextlib.suppress(OSError): socket.create_connection(('127.0.0.1', 9))"
    )
    assert {event for event, _ in run.calls()} == {"socket.getaddrinfo", "socket.connect"}


def test_a_project_on_the_embedded_stack_calls_nobody(run, tmp_path):
    project = tmp_path / "sample"
    run("-m", "floe_cli", "init", str(project))
    run("-m", "floe_cli", "compile", cwd=project)
    run("-m", "floe_cli", "plugins", "check", cwd=project)
    run("-c", TABLE, cwd=project)
    assert run.calls() == []


def test_the_command_line_turns_usage_statistics_of_dependencies_off(run):
    code = "import os, floe_cli.app as a; a.main(['--version']); print(*sorted(os.environ))"
    assert set(OPT_OUTS) <= set(run("-c", code).split())


def test_what_the_user_set_stays():
    environ = {"DO_NOT_TRACK": "0"}
    opt_out_of_usage_statistics(environ)
    assert environ == {**OPT_OUTS, "DO_NOT_TRACK": "0"}


def test_dagster_takes_the_opt_out(run):
    code = f"""
import os
os.environ.update({OPT_OUTS!r})
from dagster._core.telemetry_upload import upload_logs
class Stop:
    def is_set(self):
        raise SystemExit("Dagster would upload usage statistics")
upload_logs(Stop(), raise_errors=True)
"""
    run("-c", code)
    assert run.calls() == []
