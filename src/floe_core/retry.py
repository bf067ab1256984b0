"""Retries of transient failures, limited by attempts and total time."""

from __future__ import annotations

import copy
import functools
import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import tenacity

from floe_core.errors import DeadlineExceededError, RateLimitedError, is_retryable
from floe_core.observing.metrics import count_retry
from floe_core.observing.redaction import redact_text
from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_core.resilience.deadline import Deadline
from floe_core.telemetry import get_logger

if TYPE_CHECKING:
    from collections.abc import Callable

    from tenacity import RetryCallState

    from floe_core.schemas import RetryConfig, TimeoutConfig

__all__ = ["CircuitBreaker", "Deadline", "RetryPolicy", "create_retry_decorator", "is_retryable"]

P = ParamSpec("P")
T = TypeVar("T")

_log = get_logger(__name__)


class RetryPolicy:
    """Retries catalog calls that fail for a transient reason; use ``call``, or use it as a decorator."""

    def __init__(
        self,
        config: RetryConfig,
        *,
        timeouts: TimeoutConfig | None = None,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the settings; one policy serves any number of calls and threads.

        Args:
            config: Attempts and delays.
            timeouts: Its ``total_seconds`` limits each call with all its retries; no limit by default.
            breaker: A circuit breaker for every attempt.
            sleep: The function that waits.
            clock: A monotonic clock, in seconds.
        """
        self._config = config
        self._timeouts = timeouts
        self._breaker = breaker
        self._name: str | None = None
        self._kind: str | None = None
        self._sleep = sleep
        self._clock = clock
        self._backoff = tenacity.wait_combine(
            tenacity.wait_exponential(multiplier=config.initial_wait_seconds, max=config.max_wait_seconds),
            tenacity.wait_random(0, config.jitter_seconds),
        )

    def named(self, name: str, *, kind: str) -> RetryPolicy:
        """Return this policy with a name for calls, used instead of the function's name.

        Args:
            name: Name of the call in messages and logs.
            kind: Name of the call in metrics, where each distinct value is a separate series.
        """
        policy = copy.copy(self)
        vars(policy).update(_name=name, _kind=kind)
        return policy

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function with retries."""

        @functools.wraps(function)
        def retried(*args: P.args, **kwargs: P.kwargs) -> T:
            return self.call(function, *args, **kwargs)

        return retried

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function until it succeeds, fails permanently, or attempts or time run out.

        Raises:
            DeadlineExceededError: No time is left for another attempt; the last failure is the cause.
            RateLimitedError: The server requested a delay longer than the time left.
            CircuitOpenError: The breaker is open.
        """
        deadline = Deadline(self._timeouts.total_seconds if self._timeouts else None, clock=self._clock)
        return self.call_within(deadline, function, *args, **kwargs)

    def call_within(self, deadline: Deadline, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Like ``call``, within a deadline that several calls share."""
        name = self._name if self._name is not None else getattr(function, "__qualname__", None) or repr(function)
        deadline.check(f"calling {name}")
        retrying = tenacity.Retrying(
            stop=tenacity.stop_any(
                tenacity.stop_after_attempt(self._config.max_attempts),
                _NoTimeLeft(deadline),
            ),
            wait=self._wait,
            retry=tenacity.retry_if_exception(is_retryable),
            sleep=self._sleep,
            before_sleep=functools.partial(self._log_retry, name),
            retry_error_callback=functools.partial(self._give_up, deadline),
        )
        if self._breaker is None:
            return retrying(function, *args, **kwargs)
        # tenacity's annotation loses the signature of a callable that is passed on.
        guarded = cast("Callable[..., T]", self._breaker.call)
        return retrying(guarded, function, *args, **kwargs)

    def _wait(self, state: RetryCallState) -> float:
        backoff = min(self._backoff(state), self._config.max_wait_seconds)
        err = _failure_of(state)
        requested_delay = err.retry_after if isinstance(err, RateLimitedError) else None
        return max(backoff, requested_delay or 0.0)

    def _log_retry(self, name: str, state: RetryCallState) -> None:
        err = _failure_of(state)
        count_retry(self._kind or name, type(err).__name__)
        _log.warning(
            "retry",
            call=name,
            attempt=state.attempt_number,
            max_attempts=self._config.max_attempts,
            wait_seconds=round(_wait_of(state), 3),
            error=type(err).__name__,
            reason=redact_text(str(err)),
        )

    def _give_up(self, deadline: Deadline, state: RetryCallState) -> Any:  # noqa: ANN401 - never returns
        err = _failure_of(state)
        wait, left = _wait_of(state), deadline.remaining()
        if state.attempt_number >= self._config.max_attempts or wait < left:
            raise err
        if isinstance(err, RateLimitedError):
            msg = f"The catalog requested a delay of {wait:.0f} s, but only {left:.0f} s of the deadline are left."
            hint = "Try again later, or raise catalog.timeouts.total_seconds."
            raise RateLimitedError(msg, retry_after=err.retry_after, hint=hint) from err
        msg = f"Gave up after {state.attempt_number} attempts within {deadline.seconds:g} s: {redact_text(str(err))}"
        raise DeadlineExceededError(msg, hint="Try again later, or raise catalog.timeouts.total_seconds.") from err


class _NoTimeLeft(tenacity.stop.stop_base):
    """Stops if the next delay would exceed the deadline, instead of sleeping in vain."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __call__(self, retry_state: RetryCallState) -> bool:
        return _wait_of(retry_state) >= self._deadline.remaining()


def create_retry_decorator(config: RetryConfig) -> RetryPolicy:
    """Return a decorator that retries a function's transient failures as configured."""
    return RetryPolicy(config)


def _failure_of(state: RetryCallState) -> BaseException:
    err = state.outcome.exception() if state.outcome else None
    return err or RuntimeError("no attempt was made")


def _wait_of(state: RetryCallState) -> float:
    return float(state.upcoming_sleep)
