"""docs/polaris.md, step by step, on a REST catalog that requires tokens."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

import pytest

from floe_testing import warm_python
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET

GUIDE = Path(__file__).parents[3] / "docs" / "polaris.md"


@pytest.fixture
def floe(tmp_path, monkeypatch):
    monkeypatch.setenv("FLOE_CACHE_DIR", str(tmp_path / "cache"))

    def run(*arguments, folder=tmp_path, **environment):
        return warm_python.run("-m", "floe_cli", *arguments, cwd=folder, env={**os.environ, **environment})

    return run


@pytest.fixture
def project(floe, gateway, tmp_path):
    """Follow the guide up to its commands, with the gateway's address in place of Polaris's."""
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    assert floe("init", "lakehouse").returncode == 0
    [section] = re.findall(r"```yaml\n(catalog:\n  type: polaris.*?)```", GUIDE.read_text(), re.DOTALL)
    section = section.replace("http://127.0.0.1:8181/api/catalog", gateway.url).replace(
        "client_id: root", f"client_id: {CLIENT_ID}"
    )
    file = tmp_path / "lakehouse" / "floe.yaml"
    text = file.read_text()
    start = re.search(r"^catalog:\n(?:[ #].*\n|\n)*", text, re.MULTILINE)
    file.write_text(text.replace(start.group(0), section + "\n") if start else f"{text}\n{section}")
    return file.parent


@pytest.mark.req("SC-001", "SC-006")
def test_the_guide_leads_to_a_connection_in_minutes(floe, project):
    started = time.monotonic()
    for command in (("catalog", "login"), ("catalog", "ping"), ("catalog", "config")):
        done = floe(*command, "-o", "json", folder=project, POLARIS_SECRET=CLIENT_SECRET)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout)["ok"]
        assert CLIENT_SECRET not in done.stdout + done.stderr
    assert time.monotonic() - started < 300


@pytest.mark.req("SC-006")
def test_a_wrong_secret_is_explained_by_ping_and_by_the_doctor(floe, project):
    ping = floe("catalog", "ping", folder=project, POLARIS_SECRET="canary-wrong")
    assert ping.returncode == 1
    doctor = floe("doctor", folder=project, POLARIS_SECRET="canary-wrong")
    for said in (ping.stdout + ping.stderr, doctor.stdout + doctor.stderr):
        assert "client_secret" in said
        assert "canary" not in said
