"""docs/walk.md lists the files that the four operations use."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.spark
def test_the_walk_through_the_house_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "dev/walk.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
