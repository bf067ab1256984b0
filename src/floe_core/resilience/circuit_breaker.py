"""Stop calling a service that keeps failing, and let one call test it after a while.

pybreaker holds a lock during the call it guards, which would let one thread at a time reach the catalog.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, ParamSpec, TypeVar

from floe_core.errors import CircuitOpenError, is_retryable
from floe_core.observing.metrics import record_breaker_state
from floe_core.observing.redaction import redact_text
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from floe_core.schemas import CircuitBreakerConfig

P = ParamSpec("P")
T = TypeVar("T")

State = Literal["closed", "open", "half-open"]

_log = get_logger(__name__)


class CircuitBreaker:
    """Opens after a number of consecutive transient failures; calls then fail immediately until the reset time.

    After that, a single call tests the service: success closes the breaker, failure reopens it. If it takes longer than
    the reset time, another call may test the service. A rejected request (wrong credentials, missing table) counts
    as a success, because the service responded. Threads can share a breaker and call the service concurrently.

    Attributes:
        answered: Whether the service has ever responded to a call, including rejected requests.
    """

    def __init__(
        self, config: CircuitBreakerConfig, *, name: str = "catalog", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Start closed.

        Args:
            config: Threshold and reset time.
            name: The service, for messages and metrics.
            clock: A monotonic clock, in seconds.
        """
        self._config = config
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._state: State = "closed"
        self._failures = 0
        self._opened_at = 0.0
        self._probe: object | None = None
        self._probe_began = 0.0
        self._last_failure = ""
        self.answered = False
        if config.enabled:
            record_breaker_state(name, self._state)

    @property
    def state(self) -> State:
        """``closed``, ``open`` or ``half-open``."""
        return self._state

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function, unless the breaker is open.

        Raises:
            CircuitOpenError: Too many calls failed; ``retry_at`` is the time of the next attempt.
        """
        probe = self._admit() if self._config.enabled else None
        try:
            result = function(*args, **kwargs)
        except BaseException as err:
            self.answered = self.answered or _is_answer(err)
            if self._config.enabled:
                self._record(err, probe=probe)
            raise
        self.answered = True
        if self._config.enabled:
            self._record(None, probe=probe)
        return result

    def _admit(self) -> object | None:
        """Let a call through; return a mark if it is the probe that tests the service, None for any other call."""
        with self._lock:
            if self._state == "closed":
                return None
            now = self._clock()
            wait = self._opened_at + self._config.reset_timeout_seconds - now
            if self._state == "open" and wait > 0:
                raise self._open_error(wait)
            # An interrupt between this method and the call leaves a probe that never reports.
            if self._probe is not None and now < self._probe_began + self._config.reset_timeout_seconds:
                raise self._open_error(0.0)
            self._state = "half-open"
            self._probe, self._probe_began = object(), now
            record_breaker_state(self._name, self._state)
            return self._probe

    def _record(self, err: BaseException | None, *, probe: object | None) -> None:
        with self._lock:
            is_probe = probe is not None and probe is self._probe
            if is_probe:
                self._probe = None
            # A call that started before the breaker opened does not show the service's current state.
            outdated = not is_probe and self._state != "closed"
            interrupted = err is not None and not isinstance(err, Exception)
            if outdated or interrupted:
                return
            if err is None or _is_answer(err):
                self._failures = 0
                self._enter("closed")
                return
            self._failures += 1
            self._last_failure = redact_text(str(err) or type(err).__name__)
            if is_probe or self._failures >= self._config.failure_threshold:
                self._opened_at = self._clock()
                self._enter("open")

    def _enter(self, state: State) -> None:
        if state == self._state:
            return
        self._state = state
        record_breaker_state(self._name, state)
        _log.warning("circuit_breaker", service=self._name, state=state, reason=self._last_failure)

    def _open_error(self, wait: float) -> CircuitOpenError:
        retry_at = datetime.now(UTC) + timedelta(seconds=wait)
        msg = f"Circuit open for the {self._name}: {self._config.failure_threshold} calls in a row failed."
        attempt = f"Next attempt in {max(1, round(wait))} s, at {retry_at:%H:%M:%S} UTC."
        if self._probe is not None:
            attempt = "Another call is testing the service now."
        return CircuitOpenError(msg, retry_at=retry_at, hint=f"{attempt} Last failure: {self._last_failure}")


def _is_answer(err: BaseException) -> bool:
    return isinstance(err, Exception) and not is_retryable(err)
