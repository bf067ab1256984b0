"""Stops calling a service that keeps failing, and tries it again after a while."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import pybreaker

from floe_core.errors import CircuitOpenError, is_retryable
from floe_core.observing.metrics import record_breaker_state
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_core.schemas import CircuitBreakerConfig

P = ParamSpec("P")
T = TypeVar("T")

_log = get_logger(__name__)


class CircuitBreaker:
    """Opens after a number of passing failures in a row; then calls fail at once until the reset time has passed.

    A refusal (wrong credentials, no such table) is an answer: it shows that the service works.

    After that exactly one call goes through: its success closes the breaker, its failure opens it again. Threads may
    share a breaker, and their calls run at the same time.

    Attributes:
        answered: Whether the service ever answered a call, be it with a refusal.
    """

    def __init__(
        self, config: CircuitBreakerConfig, *, name: str = "catalog", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start closed.

        Args:
            config: Threshold and reset time.
            name: What is being called, for messages.
            clock: Seconds that only go forward.
        """
        self._config = config
        self._name = name
        self._clock = clock
        # pybreaker keeps the count and the state. Its own call() would hold its lock during the guarded call and so
        # let only one thread at a time talk to the catalog; floe runs the call outside and reports the outcome.
        self._machine = pybreaker.CircuitBreaker(
            fail_max=config.failure_threshold,
            reset_timeout=config.reset_timeout_seconds,
            exclude=[lambda err: not is_retryable(err)],
            throw_new_error_on_trip=False,
        )
        self._lock = threading.Lock()
        self._opened_at = 0.0
        self._probing = False
        self._last_failure = ""
        self.answered = False
        if config.enabled:
            record_breaker_state(name, self.state)

    @property
    def state(self) -> str:
        """``closed``, ``open`` or ``half-open``."""
        return str(self._machine.current_state)

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function, unless the breaker is open.

        Raises:
            CircuitOpenError: Too many calls failed; it says when the next one is let through.
        """
        probe = self._admit() if self._config.enabled else False
        try:
            result = function(*args, **kwargs)
        except BaseException as err:
            self.answered = self.answered or (isinstance(err, Exception) and not is_retryable(err))
            if self._config.enabled:
                self._record(err, probe=probe)
            raise
        self.answered = True
        if self._config.enabled:
            self._record(None, probe=probe)
        return result

    def _admit(self) -> bool:
        """Let a call through and tell whether it is the one that tries the service again."""
        with self._lock:
            if self.state == pybreaker.STATE_CLOSED:
                return False
            wait = self._opened_at + self._config.reset_timeout_seconds - self._clock()
            if self.state == pybreaker.STATE_OPEN and wait > 0:
                raise self._open_error(wait)
            if self._probing:
                raise self._open_error(0.0)
            self._machine.half_open()
            record_breaker_state(self._name, self.state)
            self._probing = True
            return True

    def _record(self, err: BaseException | None, *, probe: bool) -> None:
        with self._lock:
            if probe:
                self._probing = False
            # A call that began before the breaker opened says nothing about the service now.
            late = not probe and self.state != pybreaker.STATE_CLOSED
            interrupted = err is not None and not isinstance(err, Exception)
            if late or interrupted:
                return
            before = self.state
            if err is not None and is_retryable(err):
                self._last_failure = redact_text(str(err) or type(err).__name__)
            self._report(err)
            if self.state == pybreaker.STATE_OPEN:
                self._opened_at = self._clock()
            if self.state != before:
                record_breaker_state(self._name, self.state)
                _log.warning("circuit_breaker", service=self._name, state=self.state, reason=self._last_failure)

    def _report(self, err: BaseException | None) -> None:
        def outcome() -> None:
            if err is not None:
                raise err

        traceback = err.__traceback__ if err else None
        try:
            self._machine.call(outcome)
        except BaseException as raised:
            if raised is not err:
                raise
            # The caller sees the traceback of its own call, not of this report.
            err.__traceback__ = traceback

    def _open_error(self, wait: float) -> CircuitOpenError:
        retry_at = datetime.now(UTC) + timedelta(seconds=wait)
        msg = f"The {self._name} failed {self._config.failure_threshold} times in a row and is left alone for now."
        when = f"in {wait:.0f} s, at {retry_at:%H:%M:%S} UTC" if wait >= 1 else "right now by one call"
        hint = f"It is tried again {when}. The last failure: {self._last_failure}"
        return CircuitOpenError(msg, retry_at=retry_at, hint=hint)
