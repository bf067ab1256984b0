"""Changes the modules that carry the promises, one small change at a time, and sees whether their tests notice.

Usage: python dev/mutants.py [commits reconciling governance expiry gate] [--match TEXT] [--list]

Cosmic Ray makes the mutants. Its own runner starts a process for each of them, and importing PyIceberg and Dagster
takes longer than most tests. mutmut forks, but neither turns conditions around nor leaves calls out, and cannot be told
to let texts be. So the runner is here:

- One process imports everything and collects the tests. A run under coverage tells which test reaches which line.
- Each mutant gets a forked child, in which the changed function takes the place of the original in all who know it. A
  mutant outside of functions has floe imported anew. The tests that reach its line run until the first failure.
- A child that takes much longer than its tests did before is killed, and its mutant counts as killed.
- Tests that start processes of their own do not take part: those would run the code as it was.

A survivor is a test that is missing, or it is explained in dev/surviving_mutants.toml. The run fails when a mutant
survives without an explanation, and when an explanation is about code that is no longer there.
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
# A test that takes this much longer than before has met a mutant that hangs; a busy machine may slow the others down.
SLACK_SECONDS = 10
SLACK_FACTOR = 6
# Exit code of a child that did not come to run its tests.
BROKEN = 70


@dataclass(frozen=True)
class Target:
    """Code that carries a promise, and the quick tests that guard it.

    Attributes:
        modules: The code.
        tests: Files or folders; tests with Spark, of processes and of the wider matrix are left out.
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
            "tests/integration/iceberg/test_own_places.py",
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
    """What the tests do when nothing is changed."""

    seconds: dict[str, float]
    tests_by_line: dict[str, dict[int, list[str]]]
    kills: Counter[str] = field(default_factory=Counter)

    def tests_for(self, mutant: Mutant) -> list[str]:
        """Return the tests that reach a mutant, those first that killed others, then the quick ones."""
        if mutant.function is None:
            reached = set(self.seconds)
        else:
            by_line = self.tests_by_line[mutant.source.module]
            lines = mutant.source.lines_of_the_statement_at(mutant.line)
            reached = {test for line in lines for test in by_line.get(line, ())}
        return sorted(reached, key=lambda test: (-self.kills[test], self.seconds[test]))


class Observer:
    """Plugin of pytest that takes down how long each test took, what failed, and under whose name lines are counted."""

    def __init__(self, counted: coverage.Coverage | None = None) -> None:
        """Count lines when asked to."""
        self.seconds: Counter[str] = Counter()
        self.failed: list[str] = []
        self._counted = counted

    def pytest_configure(self, config: pytest.Config) -> None:
        """Know the marks of workers, though there are none."""
        config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count the lines of a test under its name."""
        if self._counted is not None:
            self._counted.switch_context(item.nodeid)
        return (yield)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up set-up, test and what comes after it."""
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)


# Tests that start processes say so in their names.
WHICH = ("-m", "not live and not spark", "-k", "not process")
OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", *WHICH)


def in_child(work: Callable[[], int], log: Path, *, seconds: float | None = None) -> int | None:
    """Do something in a forked child and return its exit code; None when it had to be killed."""
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
    """Run the tests as they are, once, and take down which of them reaches which line."""
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
        sys.exit(f"The tests fail without any mutant:\n{log.read_text(encoding='utf-8')[-4000:]}")
    told = json.loads(found.read_text(encoding="utf-8"))
    lines = {
        module: {int(line): [test for test in tests if test] for line, tests in by_line.items()}
        for module, by_line in told["lines"].items()
    }
    return Baseline(told["seconds"], lines)


def install(mutant: Mutant) -> None:
    """Let this process run the mutant instead of the module."""
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
    """Forget floe and its tests, so that they are imported again around the mutant."""
    for name, known in list(sys.modules.items()):
        file = getattr(known, "__file__", None) or ""
        if file.startswith((f"{ROOT}/src/", f"{ROOT}/tests/")):
            del sys.modules[name]
    sys.meta_path.insert(0, _MutantFinder(module, code))


class _MutantFinder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds the mutant under the name of its module."""

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
    """How the mutants of one target fared."""

    name: str
    killed: list[Mutant] = field(default_factory=list)
    survivors: list[Mutant] = field(default_factory=list)
    hung: int = 0


def try_mutant(mutant: Mutant, tests: list[str], baseline: Baseline, folder: Path) -> bool | None:
    """Run the tests that reach a mutant; True when one notices it, None when it hung."""
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
    # A mutant outside of functions that cannot be imported leaves pytest without the tests, and is noticed by that.
    not_run = {BROKEN, pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED}
    if mutant.function is not None and code in not_run:
        sys.exit(f"pytest did not run for {mutant.name}:\n{log.read_text(encoding='utf-8')[-4000:]}")
    if killer.exists():
        baseline.kills.update(killer.read_text(encoding="utf-8").split("\n")[:1])
        killer.unlink()
    return True


def mutants_in(name: str, match: str) -> list[Mutant]:
    """Make the mutants of a target whose names have a text in them."""
    made = (mutant for module in TARGETS[name].modules for mutant in mutants_of(Source(module)))
    return [mutant for mutant in made if match in mutant.name]


def run(name: str, match: str, folder: Path) -> Verdicts:
    """Try the mutants of one target."""
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
            how = f"survived {len(tests)} tests" if tests else "no test gets there"
            print(f"  {mutant.place} {mutant.name} ({how})", flush=True)
        else:
            verdicts.killed.append(mutant)
            verdicts.hung += noticed is None
    took = time.monotonic() - started
    print(f"── {name}: {len(verdicts.killed)} killed, {len(verdicts.survivors)} survived ({took:.0f} s)", flush=True)
    return verdicts


def explained() -> dict[str, str]:
    """Return the survivors that are explained, each with its reason."""
    groups = tomllib.loads(EXPLAINED.read_text(encoding="utf-8"))["group"]
    return {mutant: group["reason"] for group in groups for mutant in group["mutants"]}


def main(arguments: list[str]) -> int:
    """Try the mutants of the named targets, of all without a name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="target", help=", ".join(TARGETS))
    parser.add_argument("--match", default="", metavar="TEXT", help="only mutants with this in their names")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    options = parser.parse_args(arguments)
    targets = options.targets or list(TARGETS)
    if unknown := set(targets) - TARGETS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    if options.list:
        for mutant in (mutant for name in targets for mutant in mutants_in(name, options.match)):
            print(f"{mutant.place} {mutant.name}")
        return 0
    os.chdir(ROOT)
    # As python -m pytest does.
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="floe-mutants-") as folder:
        found = [run(name, options.match, Path(folder)) for name in targets]
    return report(found, options.match)


def report(found: list[Verdicts], match: str) -> int:
    """Sum up, and compare the survivors with those that are explained."""
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
                print(f"    explained, but no longer there: {name}")
            elif name in there - names:
                print(f"    explained, but killed: {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
