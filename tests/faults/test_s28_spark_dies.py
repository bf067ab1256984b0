"""S28: Spark dies during a write: no partial snapshot, and a rerun commits exactly once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from floe_testing.faults.sites import EmbeddedSite
from floe_testing.spark import standalone_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCRIPT = Path(__file__).with_name("dagster_runs.py")
ROWS = 8
on_embedded = pytest.mark.parametrize("site", ["embedded"], indirect=True)
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SlowRun:
    """A run that writes slowly in a process of its own."""

    def __init__(self, site, root: Path, *parent: str, master: str = "local[2]") -> None:
        environment = os.environ | {
            "FLOE_TEST_ADDRESS": site.address.text(),
            "FLOE_TEST_ROOT": str(root),
            "FLOE_TEST_MASTER": master,
            # Object stores show only complete files; on other stores, the file must be incomplete at this time.
            "FLOE_TEST_PAUSE": "1500" if isinstance(site, EmbeddedSite) else "3000",
        }
        command = [sys.executable, str(SCRIPT), "slow_job", *parent]
        self.site, self.root = site, root
        self.log = (root / "run.log").open("w")
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )

    def wait_for_files(self) -> None:
        """Wait until Spark has begun to write data."""
        deadline = time.monotonic() + 240
        while not self.site.files_below(f"{self.site.folder('slow_orders')}/data", ".parquet"):
            assert self.process.poll() is None, (self.root / "run.log").read_text()[-3000:]
            assert time.monotonic() < deadline, "Spark never began to write"
            time.sleep(0.1)

    def end(self) -> dict | int:
        output, _ = self.process.communicate(timeout=300)
        self.log.close()
        if self.process.returncode < 0:
            return self.process.returncode
        assert self.process.returncode == 0, (self.root / "run.log").read_text()[-3000:]
        return json.loads(output.splitlines()[-1])

    def below(self, word: str) -> list[int]:
        """Return the processes of the run whose command line holds a word."""
        group = os.getpgid(self.process.pid)
        return [pid for pid, line in _processes() if word in line and _group(pid) == group]


def _processes():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue


def _folders(pid: int) -> set[Path]:
    """Return the folder a process works in and those above; an executor works below its cluster's."""
    try:
        folder = Path(f"/proc/{pid}/cwd").resolve()
    except OSError:
        return set()
    return {folder, *folder.parents}


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except OSError:
        return -1


def rows_and_snapshots(site) -> tuple[int, int]:
    table = site.open_manager().load_table(site.name("slow_orders"))
    return table.scan().to_arrow().num_rows, len(table.metadata.snapshots)


def rerun(site, root: Path, *parent: str) -> None:
    (root / "hurry").touch()
    assert SlowRun(site, root, *parent).end()["success"]
    assert rows_and_snapshots(site) == (ROWS, 1)


@pytest.mark.req("TM-14")
def test_s28_a_killed_driver_leaves_no_partial_snapshot_and_a_rerun_lands_once(site, tmp_path):
    run = SlowRun(site, tmp_path)
    run.wait_for_files()
    for jvm in run.below("org.apache.spark.deploy.SparkSubmit"):
        os.kill(jvm, signal.SIGKILL)
    assert not run.end()["success"]
    assert rows_and_snapshots(site) == (0, 0)
    rerun(site, tmp_path, "last")


@on_embedded
@pytest.mark.live
@pytest.mark.req("TM-14")
def test_s28_a_killed_run_with_its_driver_leaves_no_partial_snapshot(site, tmp_path):
    run = SlowRun(site, tmp_path)
    run.wait_for_files()
    os.killpg(run.process.pid, signal.SIGKILL)
    assert run.end() == -signal.SIGKILL
    assert rows_and_snapshots(site) == (0, 0)
    rerun(site, tmp_path, "last", "all")


@on_embedded
@pytest.mark.live
@pytest.mark.req("TM-14")
def test_s28_a_killed_executor_is_made_up_for_by_another(site, tmp_path):
    cluster = tmp_path / "cluster"
    project = tmp_path / "project"
    cluster.mkdir()
    project.mkdir()
    with standalone_cluster(cluster) as master:
        run = SlowRun(site, project, master=master)
        run.wait_for_files()
        executors = [pid for pid, line in _processes() if _EXECUTOR in line and cluster in _folders(pid)]
        assert executors
        os.kill(executors[0], signal.SIGKILL)
        assert run.end()["success"]
    assert rows_and_snapshots(site) == (ROWS, 1)


@on_embedded
@pytest.mark.live
@pytest.mark.req("TM-14")
def test_s28_what_a_killed_client_left_running_on_a_server_does_not_land_beside_its_repetition(
    site, tmp_path, connect_server
):
    script = str(Path(__file__).with_name("connect_append.py"))
    command = [sys.executable, script, site.address.text(), str(tmp_path), connect_server.url]
    with subprocess.Popen([*command, "4000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 240
        while not site.files_below(f"{site.folder('slow_orders')}/data", ".parquet"):
            assert first.poll() is None
            assert time.monotonic() < deadline, "Spark never began to write"
            time.sleep(0.1)
        first.kill()
    # The server keeps writing for ten seconds or more; the repetition must cancel that first.
    second = subprocess.run([*command, "0"], capture_output=True, text=True, check=False, timeout=300)
    assert second.returncode == 0, second.stderr[-3000:]
    assert second.stdout.split() == [str(ROWS), "1"]
    time.sleep(12)
    assert rows_and_snapshots(site) == (ROWS, 1)
