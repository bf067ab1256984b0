"""S10: kill -9 at every I/O step of a write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "kill_steps.py"
AFTER = {"append": [1, 2, 3, 5, 6], "overwrite": [5], "upsert": [1, 2, 3, 5], "delete": [1]}


@pytest.mark.req("TM-14", "TM-16")
@pytest.mark.parametrize(
    ("site", "operation"),
    [
        *(("embedded", operation) for operation in AFTER),
        *(pytest.param("rest", operation, marks=pytest.mark.live) for operation in ("append", "upsert")),
    ],
    indirect=["site"],
)
def test_s10_a_killed_write_leaves_the_table_as_it_was_or_complete(site, operation):
    run = subprocess.run(
        [sys.executable, str(SCRIPT), site.address.text(), operation],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    report = json.loads(run.stdout)
    *before, last = report["states"]
    assert len(before) >= 6, "every file and the swap are steps of their own"
    assert all(state == [1, 2, 3] for state in before)
    assert last == AFTER[operation]
    assert report["sweep"]["swept"] > 0
    assert report["sweep"]["left"] == 0
    assert report["sweep"]["rows"] == len(AFTER[operation])
