"""S11: rerunning a step with an unknown outcome finds the first snapshot and writes nothing."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from floe_testing import warm_python

SCRIPT = Path(__file__).with_name("dagster_runs.py")
ROWS = 8


class Runs:
    """Runs jobs in processes of their own and looks at what became of the table."""

    def __init__(self, root, site) -> None:
        self.root, self.site = root, site

    def __call__(self, job: str, *parent: str) -> dict | int:
        environment = os.environ | {"FLOE_TEST_ROOT": str(self.root), "FLOE_TEST_ADDRESS": self.site.address.text()}
        done = warm_python.run(str(SCRIPT), job, *parent, env=environment)
        if done.returncode < 0:
            return done.returncode
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    def rows_and_snapshots(self, name: str) -> tuple[int, int]:
        table = self.site.open_manager().load_table(self.site.name(name))
        return table.scan().to_arrow().num_rows, len(table.metadata.snapshots)


@pytest.fixture
def runs(site, tmp_path):
    """Give a way to run jobs."""
    return Runs(tmp_path, site)


on_embedded = pytest.mark.parametrize("site", ["embedded"], indirect=True)


@on_embedded
@pytest.mark.req("TM-14")
def test_s11_a_retried_step_finds_its_own_write(runs):
    (runs.root / "lose").touch()
    assert runs("patient_job")["success"]
    assert runs.rows_and_snapshots("patient_orders") == (ROWS, 1)


@pytest.mark.req("TM-14")
def test_s11_a_re_executed_run_finds_its_own_write(runs):
    (runs.root / "lose").touch()
    first = runs("orders_job")
    assert not first["success"]
    second = runs("orders_job", first["run_id"])
    assert second["success"]
    assert runs.rows_and_snapshots("orders") == (ROWS, 1)


@pytest.mark.req("TM-14")
def test_s11_a_killed_run_is_taken_up_where_it_was(runs):
    (runs.root / "kill").touch()
    assert runs("orders_job") == -signal.SIGKILL
    assert runs.rows_and_snapshots("orders") == (ROWS, 1)
    assert runs("orders_job", "last", "all")["success"]
    assert runs.rows_and_snapshots("orders") == (ROWS, 1)


@on_embedded
@pytest.mark.req("TM-14")
def test_s11_running_all_steps_of_a_failed_run_again_repeats_none_that_had_landed(runs):
    (runs.root / "break").touch()
    first = runs("orders_job")
    assert not first["success"]
    (runs.root / "break").unlink()
    second = runs("orders_job", first["run_id"], "all")
    assert second["success"]
    assert runs.rows_and_snapshots("orders") == (ROWS, 1)
    # The chain has succeeded, so running it again is new work.
    assert runs("orders_job", second["run_id"], "all")["success"]
    assert runs.rows_and_snapshots("orders") == (2 * ROWS, 2)
    assert runs("orders_job")["success"]
    assert runs.rows_and_snapshots("orders") == (3 * ROWS, 3)


@on_embedded
def test_s38_a_gate_that_is_run_again_after_its_rows_were_cleared_does_not_pass(runs):
    (runs.root / "break").touch()
    first = runs("gated_job")
    assert not first["success"]
    (runs.root / "break").unlink()
    manager, name = runs.site.open_manager(), runs.site.name("gated")
    [branch] = [ref.name for ref in manager.list_refs(name) if ref.name != "main"]
    manager.remove_branch(name, branch)
    again = runs("gated_job", first["run_id"])
    assert not again["success"]
    assert f"The rows on branch '{branch}' of table '{name}' were removed" in again["reasons"][0]
    assert manager.scan(name).num_rows == 0


@on_embedded
def test_s38_a_gate_that_is_run_again_publishes_the_rows_that_wait(runs):
    (runs.root / "break").touch()
    first = runs("gated_job")
    assert not first["success"]
    (runs.root / "break").unlink()
    assert runs("gated_job", first["run_id"])["success"]
    assert runs.site.open_manager().scan(runs.site.name("gated")).num_rows == ROWS
