"""Valid and invalid connection settings."""

from __future__ import annotations

import pytest
from pydantic import SecretStr, ValidationError

from floe_core.errors import SecretReferenceError
from floe_core.schemas import AccessDelegation, CatalogConfig
from floe_polaris import PolarisCatalogConfig
from floe_polaris.transport.origin import display_url, origin_of

URI = "https://polaris.example.com/api/catalog"


@pytest.mark.req("API-15", "FR-036")
def test_the_contracts_example_is_a_configuration():
    config = PolarisCatalogConfig(
        uri="http://localhost:8181/api/catalog",
        warehouse="my_warehouse",
        client_id="my_client",
        client_secret="my_secret",
    )
    assert config.client_secret == SecretStr("my_secret")
    assert config.scope == "PRINCIPAL_ROLE:ALL"
    assert config.token_refresh_enabled
    assert config.access_delegation is AccessDelegation.VENDED_CREDENTIALS
    assert config.token_uri == "http://localhost:8181/api/catalog/v1/oauth/tokens"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"uri": "polaris.example.com"}, "use an address"),
        ({"uri": "ftp://polaris.example.com"}, "use an address"),
        ({"uri": "https://me:canary@polaris.example.com"}, "must not contain a user or a password"),
        ({"client_id": "me"}, "client_secret is not set"),
        ({"client_secret": "canary"}, "client_id is not set"),
        ({"client_id": "me", "client_secret": "canary", "token": "canary"}, "either token"),
        ({"token_endpoint": "elsewhere"}, "use an address"),
        ({"no_such": "setting"}, "Extra inputs"),
    ],
)
def test_what_cannot_work_is_refused(changes, reason):
    with pytest.raises(ValidationError, match=reason):
        PolarisCatalogConfig.model_validate({"uri": URI, **changes})


def test_a_connection_is_frozen_and_shows_no_secret():
    config = PolarisCatalogConfig(
        uri=URI, client_id="me", client_secret="canary-1", properties={"s3.secret-access-key": "canary-2"}
    )
    with pytest.raises(ValidationError):
        config.uri = "https://elsewhere.example.com"
    assert "canary" not in f"{config!r} {config}"


def test_the_catalog_section_becomes_a_connection(monkeypatch):
    monkeypatch.setenv("POLARIS_SECRET", "canary")
    section = CatalogConfig.model_validate(
        {
            "type": "polaris",
            "name": "lake",
            "uri": URI,
            "warehouse": "sales",
            "credentials": {"client_id": "me", "client_secret": "${POLARIS_SECRET}", "scope": "PRINCIPAL_ROLE:x"},
            "options": {"ca_bundle": "/etc/ca.pem", "header.X-Team": "sales"},
            "timeouts": {"read_seconds": 7},
        }
    )
    config = PolarisCatalogConfig.from_catalog_config(section, file_io={"s3.region": "eu-north-1"})
    assert (config.name, config.warehouse, config.scope) == ("lake", "sales", "PRINCIPAL_ROLE:x")
    assert config.client_secret == SecretStr("canary")
    assert config.ca_bundle == "/etc/ca.pem"
    assert config.properties == {"s3.region": "eu-north-1", "header.X-Team": "sales"}
    assert config.timeouts.read_seconds == 7


def test_a_reference_that_leads_nowhere_is_named(monkeypatch):
    monkeypatch.delenv("POLARIS_SECRET", raising=False)
    section = CatalogConfig.model_validate({"uri": URI, "credentials": {"token": "${POLARIS_SECRET}"}})
    with pytest.raises(SecretReferenceError, match="POLARIS_SECRET"):
        PolarisCatalogConfig.from_catalog_config(section)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://a.example", "https://A.example:443/x?y", True),
        ("http://a.example", "http://a.example:80", True),
        ("https://a.example", "http://a.example", False),
        ("https://a.example", "https://a.example:8443", False),
        ("https://a.example", "https://a.example.evil.example", False),
        ("https://a.example", "https://a.example@evil.example", False),
    ],
)
def test_two_addresses_share_a_server_only_with_scheme_host_and_port(one, other, same):
    assert (origin_of(one) == origin_of(other)) is same


def test_an_address_is_shown_without_what_could_be_secret():
    assert display_url("https://me:canary@a.example/x?token=canary#canary") == "https://a.example/x"
