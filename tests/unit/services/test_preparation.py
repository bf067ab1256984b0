"""Servers are prepared before the tests that need them, and a failure is reported once."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from floe_testing.services.host import preparation
from floe_testing.services.host.preparation import BY_FIXTURE, Preparation, prepare
from floe_testing.services.host.runner import ServiceError

CONFTEST = """
import time
from floe_testing.services.host import preparation
from floe_testing.services.host.preparation import Preparation
from floe_testing.services.host.runner import ServiceError

pytest_plugins = ("floe_testing.services.host.fixtures",)

def prepare(dev):
    {action}

preparation.BY_FIXTURE["minio"] = Preparation("minio", lambda: None, prepare)
"""
TESTS = """
import pytest

@pytest.fixture(scope="session")
def minio():
    return "a server"

@pytest.mark.parametrize("number", range(5))
def test_reading(minio, number):
    assert minio
"""


@pytest.fixture
def suite(tmp_path):
    """Run pytest on a small suite whose server is prepared in some way."""

    def run(action, *options):
        (tmp_path / "conftest.py").write_text(CONFTEST.format(action=action))
        (tmp_path / "test_it.py").write_text(TESTS)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ".", *options]
        return subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True)

    return run


def test_preparation_is_outside_of_every_time_limit(suite):
    done = suite("time.sleep(6)", "--timeout", "5")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "minio: ready after " in done.stdout
    assert "5 passed" in done.stdout


def test_a_failed_preparation_is_one_failure_with_its_reason(suite):
    done = suite("raise ServiceError('no compiler here')")
    assert done.returncode == 1
    assert "Exit: Cannot prepare minio: no compiler here" in done.stdout + done.stderr
    assert "failed" not in done.stdout
    assert "passed" not in done.stdout


def test_a_long_preparation_shows_that_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(preparation, "_REPORT_SECONDS", 0.2)
    monkeypatch.setattr(preparation, "_QUICK_SECONDS", 0.0)
    lines = []
    Preparation("slow", lambda: None, lambda _dev: time.sleep(1)).run(tmp_path, lines.append)
    assert lines[0].startswith("slow: still preparing after ")
    assert lines[-1].startswith("slow: ready after ")


def test_what_this_machine_lacks_is_left_to_the_tests(tmp_path, monkeypatch):
    def refuse(_dev):
        msg = "never asked"
        raise ServiceError(msg)

    monkeypatch.setitem(BY_FIXTURE, "minio", Preparation("minio", lambda: "Go is not installed", refuse))
    lines = []
    assert prepare(["minio", "no server at all"], tmp_path, lines.append) == {}
    assert lines == ["minio: skipped, Go is not installed"]
