"""Failed logins: the error names the settings to check; the log contains the server's response and the client."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from floe_core.errors import CatalogAuthenticationError, CatalogAuthorizationError, CatalogRequestError
from floe_core.schemas import RetryConfig
from floe_iceberg import IcebergTableManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.faults.gateway import FaultGateway, Reply, Rule

CLIENT = "client-4711"


@pytest.fixture
def server():
    with FaultGateway("http://127.0.0.1:1/api/catalog") as gateway:
        gateway.require_tokens(client_id=CLIENT, client_secret="canary-right")
        yield gateway


def connect(server, **changes):
    given = {"client_id": CLIENT, "client_secret": "canary-right", "retry": RetryConfig(max_attempts=1), **changes}
    return create_catalog(PolarisCatalogConfig.model_validate({"uri": server.url, **given}))


@pytest.mark.req("RD-05", "SC-006")
def test_a_wrong_secret(server):
    with capture_logs() as logs, pytest.raises(CatalogAuthenticationError) as caught:
        connect(server, client_secret="canary-wrong")
    assert str(caught.value) == (
        "Authentication failed. Check catalog.credentials.client_id and catalog.credentials.client_secret in floe.yaml."
    )
    [entry] = [entry for entry in logs if entry["event"] == "polaris.authenticate.refused"]
    assert (entry["client_id"], entry["status"]) == (CLIENT, 401)
    assert "unauthorized_client" in entry["said"]
    assert "canary" not in str(logs)


@pytest.mark.req("RD-05", "SC-006")
def test_a_token_that_the_catalog_rejects(server):
    said = {"error": {"message": f"Principal {CLIENT} has no valid session", "type": "NotAuthorized", "code": 401}}
    server.tokens = None
    server.add(Rule("GET", "/v1/config$", None, forward=False, reply=Reply.of(401, said)))
    with capture_logs() as logs, pytest.raises(CatalogAuthenticationError) as caught:
        connect(server, client_id=None, client_secret=None, token="canary-token")
    assert str(caught.value) == ("The catalog rejected the credentials. Check catalog.credentials.token in floe.yaml.")
    [entry] = [entry for entry in logs if entry["event"] == "polaris.authenticate.refused"]
    assert entry["said"] == said["error"]["message"]


@pytest.mark.req("SC-006")
def test_a_secret_that_a_server_repeats_is_masked(server):
    said = {"error": {"message": "No role for canary-right of the client", "type": "Forbidden", "code": 403}}
    server.add(Rule("GET", "/v1/config$", None, forward=False, reply=Reply.of(403, said)))
    with capture_logs() as logs, pytest.raises(CatalogAuthorizationError, match="No role for") as caught:
        connect(server)
    assert "canary" not in str(caught.value)
    assert "canary" not in str(logs)


@pytest.mark.parametrize("status", [400, 409, 418, 422])
def test_a_listing_that_is_rejected_is_no_error_of_a_library(server, status):
    said = {"error": {"message": "password=canary is not one", "type": "Rejected", "code": status}}
    settings = {"defaults": {}, "overrides": {}}
    server.add(Rule("GET", "/v1/config$", None, forward=False, reply=Reply.of(200, settings)))
    server.add(Rule("GET", "/tables", None, forward=False, reply=Reply.of(status, said)))
    with pytest.raises(CatalogRequestError, match="rejected the request on namespace 'a'") as caught:
        IcebergTableManager(connect(server)).list_tables("a")
    assert "canary" not in str(caught.value)
