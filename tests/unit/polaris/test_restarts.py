"""Calls to a restarting server with the default retries; time is simulated."""

from __future__ import annotations

import pytest

from floe_core.errors import CatalogUnavailableError
from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_core.retry import RetryPolicy
from floe_polaris import PolarisCatalogConfig
from floe_polaris.transport.http import DeadlineSession
from floe_testing.faults.gateway import FaultGateway, Reply, Rule


class Restarting:
    """A server that is away for a while, by a clock that only sleep moves."""

    def __init__(self, gateway):
        self.now = 0.0
        self.attempts = 0
        self.until = 0.0
        self.away = Rule(".*", "", None, forward=False, cut=True)
        gateway.chaos = self

    def __call__(self, exchange):
        del exchange
        self.attempts += 1
        return self.away if self.now < self.until else Rule(".*", "", None, forward=False, reply=Reply.of(200, {}))

    def restart(self, seconds, away=None):
        self.away = away or self.away
        self.until = self.now + seconds

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def gateway():
    with FaultGateway("http://127.0.0.1:1") as gateway:
        yield gateway


@pytest.fixture
def server(gateway):
    return Restarting(gateway)


@pytest.fixture
def session(gateway, server):
    config = PolarisCatalogConfig(uri=gateway.url)
    breaker = CircuitBreaker(config.circuit_breaker, clock=lambda: server.now)
    session = DeadlineSession(config, url=gateway.url, breaker=breaker)
    for name in ("_policy", "_first_policy"):
        policy = getattr(session, name)
        setattr(session, name, RetryPolicy(policy._config, sleep=server.sleep))
    with session:
        yield session


@pytest.fixture
def connected(gateway, session):
    assert session.get(f"{gateway.url}/v1/config").status_code == 200
    return session


BUSY = Rule(".*", "", None, forward=False, reply=Reply.of(503, {"error": {"message": "starting", "code": 503}}))


@pytest.mark.parametrize(
    ("method", "away"), [("GET", None), ("GET", BUSY), ("POST", BUSY)], ids=["no answer", "not ready", "a change"]
)
@pytest.mark.parametrize("seconds", [8, 30, 40])
def test_a_call_outlasts_a_restart_by_default(gateway, server, connected, method, away, seconds):  # noqa: PLR0917 - a matrix
    began = server.now
    server.restart(seconds, away)
    assert connected.request(method, f"{gateway.url}/v1/namespaces").status_code == 200
    assert seconds <= server.now - began < 120


def test_a_restart_does_not_open_the_breaker(gateway, server, connected):
    for _ in range(6):
        server.restart(30)
        connected.get(f"{gateway.url}/v1/namespaces")
    assert connected._breaker.state == "closed"


def test_a_server_that_stays_away_is_given_up_and_then_left_alone(gateway, server, connected):
    server.restart(10_000)
    for _ in range(5):
        before = server.now
        with pytest.raises(CatalogUnavailableError):
            connected.get(f"{gateway.url}/v1/namespaces")
        assert server.now - before < 120
    assert connected._breaker.state == "open"


def test_a_server_that_never_answered_is_given_up_soon(gateway, server, session):
    server.restart(10_000)
    with pytest.raises(CatalogUnavailableError):
        session.get(f"{gateway.url}/v1/config")
    assert (server.attempts, server.now < 10) == (3, True)
