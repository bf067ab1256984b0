"""Spark and the Arrow engine on one table in an emulated Google Cloud Storage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.live
@pytest.mark.req("PL-05")
@pytest.mark.timeout(600)
def test_both_engines_share_a_table(fake_gcs, tmp_path):
    # The driver of this process has no jars for Google Cloud, and PySpark allows only one driver per process.
    script = Path(__file__).with_name("rows_on_gcs.py")
    command = [sys.executable, str(script), str(tmp_path), fake_gcs["bucket"], fake_gcs.url]
    environment = os.environ | {"LAKE_SECRET": "token-of-the-test"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["16", "16"]
