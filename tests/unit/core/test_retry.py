"""Retries, deadlines and circuit breakers."""

from __future__ import annotations

import threading

import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogTlsError,
    CatalogUnavailableError,
    CircuitOpenError,
    ConcurrencyConflictError,
    ConfigurationError,
    DeadlineExceededError,
    NamespaceNotFoundError,
    RateLimitedError,
    SchemaEvolutionError,
    TableNotFoundError,
)
from floe_core.resilience import circuit_breaker
from floe_core.retry import CircuitBreaker, Deadline, RetryPolicy, create_retry_decorator, is_retryable
from floe_core.schemas import CircuitBreakerConfig, RetryConfig, TimeoutConfig


class Time:
    """A clock that moves only when somebody sleeps or the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Flaky:
    """Fails with each error in turn, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture
def time():
    return Time()


def policy(time, *, total=None, breaker=None, **config):
    timeouts = TimeoutConfig(total_seconds=total) if total else None
    return RetryPolicy(RetryConfig(**config), timeouts=timeouts, breaker=breaker, sleep=time.sleep, clock=time)


def unavailable(text="down"):
    return CatalogUnavailableError(text)


@pytest.mark.req("RD-02", "FR-006a")
@pytest.mark.parametrize(
    ("error", "retried"),
    [
        pytest.param(ConnectionError("reset"), True, id="ConnectionError"),
        pytest.param(ConnectionResetError("reset"), True, id="ConnectionResetError"),
        pytest.param(TimeoutError("slow"), True, id="TimeoutError"),
        pytest.param(unavailable(), True, id="503 Service Unavailable"),
        pytest.param(RateLimitedError("slow down"), True, id="429 Too Many Requests"),
        pytest.param(DeadlineExceededError("no answer"), True, id="read timeout"),
        pytest.param(CatalogAuthenticationError("who"), False, id="401 Unauthorized"),
        pytest.param(CatalogAuthorizationError("no"), False, id="403 Forbidden"),
        pytest.param(TableNotFoundError("gone"), False, id="404 table"),
        pytest.param(NamespaceNotFoundError("gone"), False, id="404 namespace"),
        pytest.param(ConcurrencyConflictError("lost"), False, id="409 Conflict"),
        pytest.param(SchemaEvolutionError("no"), False, id="schema"),
        pytest.param(CatalogTlsError("cert"), False, id="TLS"),
        pytest.param(ConfigurationError("typo"), False, id="ValidationError"),
        pytest.param(ValueError("bug"), False, id="ValueError"),
        pytest.param(KeyboardInterrupt(), False, id="Ctrl-C"),
    ],
)
def test_only_passing_failures_are_retried(time, error, retried):
    call = Flaky(error)
    assert is_retryable(error) is retried
    if retried:
        assert policy(time).call(call) == "answer"
        assert call.calls == 2
    else:
        with pytest.raises(type(error)) as caught:
            policy(time).call(call)
        assert caught.value is error
        assert call.calls == 1
        assert not time.slept


@pytest.mark.req("RD-01")
@pytest.mark.parametrize(
    ("field", "too_small", "too_large"),
    [
        ("max_attempts", 0, 11),
        ("initial_wait_seconds", 0.05, 31),
        ("max_wait_seconds", 0.5, 301),
        ("jitter_seconds", -0.1, 10.1),
    ],
)
def test_retry_settings_have_the_documented_bounds(field, too_small, too_large):
    for value in (too_small, too_large):
        with pytest.raises(ValidationError, match=field):
            RetryConfig(**{field: value})


@pytest.mark.req("FR-006a")
def test_waits_grow_exponentially_and_stop_at_the_cap(time):
    call = Flaky(*[unavailable() for _ in range(6)])
    policy(time, max_attempts=7, initial_wait_seconds=1, max_wait_seconds=10, jitter_seconds=0).call(call)
    assert time.slept == [1, 2, 4, 8, 10, 10]


@pytest.mark.req("FR-006a")
def test_jitter_spreads_the_waits_within_its_bound(time):
    for _ in range(20):
        policy(time, initial_wait_seconds=1, jitter_seconds=2).call(Flaky(unavailable()))
    assert all(1 <= wait <= 3 for wait in time.slept)
    assert len(set(time.slept)) > 1


def test_the_last_failure_is_raised_as_it_is_when_attempts_run_out(time):
    last = unavailable("third")
    call = Flaky(unavailable("first"), unavailable("second"), last, unavailable("never reached"))
    with pytest.raises(CatalogUnavailableError) as caught:
        policy(time, max_attempts=3).call(call)
    assert caught.value is last
    assert call.calls == 3


def test_one_attempt_means_no_retry(time):
    call = Flaky(unavailable())
    with pytest.raises(CatalogUnavailableError):
        policy(time, max_attempts=1).call(call)
    assert call.calls == 1


