"""The state file of a server is valid only while its process is running."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from floe_core.errors import EngineSetupError
from floe_spark.server.connect_server import ServerInfo, server_for, server_status, start_server, stop_server
from floe_spark.server.processes import birth_of
from floe_spark.session.settings import SparkSettings


@pytest.fixture
def settings(tmp_path):
    return SparkSettings("local[*]", tmp_path)


@pytest.fixture
def process():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def leave_state(settings, **changes):
    content = {
        "pid": os.getpid(),
        "born": birth_of(os.getpid()),
        "port": 1,
        "fingerprint": settings.fingerprint,
        "packages": ["a:b:1"],
        "log": "x.log",
        "started_at": 0.0,
        "token": "CANARY",
        **changes,
    }
    settings.state_dir.mkdir(parents=True, exist_ok=True)
    path = settings.state_dir / "connect-server.json"
    path.write_text(json.dumps(content))
    return path


def test_no_server_is_no_server(settings):
    assert server_status(settings.state_dir) is None
    assert stop_server(settings.state_dir) is False


def test_a_running_process_is_the_server(settings, process):
    leave_state(settings, pid=process.pid, born=birth_of(process.pid))
    found = server_status(settings.state_dir)
    assert found is not None
    assert found.pid == process.pid
    assert "CANARY" not in repr(found) + found.address


@pytest.mark.parametrize("changes", [{"pid": 2**22 + 1}, {"born": "another"}], ids=["gone", "pid used again"])
def test_a_dead_server_is_noticed_and_its_traces_cleared(settings, changes):
    path = leave_state(settings, **changes)
    assert server_status(settings.state_dir) is None
    assert not path.exists()
    assert stop_server(settings.state_dir) is False


def test_stop_ends_the_process_and_nothing_else(settings, process):
    leave_state(settings, pid=process.pid, born=birth_of(process.pid))
    assert stop_server(settings.state_dir) is True
    assert process.wait(timeout=10) != 0


def test_stop_leaves_a_process_that_only_has_the_same_number(settings, process):
    leave_state(settings, pid=process.pid, born="another")
    assert stop_server(settings.state_dir) is False
    assert process.poll() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"packages": 1}'])
def test_damaged_traces_are_no_server(settings, text):
    leave_state(settings).write_text(text)
    assert server_status(settings.state_dir) is None


def test_a_server_with_other_settings_or_fewer_packages_is_not_used(settings, process, tmp_path):
    leave_state(settings, pid=process.pid, born=birth_of(process.pid), fingerprint="other")
    assert server_for(settings) is None
    with pytest.raises(EngineSetupError, match="floe spark stop"):
        start_server(settings)
    server = ServerInfo(1, "b", 1, settings.fingerprint, ("a:b:1",), "log", 0.0, "token")
    assert server.fits(settings)
    assert server.fits(SparkSettings("local[*]", tmp_path, packages=("a:b:1",)))
    assert not server.fits(SparkSettings("local[*]", tmp_path, packages=("c:d:1",)))


def test_a_server_that_does_not_listen_is_not_used(settings, process):
    leave_state(settings, pid=process.pid, born=birth_of(process.pid))
    assert server_for(settings) is None


def test_only_a_local_spark_is_kept_warm(tmp_path):
    with pytest.raises(EngineSetupError, match=r"local\[\*\]"):
        start_server(SparkSettings("spark://h:7077", tmp_path))


def test_a_launcher_that_fails_shows_its_log_and_leaves_nothing(settings, monkeypatch, tmp_path):
    from floe_core.errors import EngineUnavailableError
    from floe_spark.java.jars import ResolvedJars
    from floe_spark.java.runtime import find_java
    from floe_spark.server import connect_server

    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    launcher = home / "bin" / "spark-class"
    launcher.write_text('#!/bin/sh\nls -l "$3" | cut -c1-10\necho no such class >&2\nexit 3\n')
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(connect_server, "spark_home", lambda: home)
    monkeypatch.setattr(SparkSettings, "resolve", lambda _self: (find_java(), ResolvedJars((), ())))
    with pytest.raises(EngineUnavailableError) as caught:
        start_server(settings)
    assert "no such class" in str(caught.value)
    # The properties may contain secrets: the file is readable only by its owner, and deleted afterwards.
    assert "-rw-------" in str(caught.value)
    assert {path.name for path in settings.state_dir.iterdir()} == {".lock", "connect-server.log"}
