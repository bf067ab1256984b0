"""A process is identified by its id and start time, so that a reused id is not mistaken for it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from floe_core.runtime.processes import ProcessMark, birth_of
from floe_spark.server.processes import end_process

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture
def child():
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield process
    process.kill()
    process.wait()


def test_a_birth_is_the_same_for_whoever_looks(child):
    code = "import sys; from floe_core.runtime.processes import birth_of; print(birth_of(int(sys.argv[1])))"
    seen = subprocess.run([sys.executable, "-c", code, str(child.pid)], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == birth_of(child.pid)


@on_linux
def test_marks_and_births_of_earlier_versions_stay_valid(child):
    ticks = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert birth_of(child.pid) == ticks
    assert ProcessMark._of(child.pid).started == hashlib.sha256(f"{boot} {ticks}".encode()).hexdigest()[:8]


@on_linux
def test_a_birth_does_not_depend_on_the_clock(child, monkeypatch):
    born, boot_time, asked = birth_of(child.pid), psutil.boot_time, []

    def jumping():
        asked.append(1)
        return boot_time() + (3600 if len(asked) == 1 else 0)

    monkeypatch.setattr(psutil, "boot_time", jumping)
    assert birth_of(child.pid) == born


@pytest.mark.parametrize("pid", [-1, 10**30])
def test_a_number_that_is_no_process_has_no_birth(pid):
    assert birth_of(pid) is None


def test_a_process_that_ended_has_no_birth_even_before_its_parent_takes_notice(child):
    mark = ProcessMark._of(child.pid)
    assert not mark.dead
    child.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert birth_of(child.pid) is None
    assert mark.dead
    child.wait()
    assert birth_of(child.pid) is None


def test_a_later_process_of_the_same_id_is_left_alone(child):
    end_process(child.pid, "another birth")
    assert child.poll() is None
    end_process(child.pid, birth_of(child.pid))
    assert child.wait(10) == -signal.SIGTERM


def test_a_process_that_ignores_the_request_to_end_is_killed(monkeypatch):
    monkeypatch.setattr("floe_spark.server.processes._STOP_SECONDS", 0.5)
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "up\n"
        end_process(process.pid, birth_of(process.pid))
        assert process.wait(10) == -signal.SIGKILL
