"""Mutation tests for the critical modules: changes their code in small ways, and checks that tests fail.

Usage: python dev/mutants.py [commits reconciling governance expiry gate] [--match TEXT] [--list]

Cosmic Ray generates the mutants. Its own runner starts a process for each mutant, and importing PyIceberg and Dagster
takes longer than most tests. mutmut forks, but it does not negate conditions or remove calls, and cannot skip string
literals. Therefore, this module has its own runner:

- One process imports everything and collects the tests. A run with coverage records which test reaches which line.
- Each mutant runs in a forked child, in which the changed function replaces the original everywhere. For a mutant
  outside of functions, floe is imported again. The tests that reach its line run until the first failure.
- A child that takes much longer than its tests took before is killed, and its mutant counts as killed.
- Tests that start other processes do not take part, because those would run the original code.

A survivor means that a test is missing, unless it is explained in dev/surviving_mutants.toml. The run fails if a mutant
survives without an explanation, or if an explanation refers to code that no longer exists.
"""

from __future__ import annotations

import argparse
import builtins
import contextlib
import importlib
import importlib.abc
import importlib.util
import inspect
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import types
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import coverage
import pytest
from mutations import ROOT, Mutant, NeverRaisedError, Source, mutants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EXPLAINED = ROOT / "dev/surviving_mutants.toml"
# A test that takes this much longer than before counts as hung; the slack allows for a busy machine.
SLACK_SECONDS = 10
SLACK_FACTOR = 6
# Exit code of a child that failed before it ran its tests.
BROKEN = 70


@dataclass(frozen=True)
class Target:
    """Critical modules and the fast tests that guard them.

    Attributes:
        modules: The modules to mutate.
        tests: Test files or folders; tests with Spark, with other processes and of the live suite are excluded.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]


TARGETS = {
    "governance": Target(
        ("floe_core.governance",),
        ("tests/unit/core/test_governance.py", "tests/property/governance"),
    ),
    "commits": Target(
        ("floe_iceberg.commit.protocol",),
        (
            "tests/faults/test_s01_s03_doubtful_answers.py",
            "tests/faults/test_s04_conflicts.py",
            "tests/integration/iceberg/test_tables_changed_meanwhile.py",
            "tests/unit/iceberg/test_commits.py",
        ),
    ),
    "reconciling": Target(
        ("floe_iceberg.catalog.reconciling",),
        (
            "tests/faults/test_s01_s03_doubtful_answers.py",
            "tests/faults/test_s01_catalog_calls_embedded.py",
            "tests/integration/iceberg/test_telemetry.py",
            "tests/unit/iceberg/test_reconciling.py",
        ),
    ),
    "expiry": Target(
        (
            "floe_iceberg.maintenance.expiry",
            "floe_iceberg.table.history.retention",
            "floe_iceberg.table.history.keeping",
        ),
        (
            "tests/faults/test_s13_damaged_files.py",
            "tests/faults/test_s16_expiry_honours_refs.py",
            "tests/integration/iceberg/test_abandoned_branches.py",
            "tests/integration/iceberg/test_declared_retention.py",
            "tests/integration/iceberg/test_expiry_history.py",
            "tests/integration/iceberg/test_maintenance_expiry.py",
            "tests/integration/iceberg/test_file_ownership.py",
            "tests/integration/iceberg/test_retention_of_refs.py",
            "tests/unit/iceberg/test_expiry.py",
            "tests/unit/iceberg/test_retention.py",
        ),
    ),
    "gate": Target(
        ("floe_dagster.gate.publication",),
        (
            "tests/unit/dagster/test_gate.py",
            "tests/unit/dagster/test_quality_plugins.py",
            "tests/integration/cli/test_published_checks.py",
        ),
    ),
}


@dataclass
class Baseline:
    """Results of the tests without mutants."""

    seconds: dict[str, float]
    tests_by_line: dict[str, dict[int, list[str]]]
    kills: Counter[str] = field(default_factory=Counter)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant: those that killed other mutants first, then by duration."""
        if mutant.function is None:
            reached = set(self.seconds)
        else:
            by_line = self.tests_by_line[mutant.source.module]
            lines = mutant.source.lines_of_the_statement_at(mutant.line)
            reached = {test for line in lines for test in by_line.get(line, ())}
        return sorted(reached, key=lambda test: (-self.kills[test], self.seconds[test]))


