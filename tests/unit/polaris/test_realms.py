"""The realm is sent to all endpoints of the catalog's server, and to no other server."""

from __future__ import annotations

import json

import pytest

from floe_core.errors import CatalogAuthenticationError
from floe_core.schemas import CatalogConfig, RetryConfig
from floe_polaris import PolarisCatalogConfig, PolarisManagement, create_catalog
from floe_polaris.spark import spark_conf
from floe_testing.faults.gateway import FaultGateway, Reply, Rule

# Responses of Apache Polaris 1.4.1.
UNKNOWN = {"error": {"message": "Missing or invalid realm", "type": "MissingOrInvalidRealm", "code": 404}}


@pytest.fixture
def server():
    """A server whose catalog and management answer, and which gives tokens."""
    with FaultGateway("http://127.0.0.1:1/api/catalog") as gateway:
        gateway.require_tokens(client_id="me", client_secret="canary-secret")
        gateway.add(
            Rule("GET", "/v1/config$", None, forward=False, reply=Reply.of(200, {"defaults": {}, "overrides": {}}))
        )
        gateway.add(Rule("GET", "/v1/catalogs$", None, forward=False, reply=Reply.of(200, {"catalogs": []})))
        yield gateway


def config(server, **changes):
    usual = {
        "uri": server.url,
        "client_id": "me",
        "client_secret": "canary-secret",
        "retry": RetryConfig(max_attempts=1),
    }
    return PolarisCatalogConfig.model_validate({**usual, **changes})


def realms(server, path):
    found = [{key.lower(): value for key, value in item.headers.items()} for item in server.seen(path=path)]
    return [headers.get("polaris-realm") for headers in found]


def test_tokens_the_catalog_and_management_are_asked_in_the_realm(server):
    settings = config(server, realm="SECOND")
    create_catalog(settings).close()
    management = PolarisManagement(settings)
    management.list_catalogs()
    management.close()
    assert realms(server, "/oauth/tokens$") == ["SECOND", "SECOND"]
    assert realms(server, "/v1/config$") == ["SECOND"]
    assert realms(server, "/v1/catalogs$") == ["SECOND"]


def test_without_a_realm_no_header_names_one(server):
    create_catalog(config(server)).close()
    assert realms(server, "") == [None, None]


@pytest.mark.req("FR-006")
def test_another_servers_token_endpoint_is_not_told_of_the_realm(server):
    with FaultGateway("http://127.0.0.1:1") as issuer:
        issuer.require_tokens(client_id="me", client_secret="canary-secret")
        server.tokens = None
        settings = config(server, realm="SECOND", token_endpoint=f"{issuer.url}/v1/oauth/tokens")
        create_catalog(settings).close()
        assert realms(issuer, "") == [None]
        assert realms(server, "/v1/config$") == ["SECOND"]


@pytest.mark.parametrize(
    "section",
    [
        {"realm": "SECOND"},
        {"options": {"header.polaris-realm": "SECOND"}},
    ],
    ids=["setting", "header"],
)
def test_floe_yaml_names_the_realm_by_its_setting_or_as_a_header(section):
    settings = PolarisCatalogConfig.from_catalog_config(
        CatalogConfig.model_validate({"type": "polaris", "uri": "https://p.example/api/catalog", **section})
    )
    assert (settings.realm, settings.properties) == ("SECOND", {})
    assert spark_conf(settings, "lake")["spark.sql.catalog.lake.header.Polaris-Realm"] == "SECOND"


def test_a_server_may_have_another_header_for_it():
    section = {"uri": "https://p.example/api/catalog", "realm": "SECOND", "options": {"realm_header": "X-Realm"}}
    settings = PolarisCatalogConfig.from_catalog_config(CatalogConfig.model_validate({"type": "polaris", **section}))
    assert settings.realm_headers(settings.uri) == {"X-Realm": "SECOND"}
    assert settings.realm_headers("https://elsewhere.example/tokens") == {}


def test_an_unknown_realm_is_named(server):
    server.tokens = None
    reply = Reply(404, {"Content-Type": "application/json"}, json.dumps(UNKNOWN).encode())
    server.add(Rule("POST", "/oauth/tokens$", None, forward=False, reply=reply))
    with pytest.raises(CatalogAuthenticationError, match=r"realm 'NOPE'.*catalog\.realm"):
        create_catalog(config(server, realm="NOPE"))
