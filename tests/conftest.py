"""Shared setup: silences dependencies, and lists the reasons for skipped tests in the summary."""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import structlog
from alembic.script import ScriptDirectory
from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from alembic.config import Config

# Real servers, started by the first test that needs them, and a fault-injecting gateway.
pytest_plugins = ("floe_testing.services.host.fixtures", "floe_testing.rest_fixtures", "floe_testing.spark")

# No process of a test may send telemetry.
os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
# Java's second compiler costs a third of the time of a Spark driver that lives for minutes, without a benefit.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


# If a shell starts the tests in the background, they and their children would ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Checks before a change must be deterministic. --hypothesis-profile=default draws new examples.
settings.register_profile("steady", derandomize=True, database=None, print_blob=True)
settings.load_profile("steady")


# Every Dagster instance reads a hundred migrations to find the last one; in a test run, only the first reads them.
_READ: dict[str | None, ScriptDirectory] = {}


def _migrations(config: Config, read: Callable[[Config], ScriptDirectory] = ScriptDirectory.from_config):
    place = config.get_main_option("script_location")
    if place not in _READ:
        _READ[place] = read(config)
    return _READ[place]


ScriptDirectory.from_config = _migrations


# Suites for several catalogs skip tests of features that a catalog declares as missing.
DECLARED_LIMIT = "capability:"


@pytest.fixture(autouse=True)
def _unconfigured_logging():
    """Undo what a command configured, so that the next test hears every log line."""
    yield
    structlog.reset_defaults()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Stop when groups of tests would be torn apart: each worker would set up again what a group shares."""
    if not getattr(config.option, "loadgroup", False):
        return
    grouped = [item.nodeid for item in items if any(item.iter_markers("xdist_group"))]
    if torn := [nodeid for nodeid in grouped if "@" not in nodeid]:
        msg = f"pytest-xdist does not see the group of {torn[0]}: does it know this version of pytest?"
        raise pytest.UsageError(msg)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Name a failure at once: a whole suite takes long to come to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(f"\nFAILED {report.nodeid} ({report.when})", flush=True)  # noqa: T201 - for a person


def skip_reason(report: pytest.TestReport) -> str:
    """Return why a test was skipped."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Count the skips by reason, so that a missing tool cannot go unnoticed."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(skip_reason(report) for report in skipped)
    if reasons:
        terminalreporter.section("skipped", sep="-")
        for reason, count in reasons.most_common():
            terminalreporter.line(f"{count:4} x {reason}")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """With CI=true a skip is a failure: what is missing there was forgotten by the set-up."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("CI") != "true" or exitstatus != 0 or reporter is None:
        return
    reasons = [skip_reason(report) for report in reporter.stats.get("skipped", [])]
    if any(not reason.startswith(DECLARED_LIMIT) for reason in reasons):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
