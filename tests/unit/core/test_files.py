"""Files are replaced atomically, and a lock file has one holder at a time."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading

import pytest

from floe_core.runtime.files import exclusive, lock_shared, try_lock_exclusive, write_atomically, write_together

HOLDER = """
import pathlib, sys
from floe_core.runtime.files import exclusive
with exclusive(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path, durable):
    path = tmp_path / "new" / "state.json"
    write_atomically(path, "old", durable=durable)
    write_atomically(path, "ñew", durable=durable)
    assert path.read_text(encoding="utf-8") == "ñew"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(tmp_path, monkeypatch, failing):
    path = tmp_path / "state.json"
    write_atomically(path, "old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail) if failing == "fsync" else monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, "new", durable=True)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_only_a_durable_write_is_flushed_to_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    write_atomically(tmp_path / "cache", "text", mode=0o600)
    assert flushed == []
    write_atomically(tmp_path / "journal", "text", durable=True)
    assert len(flushed) == 1


def test_a_file_with_a_mode_is_private_until_the_mode_is_set(tmp_path, monkeypatch):
    path, seen = tmp_path / "launcher", []
    chmod = type(path).chmod

    def watched(self, mode):
        seen.append(mode_of(self))
        chmod(self, mode)

    monkeypatch.setattr(type(path), "chmod", watched)
    write_atomically(path, "text", mode=0o755)
    assert seen == [0o600]
    assert mode_of(path) == 0o755


def test_a_file_without_a_mode_goes_by_the_umask(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "artifacts.json", "{}")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "artifacts.json") == 0o640


def test_files_are_written_together_or_not_at_all(tmp_path):
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UnicodeEncodeError):
        write_together(tmp_path, {"a": "new", "b": "\udc80"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "mine")]
    write_together(tmp_path, {"a": "new", "b": "also"})
    assert sorted((path.name, path.read_text()) for path in tmp_path.iterdir()) == [("a", "new"), ("b", "also")]


def test_a_lock_keeps_other_threads_out(tmp_path):
    inside, most = [], []

    def work():
        with exclusive(tmp_path / "sub" / ".lock"):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert most == [1] * 8


def test_a_lock_ends_with_the_process_that_holds_it(tmp_path):
    path = tmp_path / ".lock"
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    entered = threading.Event()

    def enter():
        with exclusive(path):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.3)
    holder.kill()
    holder.communicate()
    assert entered.wait(30)
    thread.join(30)


def test_shared_locks_keep_out_whoever_wants_a_file_alone(tmp_path):
    path = tmp_path / "in-use"
    path.touch()
    with path.open() as first, path.open() as second, path.open() as third:
        lock_shared(first.fileno())
        lock_shared(second.fileno())
        assert not try_lock_exclusive(third.fileno())
        first.close()
        second.close()
        assert try_lock_exclusive(third.fileno())