class Observer:
    """A pytest plugin that records durations and failures, and sets the coverage context of each test."""

    def __init__(self, counted: coverage.Coverage | None = None) -> None:
        """Record coverage contexts if a coverage object is given."""
        self.seconds: Counter[str] = Counter()
        self.failed: list[str] = []
        self._counted = counted

    def pytest_configure(self, config: pytest.Config) -> None:
        """Register the marker of pytest-xdist, which is disabled here."""
        config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record the coverage of a test under its name."""
        if self._counted is not None:
            self._counted.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up the durations of setup, call and teardown."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)


# Tests that start processes have "process" in their names.
WHICH = ("-m", "not live and not spark", "-k", "not process")
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *WHICH)


def in_child(work: Callable[[], int], log: Path, *, seconds: float | None = None) -> int | None:
    """Call a function in a forked child and return its exit code; None if it had to be killed."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        code = BROKEN
        try:
            os.setsid()
            with log.open("wb") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            code = int(work())
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)
    give_up = time.monotonic() + seconds if seconds else float("inf")
    try:
        while time.monotonic() < give_up:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
    except BaseException:
        os.killpg(pid, signal.SIGKILL)
        raise
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def measure(target: Target, sources: list[Source], folder: Path) -> Baseline:
    """Run the tests once without mutants, and record which test reaches which line."""
    found = folder / "baseline.json"

    def work() -> int:
        counted = coverage.Coverage(
            data_file=None, config_file=False, include=[str(source.path) for source in sources], messages=False
        )
        observer = Observer(counted)
        counted.start()
        code = pytest.main([*OPTIONS, f"--basetemp={folder}/tests", *target.tests], plugins=[observer])
        counted.stop()
        data = counted.get_data()
        lines = {source.module: data.contexts_by_lineno(str(source.path)) for source in sources}
        found.write_text(json.dumps({"seconds": observer.seconds, "lines": lines}), encoding="utf-8")
        return int(code)

    log = folder / "baseline.log"
    if in_child(work, log) != 0:
        sys.exit(f"The tests fail without mutants:\n{log.read_text(encoding='utf-8')[-4000:]}")
    measured = json.loads(found.read_text(encoding="utf-8"))
    lines = {
        module: {int(line): [test for test in tests if test] for line, tests in by_line.items()}
        for module, by_line in measured["lines"].items()
    }
    return Baseline(measured["seconds"], lines)


def install(mutant: Mutant) -> None:
    """Replace the module's code by the mutant in this process."""
    builtins.NeverRaisedError = NeverRaisedError
    code = compile(mutant.text, str(mutant.source.path), "exec")
    if mutant.function is None:
        _import_anew(mutant.source.module, code)
        return
    original = inspect.unwrap(_function(sys.modules[mutant.source.module], mutant.function))
    changed = next(part for part in _codes(code) if part.co_qualname == mutant.function)
    if original.__code__.co_qualname != mutant.function or original.__code__.co_freevars != changed.co_freevars:
        _import_anew(mutant.source.module, code)
        return
    original.__code__ = changed


def _function(module: types.ModuleType, qualified: str) -> types.FunctionType:
    *outer, name = qualified.split(".")
    place: object = module
    for part in outer:
        place = getattr(place, part)
    found = vars(place)[name]
    return getattr(found, "fget", None) or getattr(found, "__func__", None) or found


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            yield part
            yield from _codes(part)


