"""OpenTelemetry metrics of floe: commits, rows, retries, tokens and circuit breakers.

Nothing is recorded until the application installs an OpenTelemetry SDK or sets ``observability.otlp_endpoint``.
"""

from __future__ import annotations

import functools
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.metrics import Counter, Histogram, Meter

# Buckets in seconds: an embedded catalog commits in milliseconds, a contended one retries for minutes.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BREAKER_STATES = {"closed": 0, "half-open": 1, "open": 2}


class Gauge(Protocol):
    """A synchronous gauge; OpenTelemetry has no public name for its class."""

    def set(self, amount: float, attributes: Mapping[str, str] | None = None) -> None:
        """Set the value."""


@dataclass(frozen=True)
class Instruments:
    """The OpenTelemetry instruments."""

    commit_duration: Histogram
    commit_conflicts: Counter
    rows_written: Counter
    bytes_written: Counter
    retries: Counter
    token_refreshes: Counter
    breaker_state: Gauge


def _instruments() -> Instruments | None:
    # Installing an SDK imports the API; before that, there is nothing to record to.
    return _made() if "opentelemetry.metrics" in sys.modules else None


@functools.cache
def _made() -> Instruments:
    from opentelemetry.metrics import get_meter

    return instruments_of(get_meter("floe"))


def instruments_of(meter: Meter) -> Instruments:
    """Return floe's instruments on a meter."""
    return Instruments(
        commit_duration=meter.create_histogram(
            "floe.commit.duration",
            unit="s",
            description="Duration of one commit to a table; with engine spark, it includes writing the rows.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        ),
        commit_conflicts=meter.create_counter(
            "floe.commit.conflicts", unit="{commit}", description="Commits lost to a concurrent writer."
        ),
        rows_written=meter.create_counter("floe.rows.written", unit="{row}", description="Rows in new data files."),
        bytes_written=meter.create_counter("floe.bytes.written", unit="By", description="Size of new files."),
        retries=meter.create_counter("floe.catalog.retries", unit="{call}", description="Retried catalog calls."),
        token_refreshes=meter.create_counter(
            "floe.token.refreshes", unit="{token}", description="Tokens fetched from a token endpoint."
        ),
        breaker_state=meter.create_gauge(
            "floe.breaker.state", description="State of a circuit breaker: 0 closed, 1 half-open, 2 open."
        ),
    )


@dataclass
class CommitTimer:
    """A commit in progress.

    Attributes:
        outcome: How it ended; None if there was nothing to commit.
        seconds: How long it took; if not set, the commit ends with the block.
    """

    outcome: str | None = "ok"
    started: float = field(default_factory=time.perf_counter)
    seconds: float | None = None

    def stop(self) -> None:
        """Stop the timer."""
        self.seconds = time.perf_counter() - self.started


@contextmanager
def timed_commit(table: str, *, conflict: type[Exception], engine: str = "arrow") -> Iterator[CommitTimer]:
    """Measure one commit of an engine; an error of type ``conflict`` means that another writer committed first."""
    timer = CommitTimer()
    try:
        yield timer
    except conflict:
        timer.outcome = "conflict"
        if instruments := _instruments():
            instruments.commit_conflicts.add(1, {"table": table})
        raise
    except BaseException:
        timer.outcome = "failed"
        raise
    finally:
        if timer.outcome is not None and (instruments := _instruments()):
            if timer.seconds is None:
                timer.stop()
            attributes = {"table": table, "outcome": timer.outcome, "engine": engine}
            instruments.commit_duration.record(timer.seconds or 0.0, attributes)


def count_written(table: str, operation: str, summary: Mapping[str, str]) -> None:
    """Count the rows and bytes in a snapshot's summary."""
    if instruments := _instruments():
        attributes = {"table": table, "operation": operation}
        instruments.rows_written.add(int(summary.get("added-records", 0)), attributes)
        instruments.bytes_written.add(int(summary.get("added-files-size", 0)), attributes)


def count_retry(call: str, error: str) -> None:
    """Count a retried catalog call."""
    if instruments := _instruments():
        instruments.retries.add(1, {"call": call, "error": error})


def count_token_refresh(outcome: str) -> None:
    """Count a token request."""
    if instruments := _instruments():
        instruments.token_refreshes.add(1, {"outcome": outcome})


def record_breaker_state(service: str, state: str) -> None:
    """Record the current state of a circuit breaker."""
    if instruments := _instruments():
        instruments.breaker_state.set(_BREAKER_STATES[state], {"service": service})