@pytest.mark.req("FR-006a")
def test_a_servers_retry_after_is_waited_for(time):
    policy(time, jitter_seconds=0, max_wait_seconds=5).call(Flaky(RateLimitedError("slow down", retry_after=42)))
    assert time.slept == [42]


def test_a_retry_after_shorter_than_the_backoff_changes_nothing(time):
    policy(time, initial_wait_seconds=2, jitter_seconds=0).call(Flaky(RateLimitedError("x", retry_after=0.5)))
    assert time.slept == [2]


def test_a_retry_after_beyond_the_deadline_fails_at_once_and_says_so(time):
    call = Flaky(RateLimitedError("slow down", retry_after=600))
    with pytest.raises(RateLimitedError, match=r"delay of 600 s, but only 120 s of the deadline are left") as caught:
        policy(time, total=120).call(call)
    assert caught.value.retry_after == 600
    assert not time.slept


@pytest.mark.req("FR-006a")
def test_all_retries_together_end_within_the_deadline(time):
    call = Flaky(*[unavailable(f"no. {n}") for n in range(10)])
    with pytest.raises(DeadlineExceededError, match=r"after 4 attempts within 10 s: no. 3") as caught:
        policy(time, total=10, max_attempts=10, jitter_seconds=0).call(call)
    assert isinstance(caught.value.__cause__, CatalogUnavailableError)
    assert time.now - 100 <= 10


def test_several_calls_can_share_one_deadline(time):
    deadline = Deadline(5, clock=time)
    shared = policy(time, jitter_seconds=0)
    shared.call_within(deadline, Flaky(unavailable(), unavailable()))
    with pytest.raises(DeadlineExceededError):
        shared.call_within(deadline, Flaky(unavailable(), unavailable()))
    time.now += 10
    with pytest.raises(DeadlineExceededError, match="passed while calling"):
        shared.call_within(deadline, Flaky())


def test_a_deadline_counts_down_and_says_what_it_interrupted(time):
    deadline = Deadline(3, clock=time)
    time.now += 1
    assert deadline.remaining() == 2
    deadline.check("loading bronze.orders")
    time.now += 5
    assert deadline.remaining() == 0
    assert deadline.expired
    with pytest.raises(DeadlineExceededError, match=r"3 s passed while loading bronze\.orders"):
        deadline.check("loading bronze.orders")


def test_a_deadline_of_none_never_ends(time):
    deadline = Deadline(None, clock=time)
    time.now += 1e9
    assert not deadline.expired


@pytest.mark.req("RD-01")
def test_the_decorator_keeps_the_functions_name_and_arguments():
    @create_retry_decorator(RetryConfig(initial_wait_seconds=0.1, jitter_seconds=0))
    def load_table(name: str, *, snapshot: int = 0) -> tuple[str, int]:
        """Load."""
        seen.append(name)
        if len(seen) == 1:
            raise ConnectionError
        return name, snapshot

    seen: list[str] = []
    assert load_table("t", snapshot=3) == ("t", 3)
    assert seen == ["t", "t"]
    assert load_table.__name__ == "load_table"
    assert load_table.__doc__ == "Load."


@pytest.mark.req("FR-037")
def test_each_retry_is_logged_without_secrets(time):
    with capture_logs() as logs:
        policy(time).call(Flaky(unavailable("refused for password=hunter2hunter2")))
    (event,) = [entry for entry in logs if entry["event"] == "retry"]
    assert event["attempt"] == 1
    assert event["error"] == "CatalogUnavailableError"
    assert event["wait_seconds"] > 0
    assert "hunter2" not in str(logs)


@pytest.fixture
def breaker(time):
    return CircuitBreaker(CircuitBreakerConfig(failure_threshold=3, reset_timeout_seconds=30), clock=time)


def fail(breaker, times, error=None):
    for _ in range(times):
        with pytest.raises(CatalogUnavailableError):
            breaker.call(Flaky(error or unavailable("connection refused")))


@pytest.mark.req("FR-006a")
def test_the_breaker_opens_after_failures_in_a_row_and_says_when_it_tries_again(breaker):
    fail(breaker, 3)
    call = Flaky()
    with pytest.raises(CircuitOpenError, match=r"Next attempt in 30 s.*connection refused") as caught:
        breaker.call(call)
    assert call.calls == 0
    assert caught.value.retry_at.tzinfo is not None
    assert breaker.state == "open"


def test_a_success_between_failures_keeps_the_breaker_closed(breaker):
    for _ in range(5):
        fail(breaker, 2)
        assert breaker.call(Flaky()) == "answer"
    assert breaker.state == "closed"


@pytest.mark.parametrize("refusal", [CatalogAuthenticationError("who"), TableNotFoundError("gone"), ValueError("bug")])
def test_refusals_never_open_the_breaker(breaker, refusal):
    for _ in range(10):
        with pytest.raises(type(refusal)):
            breaker.call(Flaky(refusal))
    assert breaker.state == "closed"


