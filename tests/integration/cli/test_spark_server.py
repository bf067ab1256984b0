"""floe with Spark: a new project runs, and the warm server is started, found again and stopped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from floe_spark.server.processes import birth_of
from floe_testing import warm_python

pytestmark = pytest.mark.spark


def floe(*arguments: str, cwd: Path) -> Any:
    run = warm_python.run("-m", "floe_cli", *arguments, "-o", "json", cwd=cwd)
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(run.stdout)["data"]


@pytest.fixture
def shop(tmp_path):
    floe("init", "shop", cwd=tmp_path)
    yield tmp_path / "shop"
    floe("spark", "stop", cwd=tmp_path / "shop")


def test_a_new_project_runs_as_its_readme_says(shop):
    floe("compile", cwd=shop)
    states = {asset["table"]: asset["state"] for asset in floe("run", cwd=shop)["assets"]}
    assert states == {"bronze.orders": "published", "gold.daily_revenue": "written"}
    days = floe("tables", "scan", "gold.daily_revenue", cwd=shop)["rows"]
    assert [row["orders"] for row in days] == [8] * 7
    assert [report["items"] for report in floe("tables", "drift", cwd=shop)] == [[], []]


def test_a_warm_spark_starts_once_is_seen_and_stops(shop):
    assert floe("spark", "status", cwd=shop) == {
        "running": False,
        "pid": None,
        "address": None,
        "started_at": None,
        "idle_timeout_minutes": None,
        "log": None,
    }
    started = floe("spark", "start", cwd=shop)
    assert started["running"] is True
    assert started["address"].startswith("sc://127.0.0.1:")
    assert started["idle_timeout_minutes"] == 30
    assert floe("spark", "start", cwd=shop) == started
    assert floe("spark", "status", cwd=shop) == started
    state = json.loads(Path(shop, ".floe/spark/connect-server.json").read_text())
    assert state["token"] not in json.dumps(started)
    watcher, born = state["watcher"]
    assert birth_of(watcher) == born
    assert floe("spark", "stop", cwd=shop) == {"stopped": True}
    assert birth_of(watcher) != born
    assert floe("spark", "stop", cwd=shop) == {"stopped": False}
    assert floe("spark", "status", cwd=shop)["running"] is False


@pytest.mark.live
def test_a_warm_spark_ends_when_no_command_uses_it(shop):
    with (shop / "floe.yaml").open("a") as stream:
        stream.write("\ncompute: {idle_timeout_minutes: 0.05}\n")
    pid = floe("spark", "start", cwd=shop)["pid"]
    deadline = time.monotonic() + 60
    while birth_of(pid) is not None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert floe("spark", "status", cwd=shop)["running"] is False
