"""Runs the project's checks in order and prints a summary.

Usage: python dev/check.py gates tests coverage wheel requirements live

Servers are fetched and built in the background during the gates and the tests that need no server, which run first.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DEV = ROOT / ".floe-dev"
WORKERS = os.environ.get("WORKERS", "2")
COVERAGE_FLOOR = "85"
MEMORY = Path("/dev/shm")  # noqa: S108 - a uniquely named folder is created in it
ROOM = 8 * 2**30
# The packages whose coverage the requirements (SC-010) mention explicitly.
COVERED_PACKAGES = ("floe_iceberg", "floe_polaris")

GATES = {
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "lint": ["ruff", "check", "--quiet", "."],
    "types": ["mypy"],
    "layers": ["lint-imports", "--no-cache"],
    "dependencies": ["deptry", "src"],
    "security": ["bandit", "--quiet", "--recursive", "--configfile", "pyproject.toml", "src"],
}


@dataclass(frozen=True)
class Outcome:
    """Result of one check."""

    name: str
    ok: bool
    seconds: float
    detail: str = ""


def run(name: str, command: list[str], *, show: bool = False) -> Outcome:
    """Run a command; its output is shown if it fails, or always with ``show``."""
    started = time.monotonic()
    print(f"── {name}", flush=True)
    process = subprocess.run(
        command, cwd=ROOT, check=False, text=True, capture_output=not show, env=os.environ | {"COLUMNS": "160"}
    )
    ok = process.returncode == 0
    if not ok and not show:
        print(process.stdout, process.stderr, sep="\n", flush=True)
    return Outcome(name, ok, time.monotonic() - started)


def gates() -> list[Outcome]:
    """Check style, types, import contracts, dependencies and security."""
    return [run(name, command) for name, command in GATES.items()]


def pytest(name: str, *arguments: str) -> Outcome:
    """Run pytest, print the slowest files, and keep the last line of output for the summary."""
    DEV.mkdir(exist_ok=True)
    log, report = DEV / f"{name}.log", DEV / f"{name}.xml"
    started = time.monotonic()
    print(f"── {name}", flush=True)
    # Unbuffered; otherwise, no output appears until a full page of dots.
    command = [sys.executable, "-u", "-m", "pytest", "-q", f"--junitxml={report}", *arguments]
    with tests_folder() as folder, log.open("w", encoding="utf-8") as stream:
        # Temporary files outside pytest's folders go there as well.
        command += [f"--basetemp={folder}/tests"] if folder else []
        environ = os.environ | ({"TMPDIR": str(folder)} if folder else {})
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for line in process.stdout or ():
            stream.write(line)
            print(line, end="", flush=True)
        code = process.wait()
    show_slowest(report)
    closing = re.findall(r"^=*\s*(\d+ (?:passed|failed|error).*?)\s*=*$", log.read_text(encoding="utf-8"), re.MULTILINE)
    return Outcome(name, code == 0, time.monotonic() - started, closing[-1] if closing else f"exit code {code}")


@contextmanager
def tests_folder() -> Iterator[Path | None]:
    """Provide a folder in memory if there is enough space: test files are small, and disks are slow."""
    if not os.access(MEMORY, os.W_OK) or shutil.disk_usage(MEMORY).free < ROOM:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="floe-tests-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def show_slowest(report: Path, count: int = 15) -> None:
    """Print the files whose tests took longest, including setup."""
    if not report.exists():
        return
    seconds: Counter[str] = Counter()
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by pytest above
        seconds[re.sub(r"\.Test\w+$", "", case.get("classname", ""))] += float(case.get("time", 0))
    print(f"── slowest files of {sum(seconds.values()):.0f} s")
    for name, took in seconds.most_common(count):
        print(f"{took:8.1f} s  {name}", flush=True)


class Servers:
    """Fetches and builds the servers in the background, outside the time limits of tests."""

    def __init__(self, which: str) -> None:
        """Start the preparation; its output goes to a log file."""
        DEV.mkdir(exist_ok=True)
        self._log = DEV / "prepare.log"
        with self._log.open("w", encoding="utf-8") as stream:
            command = [sys.executable, "dev/services.py", "prepare", which]
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT)

    def outcome(self) -> Outcome:
        """Wait for the preparation; print its output if it failed."""
        ok = self._process.wait() == 0
        said = self._log.read_text(encoding="utf-8")
        if not ok:
            print("── servers", said, sep="\n", flush=True)
        ready = re.findall(r"(\S+): ready after (\d+) s", said)
        return Outcome("servers", ok, max((float(took) for _, took in ready), default=0.0), "in the background")


def tests(servers: Servers) -> list[Outcome]:
    """Run all tests except the live suite."""
    suite = pytest("tests", "-m", "not live", "-n", WORKERS, "--dist=loadgroup")
    return [servers.outcome(), suite]


def coverage(servers: Servers) -> list[Outcome]:
    """Run the same tests with line coverage, which takes 50 % longer."""
    counted = ["--cov", "--cov-report=term:skip-covered", f"--cov-fail-under={COVERAGE_FLOOR}"]
    suite = pytest("coverage", "-m", "not live", "-n", WORKERS, "--dist=loadgroup", *counted)
    floor = f"--fail-under={COVERAGE_FLOOR}"
    return [
        servers.outcome(),
        suite,
        *(
            run(f"coverage of {package}", ["coverage", "report", f"--include=src/{package}/*", floor])
            for package in COVERED_PACKAGES
        ),
    ]


def live(servers: Servers) -> list[Outcome]:
    """Run the live suite, with more servers and engines."""
    chromium = run("chromium", [sys.executable, "dev/chromium.py"])
    suite = pytest("live", "-m", "live", "-n", WORKERS, "--dist=loadgroup")
    return [servers.outcome(), chromium, suite]


def wheel() -> list[Outcome]:
    """Build and try the wheel."""
    return [run("wheel", [sys.executable, "dev/try_wheel.py"])]


def requirements() -> list[Outcome]:
    """Check that every requirement has evidence, and that tests name only listed requirements."""
    return [run("requirements", [sys.executable, "dev/requirements.py", "--check"])]


STEPS = {"gates": gates, "wheel": wheel, "requirements": requirements}
# Each suite with the servers it needs.
SUITES = {"tests": (tests, "usual"), "coverage": (coverage, "usual"), "live": (live, "all")}


def main(names: list[str]) -> int:
    """Run all given steps, even after failures, and print a summary."""
    started = time.monotonic()
    servers = {name: Servers(SUITES[name][1]) for name in names if name in SUITES}
    outcomes = [
        outcome for name in names for outcome in (SUITES[name][0](servers[name]) if name in SUITES else STEPS[name]())
    ]
    print("\n── summary")
    for outcome in outcomes:
        mark = "ok    " if outcome.ok else "FAILED"
        print(f"  {mark} {outcome.name:26} {outcome.seconds:7.1f} s  {outcome.detail}")
    failed = [outcome.name for outcome in outcomes if not outcome.ok]
    took = time.monotonic() - started
    verdict = f"failed: {', '.join(failed)}" if failed else "all checks passed"
    print(f"  {verdict}, {took:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