def test_after_the_reset_time_a_success_closes_the_breaker(breaker, time):
    fail(breaker, 3)
    time.now += 31
    assert breaker.call(Flaky()) == "answer"
    assert breaker.state == "closed"
    fail(breaker, 2)
    assert breaker.state == "closed"


def test_after_the_reset_time_a_failure_opens_it_for_another_round(breaker, time):
    fail(breaker, 3)
    time.now += 31
    fail(breaker, 1)
    assert breaker.state == "open"
    time.now += 29
    with pytest.raises(CircuitOpenError):
        breaker.call(Flaky())
    time.now += 2
    assert breaker.call(Flaky()) == "answer"


def test_half_open_lets_exactly_one_call_through(breaker, time):
    fail(breaker, 3)
    time.now += 31
    inside, release = threading.Event(), threading.Event()
    answers = []

    def probe():
        inside.set()
        release.wait(5)
        return "probed"

    thread = threading.Thread(target=lambda: answers.append(breaker.call(probe)))
    thread.start()
    assert inside.wait(5)
    other = Flaky()
    with pytest.raises(CircuitOpenError, match="Another call is testing the service now"):
        breaker.call(other)
    assert other.calls == 0
    release.set()
    thread.join(5)
    assert answers == ["probed"]
    assert breaker.call(other) == "answer"


def test_an_interrupted_probe_lets_the_next_call_try(breaker, time):
    fail(breaker, 3)
    time.now += 31
    with pytest.raises(KeyboardInterrupt):
        breaker.call(Flaky(KeyboardInterrupt()))
    assert breaker.call(Flaky()) == "answer"


def test_a_probe_that_never_reports_does_not_keep_the_breaker_open_forever(breaker, time, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    fail(breaker, 3)
    time.now += 31
    with monkeypatch.context() as patch:
        # Python raises it between any two instructions, here after the probe was admitted and before it is called.
        patch.setattr(circuit_breaker, "record_breaker_state", interrupt)
        with pytest.raises(KeyboardInterrupt):
            breaker.call(Flaky())
    with pytest.raises(CircuitOpenError, match="Another call is testing the service now"):
        breaker.call(Flaky())
    time.now += 31
    assert breaker.call(Flaky()) == "answer"
    assert breaker.state == "closed"


def test_a_probe_overtaken_by_another_one_does_not_reopen_the_breaker(breaker, time):
    fail(breaker, 3)
    time.now += 31
    inside, release = threading.Event(), threading.Event()

    def hang():
        inside.set()
        release.wait(5)
        raise unavailable()

    def probe():
        with pytest.raises(CatalogUnavailableError):
            breaker.call(hang)

    thread = threading.Thread(target=probe)
    thread.start()
    assert inside.wait(5)
    time.now += 31
    assert breaker.call(Flaky()) == "answer"
    release.set()
    thread.join(5)
    assert breaker.state == "closed"


def test_calls_of_different_threads_run_at_the_same_time(breaker):
    meeting = threading.Barrier(4, timeout=5)
    threads = [threading.Thread(target=breaker.call, args=(meeting.wait,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert not meeting.broken


def test_a_call_that_began_before_the_breaker_opened_does_not_close_it(breaker):
    inside, release = threading.Event(), threading.Event()

    def slow():
        inside.set()
        release.wait(5)

    thread = threading.Thread(target=breaker.call, args=(slow,))
    thread.start()
    assert inside.wait(5)
    fail(breaker, 3)
    release.set()
    thread.join(5)
    assert breaker.state == "open"


def test_a_disabled_breaker_stays_out_of_the_way(time):
    breaker = CircuitBreaker(CircuitBreakerConfig(enabled=False, failure_threshold=1), clock=time)
    fail(breaker, 5)
    assert breaker.call(Flaky()) == "answer"


@pytest.mark.req("FR-006a")
def test_retries_end_when_the_breaker_opens_and_the_next_call_fails_at_once(time, breaker):
    retry = policy(time, max_attempts=10, breaker=breaker, jitter_seconds=0)
    call = Flaky(*[unavailable() for _ in range(20)])
    with pytest.raises(CircuitOpenError):
        retry.call(call)
    assert call.calls == 3
    slept = len(time.slept)
    with pytest.raises(CircuitOpenError):
        retry.call(call)
    assert call.calls == 3
    assert len(time.slept) == slept


def test_the_callers_traceback_shows_its_own_call(breaker):
    with pytest.raises(CatalogUnavailableError) as caught:
        breaker.call(Flaky(unavailable()))
    frames = [entry.name for entry in caught.traceback]
    assert frames[-1] == "__call__"
    assert "_report" not in frames