def _import_anew(module: str, code: types.CodeType) -> None:
    """Remove floe and its tests from the imported modules, so that they are imported again with the mutant."""
    for name, known in list(sys.modules.items()):
        file = getattr(known, "__file__", None) or ""
        if file.startswith((f"{ROOT}/src/", f"{ROOT}/tests/")):
            del sys.modules[name]
    sys.meta_path.insert(0, _MutantFinder(module, code))


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Loads the mutant in place of its module."""

    def __init__(self, module: str, code: types.CodeType) -> None:
        self._module = module
        self._code = code

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=self._code.co_filename)

    def get_code(self, _fullname: str) -> types.CodeType:
        return self._code

    def get_source(self, _fullname: str) -> None:
        return None


@dataclass
class Verdicts:
    """Results for the mutants of one target."""

    name: str
    killed: list[Mutant] = field(default_factory=list)
    survivors: list[Mutant] = field(default_factory=list)
    hung: int = 0


def try_mutant(mutant: Mutant, tests: list[str], baseline: Baseline, folder: Path) -> bool | None:
    """Run the tests that reach a mutant; return True if one fails, None if it hangs."""
    tried, killer, log = folder / "tests", folder / "killer", folder / "mutant.log"

    def work() -> int:
        install(mutant)
        observer = Observer()
        limits = ("-x", f"--timeout={longest}", f"--basetemp={tried}")
        code = pytest.main([*OPTIONS, *limits, *tests], plugins=[observer])
        killer.write_text("\n".join(observer.failed), encoding="utf-8")
        return int(code)

    longest = SLACK_SECONDS + SLACK_FACTOR * max(baseline.seconds[test] for test in tests)
    code = in_child(work, log, seconds=longest + SLACK_FACTOR * sum(baseline.seconds[test] for test in tests))
    shutil.rmtree(tried, ignore_errors=True)
    if code is None:
        return None
    if code == pytest.ExitCode.OK:
        return False
    # A mutant outside of functions may fail on import; pytest then finds no tests, which counts as killed.
    not_run = {BROKEN, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}
    if mutant.function is not None and code in not_run:
        sys.exit(f"pytest did not run for {mutant.name}:\n{log.read_text(encoding='utf-8')[-4000:]}")
    if killer.exists():
        baseline.kills.update(killer.read_text(encoding="utf-8").split("\n")[:1])
        killer.unlink()
    return True


def mutants_in(name: str, match: str) -> list[Mutant]:
    """Generate the mutants of a target whose names contain a text."""
    made = (mutant for module in TARGETS[name].modules for mutant in mutants_of(Source(module)))
    return [mutant for mutant in made if match in mutant.name]


def run(name: str, match: str, folder: Path) -> Verdicts:
    """Test the mutants of one target."""
    target, verdicts, started = TARGETS[name], Verdicts(name), time.monotonic()
    sources = [Source(module) for module in target.modules]
    for source in sources:
        importlib.import_module(source.module)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        if pytest.main([*OPTIONS, "--collect-only", *target.tests], plugins=[Observer()]) != 0:
            sys.exit(said.getvalue())
    mutants = mutants_in(name, match)
    baseline = measure(target, sources, folder)
    took = time.monotonic() - started
    print(f"── {name}: {len(mutants)} mutants, {len(baseline.seconds)} tests ({took:.0f} s)", flush=True)
    for mutant in mutants:
        tests = baseline.tests_for(mutant)
        noticed = try_mutant(mutant, tests, baseline, folder) if tests else False
        if noticed is False:
            verdicts.survivors.append(mutant)
            how = f"survived {len(tests)} tests" if tests else "not covered by tests"
            print(f"  {mutant.place} {mutant.name} ({how})", flush=True)
        else:
            verdicts.killed.append(mutant)
            verdicts.hung += noticed is None
    took = time.monotonic() - started
    print(f"── {name}: {len(verdicts.killed)} killed, {len(verdicts.survivors)} survived ({took:.0f} s)", flush=True)
    return verdicts


def explained() -> dict[str, str]:
    """Return the explained survivors with their reasons."""
    groups = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["group"]
    return {mutant: group["reason"] for group in groups for mutant in group["mutants"]}


def main(arguments: list[str]) -> int:
    """Test the mutants of the given targets, or of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    parser.add_argument("--match", default="", metavar="TEXT", help="test only mutants whose names contain this")
    parser.add_argument("--list", action="store_true", help="list the mutants and exit")
    options = parser.parse_args(arguments)
    targets = options.targets or list(TARGETS)
    if unknown := set(targets) - TARGETS.keys():
        parser.error(f"unknown targets: {', '.join(sorted(unknown))}; valid targets: {', '.join(TARGETS)}")
    if options.list:
        for mutant in (mutant for name in targets for mutant in mutants_in(name, options.match)):
            print(f"{mutant.place} {mutant.name}")
        return 0
    os.chdir(ROOT)
    # Like python -m pytest.
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="floe-mutants-") as folder:
        found = [run(name, options.match, Path(folder)) for name in targets]
    return report(found, options.match)


def report(found: list[Verdicts], match: str) -> int:
    """Print a summary, and compare the survivors with the explained ones."""
    known, failed = explained(), False
    print("\n── summary")
    for verdicts in found:
        names = {mutant.name for mutant in verdicts.survivors}
        total = len(verdicts.killed) + len(verdicts.survivors)
        print(
            f"  {verdicts.name:12} {total:4} mutants, {len(verdicts.killed):4} killed ({verdicts.hung} hung), "
            f"{len(names):3} survived, {len(names & known.keys()):3} of them explained"
        )
        for mutant in verdicts.survivors:
            if mutant.name not in known:
                failed = True
                print(f"    not explained: {mutant.place} {mutant.name}")
        there = names | {mutant.name for mutant in verdicts.killed}
        modules = tuple(f"{module}:" for module in TARGETS[verdicts.name].modules)
        for name in known:
            if name.startswith(modules) and match in name and name not in there:
                failed = True
                print(f"    explained, but code not found: {name}")
            elif name in there - names:
                print(f"    explained, but killed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
