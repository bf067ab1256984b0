"""The Spark suite on a standalone cluster and over Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from floe_testing.spark import ENGINE_VARIABLE

SUITE = Path(__file__).parents[2] / "integration" / "spark"
# The driver turns names into statements, and a cluster uses the same driver as the local suite; Connect does not.
OF_THE_DRIVER = [f"--ignore={SUITE / name}" for name in ("test_hostile_names.py", "test_column_name_doors.py")]


@pytest.mark.live
@pytest.mark.req("SC-009")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("engine", "without"), [("standalone", OF_THE_DRIVER), ("connect", [])])
def test_the_same_suite_passes(engine, without):
    # PySpark allows only one kind of Spark per process, so this runs in a separate process.
    command = [sys.executable, "-m", "pytest", str(SUITE), "-q", "-p", "no:cacheprovider", *without]
    run = subprocess.run(
        command, env=os.environ | {ENGINE_VARIABLE: engine}, check=False, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]
