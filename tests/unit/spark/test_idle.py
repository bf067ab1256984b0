"""A warm server stops after a while without clients, but never while one is using it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time

import pytest

from floe_spark.server.connect_server import join_server, server_status
from floe_spark.server.idle import Lease, in_use, start_watcher
from floe_spark.server.processes import birth_of
from floe_spark.session.settings import SparkSettings

IDLE_SECONDS = 1.0
LONG_SECONDS = 60.0
CLIENT = """
import pathlib, sys, time
from floe_spark.server.idle import Lease
lease = Lease(pathlib.Path(sys.argv[1]))
print("attached", flush=True)
time.sleep(600)
"""


@pytest.fixture
def server():
    """A process that stands for Spark."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def state_dir(tmp_path, server):
    """The traces of a server that runs."""
    settings = SparkSettings("local[*]", tmp_path)
    settings.state_dir.mkdir(parents=True)
    content = {"pid": server.pid, "born": birth_of(server.pid), "port": 1, "fingerprint": settings.fingerprint}
    content |= {"packages": [], "log": "x.log", "started_at": 0.0, "token": "t"}
    (settings.state_dir / "connect-server.json").write_text(json.dumps(content))
    return settings.state_dir


def watch(server, state_dir, seconds=IDLE_SECONDS):
    start_watcher(state_dir, seconds / 60, pid=server.pid, born=birth_of(server.pid))


def test_a_server_without_clients_ends(server, state_dir):
    watch(server, state_dir)
    assert server.wait(LONG_SECONDS) != 0
    deadline = time.monotonic() + LONG_SECONDS
    while (state_dir / "connect-server.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert server_status(state_dir) is None


def test_a_server_with_a_client_stays_until_the_client_leaves(server, state_dir):
    with in_use(state_dir):
        watch(server, state_dir)
        with pytest.raises(subprocess.TimeoutExpired):
            server.wait(3 * IDLE_SECONDS)
    assert server.wait(LONG_SECONDS) != 0


def test_a_client_that_was_killed_keeps_no_server_alive(server, state_dir):
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(state_dir)], stdout=subprocess.PIPE, text=True)
    assert client.stdout.readline() == "attached\n"
    watch(server, state_dir)
    with pytest.raises(subprocess.TimeoutExpired):
        server.wait(3 * IDLE_SECONDS)
    client.kill()
    client.wait()
    client.stdout.close()
    assert server.wait(LONG_SECONDS) != 0


def test_a_server_whose_project_was_deleted_ends(server, state_dir):
    lease = Lease(state_dir)
    watch(server, state_dir, LONG_SECONDS)
    shutil.rmtree(state_dir)
    assert server.wait(LONG_SECONDS) != 0
    lease.release()


def test_a_server_that_does_not_answer_is_not_joined_and_holds_no_lease(tmp_path, server, state_dir):
    assert join_server(SparkSettings("local[*]", tmp_path)) is None
    watch(server, state_dir)
    assert server.wait(LONG_SECONDS) != 0


def test_without_a_server_nothing_is_left_behind(tmp_path):
    assert join_server(SparkSettings("local[*]", tmp_path)) is None
    assert list(tmp_path.iterdir()) == []


def test_a_lease_is_given_back_once(state_dir):
    lease = Lease(state_dir)
    lease.release()
    lease.release()
