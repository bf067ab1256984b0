"""Telemetry of a catalog connection: spans, trace headers, metrics."""

from __future__ import annotations

import pytest

from floe_core.errors import CatalogUnavailableError
from floe_core.resilience.circuit_breaker import CircuitBreaker
from floe_core.retry import RetryPolicy
from floe_core.schemas import CircuitBreakerConfig
from floe_core.telemetry import traced
from floe_polaris import PolarisCatalogConfig
from floe_polaris.transport.auth import authenticator_for
from floe_polaris.transport.http import DeadlineSession
from floe_testing.faults.gateway import FaultGateway, Reply, Rule

pytest_plugins = ["floe_testing.telemetry.fixtures"]


@pytest.fixture
def gateway():
    with FaultGateway("http://127.0.0.1:1") as gateway:
        gateway.chaos = lambda exchange: Rule(
            ".*", "", None, forward=False, reply=Reply.of(200, {"access_token": "t0k", "expires_in": 3600})
        )
        yield gateway


@pytest.fixture
def session(gateway):
    config = PolarisCatalogConfig(uri=gateway.url)
    breaker = CircuitBreaker(CircuitBreakerConfig(failure_threshold=1), name="catalog")
    with DeadlineSession(config, url=gateway.url, breaker=breaker) as session:
        for name in ("_policy", "_first_policy"):
            setattr(session, name, RetryPolicy(getattr(session, name)._config, sleep=lambda _: None))
        yield session


@pytest.mark.req("FR-038")
def test_a_call_is_a_span_and_names_it_to_the_server(gateway, session, tracing, spans):
    with traced("iceberg.append", tracer=tracing[0], table="a.b"):
        session.get(f"{gateway.url}/v1/config")
    call, write = spans()
    assert (call.name, call.parent.span_id) == ("polaris.request", write.context.span_id)
    assert call.attributes["iceberg.method"] == "GET"
    assert call.attributes["iceberg.status"] == 200
    [seen] = gateway.seen(path="/v1/config$")
    # The W3C format: version, trace, span, flags.
    assert seen.headers["traceparent"].startswith(f"00-{call.context.trace_id:032x}-{call.context.span_id:016x}-")


def test_nothing_is_named_to_the_server_when_nobody_traces(gateway, session):
    session.get(f"{gateway.url}/v1/config")
    [seen] = gateway.seen(path="/v1/config$")
    assert "traceparent" not in seen.headers


def test_retries_and_the_breaker_are_counted(gateway, session, figures):
    session._breaker = CircuitBreaker(CircuitBreakerConfig(failure_threshold=1), name="catalog")
    assert figures("floe.breaker.state") == {("catalog",): 0}
    session.get(f"{gateway.url}/v1/config")
    gateway.chaos = lambda exchange: Rule(".*", "", None, forward=False, cut=True)
    with pytest.raises(CatalogUnavailableError):
        session.get(f"{gateway.url}/v1/config")
    [(call, error)] = figures("floe.catalog.retries")
    assert (call, error) == ("GET", "CatalogUnavailableError")
    assert figures("floe.catalog.retries")[call, error] == session._policy._config.max_attempts - 1
    assert figures("floe.breaker.state") == {("catalog",): 2}


@pytest.mark.req("RD-04", "FR-038")
def test_a_login_is_a_span_with_its_scope_and_without_secrets(gateway, tracing, spans):
    config = PolarisCatalogConfig(uri=gateway.url, client_id="floe", client_secret="s3cret", scope="PRINCIPAL_ROLE:etl")
    authenticator = authenticator_for(config, breaker=CircuitBreaker(config.circuit_breaker, name="tokens"))
    with traced("iceberg.append", tracer=tracing[0]):
        assert authenticator.auth_header() == "Bearer t0k"
    [login] = [span for span in spans() if span.name == "polaris.authenticate"]
    assert login.attributes["iceberg.scope"] == "PRINCIPAL_ROLE:etl"
    assert not [span.name for span in spans() if "s3cret" in span.to_json() or "t0k" in span.to_json()]


def test_tokens_are_counted(gateway, figures):
    config = PolarisCatalogConfig(uri=gateway.url, client_id="floe", client_secret="s3cret")
    authenticator = authenticator_for(config, breaker=CircuitBreaker(config.circuit_breaker, name="tokens"))
    authenticator.auth_header()
    authenticator.auth_header()
    assert figures("floe.token.refreshes") == {("ok",): 1}
