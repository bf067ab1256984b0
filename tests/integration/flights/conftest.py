"""The flights example in a temporary folder, and its expected results, computed from the raw files with pandas."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from floe_cli.app import main
from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

EXAMPLE = Path(__file__).parents[3] / "examples" / "flights"


@dataclass(frozen=True)
class FlightsProject:
    """A copy of the example that commands are run on."""

    folder: Path

    def floe(self, *arguments: str) -> tuple[int, Any]:
        """Run a command and return its exit code and what it says."""
        captured = io.StringIO()
        with redirect_stdout(captured):
            code = main([*arguments, "--project", str(self.folder), "--output", "json"])
        return code, json.loads(captured.getvalue())

    def run(self, select: str, *partitions: str) -> tuple[int, dict[str, Any]]:
        """Run assets; return the exit code and the assets by table."""
        code, answer = self.floe("run", "--select", select, *partitions)
        assert "data" in answer, answer
        return code, {asset["table"]: asset for asset in answer["data"]["assets"]}

    def tables(self) -> IcebergTableManager:
        """Open the tables."""
        path = self.folder / ".floe" / "compiled_artifacts.json"
        return IcebergTableManager.from_artifacts(CompiledArtifacts.from_json_file(path))


def lay_out(folder: Path) -> FlightsProject:
    """Copy the example and compile it."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns(".floe", "landing", "__pycache__"))
    project = FlightsProject(folder)
    code, answer = project.floe("compile")
    assert code == 0, answer
    return project


@pytest.fixture(scope="session", autouse=True)
def _flights_importable():
    """Let tests import the example's package."""
    sys.path.insert(0, str(EXAMPLE))
    yield
    sys.path.remove(str(EXAMPLE))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """Give a copy of the example whose deliveries land in its own folder."""
    folder = tmp_path_factory.mktemp("project") / "flights"
    before = os.environ.get("FLIGHTS_LANDING")
    os.environ["FLIGHTS_LANDING"] = str(folder / "landing")
    yield lay_out(folder)
    os.environ.pop("FLIGHTS_LANDING")
    if before is not None:
        os.environ["FLIGHTS_LANDING"] = before


@pytest.fixture(scope="session")
def raw(_flights_importable) -> pd.DataFrame:
    """Give all flights of the year straight from the package's file."""
    from flights.feed import source_folder

    frame = pd.read_csv(source_folder() / "flights.csv.zip")
    frame["flight_date"] = pd.to_datetime(frame[["year", "month", "day"]]).dt.date
    return frame
