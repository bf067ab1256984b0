"""Runs the project's checks in order and closes with one summary.

Usage: python dev/check.py gates tests wheel requirements live
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKERS = os.environ.get("WORKERS", "2")
COVERAGE_FLOOR = "85"
# The packages that the requirements (SC-010) name on their own.
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
    """How one check ended."""

    name: str
    ok: bool
    seconds: float
    detail: str = ""


def run(name: str, command: list[str], *, show: bool = False) -> Outcome:
    """Run one command; what it printed is shown when it failed, or when asked for."""
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
    """Style, types, import contracts, declared dependencies."""
    return [run(name, command) for name, command in GATES.items()]


def pytest(name: str, *arguments: str) -> Outcome:
    """Run pytest and keep its closing line for the summary."""
    log = ROOT / ".floe-dev" / f"{name}.log"
    log.parent.mkdir(exist_ok=True)
    started = time.monotonic()
    print(f"── {name}", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    with log.open("w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for line in process.stdout or ():
            stream.write(line)
            print(line, end="", flush=True)
        code = process.wait()
    closing = re.findall(r"^=*\s*(\d+ (?:passed|failed|error).*?)\s*=*$", log.read_text(encoding="utf-8"), re.MULTILINE)
    return Outcome(name, code == 0, time.monotonic() - started, closing[-1] if closing else f"exit code {code}")


def servers() -> Outcome:
    """Fetch and build what the tests use: no test's time limit is for that."""
    return run("servers", [sys.executable, "dev/services.py", "prepare"], show=True)


def tests() -> list[Outcome]:
    """Everything but the wider matrix, with coverage."""
    if not (ready := servers()).ok:
        return [ready]
    coverage = ["--durations=15", "--cov", "--cov-report=term:skip-covered", f"--cov-fail-under={COVERAGE_FLOOR}"]
    suite = pytest("tests", "-m", "not live", "-n", WORKERS, "--dist=loadgroup", *coverage)
    floor = f"--fail-under={COVERAGE_FLOOR}"
    return [
        ready,
        suite,
        *(
            run(f"coverage of {package}", ["coverage", "report", f"--include=src/{package}/*", floor])
            for package in COVERED_PACKAGES
        ),
    ]


def live() -> list[Outcome]:
    """The wider matrix of servers and engines."""
    if not (ready := servers()).ok:
        return [ready]
    return [
        ready,
        run("chromium", [sys.executable, "dev/chromium.py"]),
        pytest("live", "-m", "live", "-n", WORKERS, "--dist=loadgroup"),
    ]


def wheel() -> list[Outcome]:
    """The wheel as users get it."""
    return [run("wheel", [sys.executable, "dev/try_wheel.py"])]


def requirements() -> list[Outcome]:
    """Every requirement that tests name is listed, and the list is whole."""
    return [run("requirements", [sys.executable, "dev/requirements.py", "--check"])]


STEPS = {"gates": gates, "tests": tests, "live": live, "wheel": wheel, "requirements": requirements}


def main(names: list[str]) -> int:
    """Run the named steps, all of them, and summarise."""
    started = time.monotonic()
    outcomes = [outcome for name in names for outcome in STEPS[name]()]
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
