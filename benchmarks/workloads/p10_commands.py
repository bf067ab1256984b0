"""P10: a Spark command on the command line with a warm server, and ``floe --help``.

Each command is a separate process, as when a user starts it; the warm-up has written the bytecode.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.data import lineitem
from benchmarks.peers import NAMESPACE, PROPERTIES
from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager

TITLE = "a Spark command with a warm server, and --help"
REPEATS = 3
TABLE = f"{NAMESPACE}.t"
PROJECT = """
schema_version: 1
name: warm
compute: {master: "local[2]"}
"""
SCRIPT = Path(__file__).parent / "p10_pyspark.py"


class Commands:
    """A project with one table and a warm server."""

    def prepare(self, folder: Path, scale: float) -> None:
        del scale
        self.folder = folder
        (folder / "floe.yaml").write_text(PROJECT, encoding="utf-8")
        self._environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        self._environ |= {"PYTHONPYCACHEPREFIX": str(folder / "pycache"), "FLOE_PROJECT": str(folder)}
        self._make_table()
        started = time.perf_counter()
        self.floe("spark", "start")
        self.start_seconds = time.perf_counter() - started

    def _make_table(self) -> None:
        with IcebergTableManager.from_artifacts(compile_project(self.folder / "floe.yaml")) as manager:
            manager.create_namespace(NAMESPACE)
            manager.create_table(TABLE, lineitem(1_000).schema, properties=PROPERTIES)
            manager.append(TABLE, lineitem(1_000))

    def reset(self, round_number: int) -> None:
        del round_number

    def floe(self, *arguments: str) -> str:
        """Run a floe command and return its output."""
        return self.output(str(Path(sys.executable).parent / "floe"), *arguments)

    def output(self, *command: str) -> str:
        """Run a command and return its output."""
        done = subprocess.run(command, env=self._environ, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            message = f"{Path(command[0]).name} ended with {done.returncode}: {done.stdout}{done.stderr}"
            raise RuntimeError(message)
        return done.stdout

    def checksum(self) -> str:
        return f"{self.orphans} orphan files"

    def close(self) -> None:
        self.floe("spark", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)


class Floe(Commands):
    """``floe tables sweep --engine spark``: Iceberg's procedure on the warm server, as a dry run."""

    def run(self) -> dict[str, float]:
        commands, helps = [], []
        for _ in range(REPEATS):
            started = time.perf_counter()
            answer = self.floe("tables", "sweep", TABLE, "--engine", "spark", "--output", "json")
            commands.append(time.perf_counter() - started)
            started = time.perf_counter()
            self.floe("--help")
            helps.append(time.perf_counter() - started)
        self.orphans = len(json.loads(answer)["data"]["files"])
        return {
            "first_result_ms": statistics.median(commands) * 1000,
            "help_ms": statistics.median(helps) * 1000,
        }


class PySpark(Commands):
    """The same procedure in a script that uses only PySpark."""

    def prepare(self, folder: Path, scale: float) -> None:
        super().prepare(folder, scale)
        state = json.loads(next((folder / ".floe").rglob("connect-server.json")).read_text(encoding="utf-8"))
        self._url = f"sc://localhost:{state['port']}/;token={state['token']}"
        self._catalog = f"jdbc:sqlite:{folder / '.floe' / 'catalog.db'}"
        self._warehouse = (folder / ".floe" / "warehouse").as_uri()

    def run(self) -> dict[str, float]:
        laps = []
        command = [sys.executable, str(SCRIPT), self._url, self._catalog, self._warehouse, TABLE]
        for _ in range(REPEATS):
            started = time.perf_counter()
            answer = self.output(*command)
            laps.append(time.perf_counter() - started)
        self.orphans = int(answer)
        return {"first_result_ms": statistics.median(laps) * 1000}


ARMS = {"floe": Floe, "pyspark": PySpark}
GOALS: dict[str, float] = {}
FIGURE_GOALS = {"first_result_ms": 1000.0, "help_ms": 150.0}
COMPARED = "first_result_ms"
UNIT = "ms"
