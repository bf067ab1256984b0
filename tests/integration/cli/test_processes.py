"""floe as a process: signals, pipes and terminals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from floe_testing import warm_python

if TYPE_CHECKING:
    from pathlib import Path

FLOE = [sys.executable, "-m", "floe_cli"]


@pytest.fixture
def shop(tmp_path):
    assert warm_python.run("-m", "floe_cli", "init", "shop", cwd=tmp_path).returncode == 0
    return tmp_path / "shop"


def floe(*arguments: str, cwd: Path, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*FLOE, *arguments], cwd=cwd, check=False, capture_output=True, text=True, **options)


def read_until(terminal: int, expected: str, seconds: float = 60) -> str:
    seen = ""
    deadline = time.monotonic() + seconds
    while expected not in seen and time.monotonic() < deadline:
        try:
            seen += os.read(terminal, 4096).decode()
        except OSError:
            break
    assert expected in seen
    return seen


def test_ctrl_c_ends_with_one_line_and_no_traceback(shop):
    assert floe("namespaces", "create", "bronze", cwd=shop).returncode == 0
    terminal, child = pty.openpty()
    with subprocess.Popen(
        [*FLOE, "namespaces", "delete", "bronze"], cwd=shop, stdin=child, stdout=child, stderr=child
    ) as run:
        os.close(child)
        read_until(terminal, "[y/N]")
        run.send_signal(signal.SIGINT)
        assert "Traceback" not in read_until(terminal, "Interrupted.")
        assert run.wait(30) == 130
    os.close(terminal)
    assert floe("namespaces", "list", cwd=shop).stdout == "bronze\n"


def test_a_person_at_a_terminal_is_asked(shop):
    floe("namespaces", "create", "bronze", cwd=shop)
    terminal, child = pty.openpty()
    with subprocess.Popen(
        [*FLOE, "namespaces", "delete", "bronze"], cwd=shop, stdin=child, stdout=child, stderr=child
    ) as run:
        os.close(child)
        read_until(terminal, "[y/N]")
        os.write(terminal, b"y\n")
        read_until(terminal, "Deleted namespace bronze.")
        assert run.wait(30) == 0
    os.close(terminal)


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    script = f"{sys.executable} -m floe_cli schema export | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines()[0] == "{"
    assert done.stdout.splitlines()[-1] in {"0", "141"}


def test_a_terminal_without_unicode_is_served(shop):
    run = floe("doctor", cwd=shop, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert "Traceback" not in run.stderr
    assert "CHECK" in run.stdout


def test_no_colours_outside_a_terminal(shop):
    run = floe("plugins", "check", "--type", "storage", cwd=shop, env={**os.environ, "TERM": "xterm-256color"})
    assert "\x1b" not in run.stdout + run.stderr


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("validate", 0), ("validate --env nowhere", 1), ("no-such-command", 1), ("--version", 0)],
)
def test_exit_codes(shop, arguments, code):
    run = floe(*arguments.split(), cwd=shop)
    assert run.returncode == code
    assert "Traceback" not in run.stderr


def test_the_log_stays_out_of_the_data(shop):
    run = floe("namespaces", "list", "--verbose", "--output", "json", cwd=shop)
    assert run.stdout.startswith('{\n  "ok": true')
    assert "iceberg.list_namespaces" in run.stderr
    assert floe("namespaces", "list", "--output", "json", cwd=shop).stderr == ""


def test_the_scaffold_runs(shop):
    assert floe("compile", "--connect", cwd=shop).returncode == 0
    compile((shop / "assets.py").read_text(), "assets.py", "exec")
