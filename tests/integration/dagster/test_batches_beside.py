"""Partitions that run in parallel, in separate processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from floe_core.compile import compile_project
from floe_dagster.runs.batch_runs import run_batches
from floe_dagster.runs.batches import batches_of
from floe_dagster.runs.dead_runs import dead_runs
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.pipeline import Due, PartitionChoice, Pipeline
from floe_iceberg import IcebergTableManager

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore::dagster.BetaWarning"),
]

ASSETS = """
    import datetime as dt
    import os
    import signal
    import time
    from pathlib import Path

    import dagster as dg
    import pyarrow as pa

    FOLDER = Path(__file__).parent
    DAYS = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-01-07")

    @dg.asset(key_prefix="bronze", partitions_def=DAYS)
    def raw(context: dg.AssetExecutionContext) -> pa.Table:
        day = context.partition_key
        (FOLDER / f"begun-{day}").write_text(str(os.getpid()))
        if (FOLDER / "meet").exists():
            # Two are here at once, or nobody goes on.
            until = time.monotonic() + 60
            while len(list(FOLDER.glob("begun-*"))) < 2:
                assert time.monotonic() < until, "nobody came"
                time.sleep(0.05)
        if (FOLDER / f"fail-{day}").exists():
            raise ValueError(f"no source for {day}")
        if (FOLDER / f"die-{day}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        while (FOLDER / "hang").exists():
            time.sleep(0.05)
        return pa.table({"day": [dt.date.fromisoformat(day)], "process": [os.getpid()]})

    @dg.asset(key_prefix="silver", partitions_def=DAYS, ins={"raw": dg.AssetIn(["bronze", "raw"])})
    def clean(raw: pa.Table) -> pa.Table:
        return raw

    @dg.asset(key_prefix="gold", metadata={"write_mode": "overwrite"}, ins={"clean": dg.AssetIn(["silver", "clean"])})
    def total(clean: pa.Table) -> pa.Table:
        return pa.table({"days": [clean.num_rows]})
"""
DAYS = [f"2026-01-{day:02}" for day in range(1, 7)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for variable in ("FLOE_PROJECT", "FLOE_ENV", "FLOE_PER_TENANT"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "assets_beside.py").write_text(dedent(ASSETS))
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: shop\norchestration: {module: assets_beside}\n")
    monkeypatch.delitem(sys.modules, "assets_beside", raising=False)
    return tmp_path


def run(folder, *, processes=2, told=None):
    artifacts = compile_project(folder)
    pipeline = Pipeline.of(artifacts)
    with open_instance(artifacts) as instance:
        batches = batches_of(pipeline, pipeline.keys, PartitionChoice(due=Due.ALL), instance)
        listener = None if told is None else lambda batch, assets: told.append((str(batch), assets))
        return batches, run_batches(pipeline, instance, batches, processes=processes, listener=listener)


def rows(folder, table):
    with IcebergTableManager.from_artifacts(compile_project(folder)) as tables:
        return tables.scan(table).to_pylist() if tables.table_exists(table) else []


def test_partitions_are_written_at_the_same_time_and_each_once(folder):
    (folder / "meet").touch()
    told = []
    batches, tried = run(folder, told=told)
    assert [one.batch for one in tried] == batches
    assert all(one.outcome.success for one in tried)
    for table in ("bronze.raw", "silver.clean"):
        assert sorted(str(row["day"]) for row in rows(folder, table)) == DAYS
    assert rows(folder, "gold.total") == [{"days": 6}]
    processes = {row["process"] for row in rows(folder, "bronze.raw")}
    assert len(processes) == 2
    assert os.getpid() not in processes
    states = {batch: {asset.state.value for asset in assets} for batch, assets in told}
    assert states == {batch: {"written"} for batch in [*DAYS, ""]}


def test_after_a_failure_no_other_partition_is_begun(folder):
    (folder / "fail-2026-01-02").touch()
    (folder / "meet").touch()
    batches, tried = run(folder)
    outcomes = {str(one.batch): one.outcome for one in tried}
    assert not outcomes["2026-01-02"].success
    assert outcomes["2026-01-01"].success
    [raw, clean] = outcomes["2026-01-02"].assets
    assert "no source for 2026-01-02" in raw.reason
    assert clean.state.value == "not run"
    # The batch that ran in parallel may have been followed by another before the failure was noticed.
    assert len(tried) < len(batches) - 2
    assert sorted(str(row["day"]) for row in rows(folder, "silver.clean")) == sorted(set(outcomes) - {"2026-01-02"})
    (folder / "fail-2026-01-02").unlink()
    assert all(one.outcome.success for one in run(folder)[1])
    assert sorted(str(row["day"]) for row in rows(folder, "silver.clean")) == DAYS


def test_a_killed_process_is_told_and_its_run_is_cleared_by_the_next(folder):
    (folder / "die-2026-01-01").touch()
    (folder / "hang").touch()
    _, tried = run(folder)
    assert [str(one.batch) for one in tried] == ["2026-01-01", "2026-01-02"]
    for one in tried:
        assert not one.outcome.success
        assert one.outcome.failure.error == "EngineError"
        assert "ended unexpectedly" in one.outcome.failure.reason
    assert rows(folder, "silver.clean") == []


SCRIPT = """
import sys
from pathlib import Path

from floe_core.compile import compile_project
from floe_dagster.runs.batch_runs import run_batches
from floe_dagster.runs.batches import batches_of
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.pipeline import Due, PartitionChoice, Pipeline

if __name__ == "__main__":
    artifacts = compile_project(Path(sys.argv[1]))
    pipeline = Pipeline.of(artifacts)
    with open_instance(artifacts) as instance:
        batches = batches_of(pipeline, pipeline.keys, PartitionChoice(due=Due.ALL), instance)
        try:
            run_batches(pipeline, instance, batches, processes=2)
        except KeyboardInterrupt:
            sys.exit(130)
"""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_workers_end_with_the_command_and_leave_nothing_behind(folder, stop):
    (folder / "hang").touch()
    script = folder / "run_beside.py"
    script.write_text(SCRIPT)
    command = subprocess.Popen(
        [sys.executable, str(script), str(folder)], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 300
    while len(begun := list(folder.glob("begun-*"))) != 2 or not all(file.read_text() for file in begun):
        assert time.monotonic() < until, command.poll()
        time.sleep(0.1)
    workers = [int(file.read_text()) for file in begun]
    os.killpg(command.pid, stop)
    _, said = command.communicate(timeout=120)
    assert command.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
    assert "Traceback" not in said
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in workers):
        assert time.monotonic() < until, "a worker outlived its command"
        time.sleep(0.1)
    artifacts = compile_project(folder)
    with open_instance(artifacts) as instance:
        assert len(dead_runs(instance)) == (0 if stop is signal.SIGINT else 2)
    assert rows(folder, "bronze.raw") == []
