"""Checked partitions in concurrent step processes, on one Spark Connect server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable
from sqlalchemy import create_engine

pytestmark = [
    pytest.mark.live,
    pytest.mark.spark,
    pytest.mark.timeout(900),
    # A server outlives the process that started it, and Python warns when that process drops its handle.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SCRIPT = Path(__file__).with_name("gated_runs.py")


def metadata_of(root):
    [path] = root.rglob("catalog.db")
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        # The table of check results is written as well.
        found = connection.exec_driver_sql("select metadata_location from iceberg_tables where table_name = 'orders'")
        location = found.scalar_one()
    engine.dispose()
    return StaticTable.from_metadata(location)


def run_all(root, server):
    environment = os.environ | {"FLOE_TEST_ROOT": str(root), "FLOE_TEST_MASTER": server.url}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment, check=False, timeout=800
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.req("FR-027")
def test_partitions_that_run_at_once_in_step_processes_are_all_published_but_the_bad_one(tmp_path, connect_server):
    (tmp_path / "bad").write_text("2024-01-03")
    ended = run_all(tmp_path, connect_server)
    assert [key for key, success in ended.items() if not success] == ["2024-01-03"]
    table = metadata_of(tmp_path)
    rows = {row["day"].day: row["id"] for row in table.scan().to_arrow().to_pylist()}
    assert rows == {1: 1, 2: 1, 4: 1}
    held = [name for name in table.metadata.refs if name != "main"]
    assert len(held) == 1
    assert held[0].startswith("audit.bronze_orders.2024-01-03.")
    # Assets downstream of the bad partition never ran; the others read what had just been published.
    assert sorted(path.name for path in tmp_path.glob("read-*")) == [f"read-2024-01-0{n}" for n in (1, 2, 4)]
    assert {path.read_text() for path in tmp_path.glob("read-*")} == {"1"}
