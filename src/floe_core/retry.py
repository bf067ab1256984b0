"""Which failures are tried again, how often, and how long in all."""

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
    """Repeats catalog calls that failed for a passing reason; use ``call``, or as a decorator."""

    def __init__(
        self,
        config: RetryConfig,
        *,
        timeouts: TimeoutConfig | None = None,
        breaker: CircuitBreaker | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep the settings; one policy serves any number of calls and threads.

        Args:
            config: Attempts and waits.
            timeouts: Its ``total_seconds`` limits each call with all its retries; without, nothing does.
            breaker: Sees every attempt, and may refuse one.
            sleep: How to wait.
            clock: Seconds that only go forward.
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
        """Return this policy for calls that do not go by the function's name.

        Args:
            name: The call in messages and logs.
            kind: The call in metrics, where each different value is a series of its own.
        """
        policy = copy.copy(self)
        vars(policy).update(_name=name, _kind=kind)
        return policy

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function with its failures retried."""

        @functools.wraps(function)
        def retried(*args: P.args, **kwargs: P.kwargs) -> T:
            return self.call(function, *args, **kwargs)

        return retried

    def call(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the function until it succeeds, fails for good, or attempts or time run out.

        Raises:
            DeadlineExceededError: There is no time left for another attempt; the last failure is its cause.
            RateLimitedError: The server asks to wait longer than there is time.
            CircuitOpenError: The breaker is open.
        """
        deadline = Deadline(self._timeouts.total_seconds if self._timeouts else None, clock=self._clock)
        return self.call_within(deadline, function, *args, **kwargs)

    def call_within(self, deadline: Deadline, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do as ``call`` does within a deadline that several calls share."""
        name = self._name if self._name is not None else getattr(function, "__qualname__", repr(function))
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
        # tenacity's own annotation loses the signature when a callable is passed on.
        guarded = cast("Callable[..., T]", self._breaker.call)
        return retrying(guarded, function, *args, **kwargs)

    def _wait(self, state: RetryCallState) -> float:
        backoff = min(self._backoff(state), self._config.max_wait_seconds)
        err = _failure_of(state)
        asked = err.retry_after if isinstance(err, RateLimitedError) else None
        return max(backoff, asked or 0.0)

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
            msg = f"The catalog asks to wait {wait:.0f} s, and only {left:.0f} s are left of the deadline."
            hint = "Try again later, or raise catalog.timeouts.total_seconds."
            raise RateLimitedError(msg, retry_after=err.retry_after, hint=hint) from err
        msg = f"No success within {deadline.seconds:g} s and {state.attempt_number} attempts: {redact_text(str(err))}"
        raise DeadlineExceededError(msg, hint="Try again later, or raise catalog.timeouts.total_seconds.") from err


class _NoTimeLeft(tenacity.stop.stop_base):
    """Stops when the next wait would outlast the deadline, rather than sleep for nothing."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __call__(self, retry_state: RetryCallState) -> bool:
        return _wait_of(retry_state) >= self._deadline.remaining()


def create_retry_decorator(config: RetryConfig) -> RetryPolicy:
    """Return a decorator that retries a function's passing failures as the configuration says."""
    return RetryPolicy(config)


def _failure_of(state: RetryCallState) -> BaseException:
    err = state.outcome.exception() if state.outcome else None
    return err or RuntimeError("no attempt was made")


def _wait_of(state: RetryCallState) -> float:
    return float(state.upcoming_sleep)
