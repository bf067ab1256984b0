"""Connections to a REST catalog: credentials, tokens, credential vending, and actionable errors."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import threading
import time
from dataclasses import replace

import pyarrow as pa
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from floe_core.errors import (
    CapabilityError,
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogConnectionError,
    CatalogTlsError,
    CatalogUnavailableError,
    ConfigurationError,
    StorageAuthenticationError,
    WarehouseNotFoundError,
)
from floe_core.schemas import CatalogConfig
from floe_iceberg import IcebergTableManager
from floe_polaris.plugin import PolarisCatalogPlugin
from floe_testing.faults.gateway import TOKEN_PATH, FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties

SCHEMA = pa.schema([pa.field("id", pa.int64())])


@pytest.mark.req("FR-001", "FR-006")
def test_a_rest_catalog_is_reached_by_its_address_alone(connect, namespace):
    catalog = connect()
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.orders", SCHEMA).append(pa.table({"id": [1, 2]}))
    assert catalog.load_table(f"{namespace}.orders").scan().to_arrow().num_rows == 2


@pytest.mark.req("FR-002", "FR-006")
def test_client_credentials_are_exchanged_for_a_token(gateway, connect):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    connect().list_namespaces()
    [request] = gateway.token_requests
    assert request.form["scope"] == "PRINCIPAL_ROLE:ALL"
    assert request.form["grant_type"] == "client_credentials"
    asked = gateway.seen(path="/v1/namespaces$")
    assert all(item.authorization.startswith("Bearer ") and item.status == 200 for item in asked)


@pytest.mark.req("FR-003")
def test_a_token_fetched_beforehand_is_used_as_it_is(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    reply = desk.issue({"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, "scope": "x"})
    token = json.loads(reply.body)["access_token"]
    catalog = connect(client_id=None, client_secret=None, token=token)
    catalog.list_namespaces()
    assert gateway.token_requests == []
    desk.revoke()
    with pytest.raises(CatalogAuthenticationError, match=r"catalog\.credentials\.token"):
        catalog.list_namespaces()


@pytest.mark.req("FR-004")
def test_a_token_is_renewed_before_it_expires(gateway, connect):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET, lifetime_seconds=100)
    catalog = connect()
    token = catalog._authenticator._token
    assert token.expires_at - token.renew_at == pytest.approx(20)
    catalog._authenticator._token = replace(token, renew_at=time.monotonic())
    catalog.list_namespaces()
    assert len(gateway.token_requests) == 2
    assert not [item for item in gateway.seen() if item.status == 401]


@pytest.mark.req("FR-004")
def test_a_revoked_token_is_replaced_once_and_the_call_succeeds(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect()
    desk.revoke()
    catalog.list_namespaces()
    assert len(gateway.token_requests) == 2


def test_a_refusal_of_a_fresh_token_is_not_retried(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect()
    gateway.answer(401, path="/v1/namespaces$", times=None)
    desk.revoke()
    with pytest.raises(CatalogAuthenticationError):
        catalog.list_namespaces()
    assert len(gateway.seen(path="/v1/namespaces$")) == 2
    assert len(gateway.token_requests) == 2


def test_without_refresh_an_expired_token_is_an_error(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect(token_refresh_enabled=False)
    desk.revoke()
    with pytest.raises(CatalogAuthenticationError):
        catalog.list_namespaces()
    assert len(gateway.token_requests) == 1


@pytest.mark.req("FR-004")
def test_one_renewal_serves_all_threads(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect()
    gateway.delay(0.3, path=TOKEN_PATH, times=None)
    desk.revoke()
    failures = []

    def work():
        try:
            catalog.list_namespaces()
        except Exception as err:  # noqa: BLE001 - collected for the assertion
            failures.append(err)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(gateway.token_requests) == 2


def test_the_token_endpoint_gets_no_old_token_and_no_custom_header(gateway, rest_config, connect, minio):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect(properties={**store_properties(minio), "header.X-Internal": "do-not-leak"})
    desk.revoke()
    catalog.list_namespaces()
    assert len(gateway.token_requests) == 2
    for request in gateway.token_requests:
        names = {name.lower() for name in request.headers}
        assert "authorization" not in names
        assert "x-internal" not in names
        assert "x-iceberg-access-delegation" not in names


@pytest.mark.req("FR-005")
@pytest.mark.parametrize("delegation", ["vended-credentials", "none"])
def test_storage_access_is_delegated_by_header_unless_switched_off(gateway, connect, namespace, delegation):
    catalog = connect(access_delegation=delegation)
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.orders", SCHEMA)
    wanted = "vended-credentials" if delegation != "none" else None
    asked = [{key.lower(): value for key, value in item.headers.items()} for item in gateway.seen(path="/tables")]
    assert asked
    assert {headers.get("x-iceberg-access-delegation") for headers in asked} == {wanted}


def test_a_catalog_that_vends_nothing_says_so(connect, namespace):
    catalog = connect(access_delegation="vended-credentials")
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.orders", SCHEMA)
    with pytest.raises(CapabilityError, match="does not vend storage credentials"):
        catalog.vend_credentials(f"{namespace}.orders", ["READ", "WRITE"])
    with pytest.raises(CapabilityError, match="fly"):
        catalog.vend_credentials(f"{namespace}.orders", ["fly"])


@pytest.mark.req("PL-06")
@pytest.mark.parametrize("operations", [["READ"], ["list"], ["write", "delete"], []], ids=str)
def test_credentials_that_cannot_be_limited_are_refused_before_any_are_asked_for(gateway, connect, operations):
    catalog = connect(access_delegation="vended-credentials")
    before = len(gateway.seen(path="/tables"))
    with pytest.raises(CapabilityError, match="cannot limit storage credentials"):
        catalog.vend_credentials("ns.orders", operations)
    assert len(gateway.seen(path="/tables")) == before


def test_a_refused_operation_carries_the_reason_of_the_catalog(gateway, connect):
    catalog = connect()
    gateway.answer(403, path="/v1/namespaces$", message="Principal 'x' is not authorized for LIST_NAMESPACES")
    with pytest.raises(CatalogAuthorizationError, match="LIST_NAMESPACES"):
        catalog.list_namespaces()


def test_a_redirect_is_not_followed(gateway, connect):
    catalog = connect()
    gateway.answer(307, path="/v1/namespaces$", headers={"Location": "http://elsewhere.example/v1/namespaces"})
    with pytest.raises(CatalogConnectionError, match=r"redirects to http://elsewhere\.example"):
        catalog.list_namespaces()


def test_an_address_that_is_no_catalog_is_a_clear_error(gateway, connect):
    with pytest.raises(CatalogConnectionError, match=r"did not respond like an Iceberg REST catalog.*catalog\.uri"):
        connect(uri=f"{gateway.url}/nothing/here")


def test_nothing_secret_is_shown(gateway, connect):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect()
    shown = f"{catalog!r} {catalog.config!r} {catalog._authenticator!r} {catalog._authenticator._token!r}"
    assert CLIENT_SECRET not in shown
    assert CLIENT_SECRET not in str(catalog.properties)
    assert gateway.seen(path="/v1/namespaces$") == []


@pytest.fixture
def untrusted(tmp_path):
    """Give a certificate for the loopback address that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files


def test_a_certificate_can_be_trusted_by_naming_it(untrusted, iceberg_rest, connect):
    with FaultGateway(iceberg_rest.url, certificate=untrusted) as gateway:
        catalog = connect(uri=gateway.url, ca_bundle=str(untrusted[0]))
        catalog.list_namespaces()


@pytest.mark.req("SC-006", "RD-05")
def test_five_troubles_give_five_messages_each_with_its_fix(  # noqa: PLR0917 - fixtures
    gateway, connect, minio, iceberg_rest, untrusted, namespace
):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    started = time.monotonic()
    troubles = {}

    with pytest.raises(CatalogAuthenticationError) as caught:
        connect(client_secret="canary-wrong-secret")
    troubles["secret"] = caught.value, "catalog.credentials.client_secret"

    rule = gateway.answer(404, path="/v1/config", message="Unable to find warehouse nowhere")
    with pytest.raises(WarehouseNotFoundError) as caught:
        connect(warehouse="nowhere")
    assert rule.hits == 1
    troubles["warehouse"] = caught.value, "catalog.warehouse"

    manager = IcebergTableManager(
        connect(properties={**store_properties(minio), "s3.secret-access-key": "canary-storage-secret"})
    )
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.orders", SCHEMA)
    with pytest.raises(StorageAuthenticationError) as caught:
        manager.append(f"{namespace}.orders", pa.table({"id": [1]}))
    troubles["storage"] = caught.value, "storage"

    with FaultGateway("http://127.0.0.1:1") as closed:
        address = closed.url
    with pytest.raises(CatalogUnavailableError) as caught:
        connect(uri=address)
    troubles["down"] = caught.value, "catalog.uri"

    with FaultGateway(iceberg_rest.url, certificate=untrusted) as tls, pytest.raises(CatalogTlsError) as caught:
        connect(uri=tls.url)
    troubles["certificate"] = caught.value, "ca_bundle"

    messages = [str(error) for error, _ in troubles.values()]
    assert len(set(messages)) == 5
    for error, setting in troubles.values():
        assert setting in str(error)
        assert error.hint
        assert "canary" not in str(error)
    assert time.monotonic() - started < 5 * 30.0


@pytest.mark.req("PL-06", "FR-034")
def test_the_plugin_connects_from_the_catalog_section(gateway, monkeypatch, minio, tmp_path, namespace):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    monkeypatch.setenv("POLARIS_SECRET", CLIENT_SECRET)
    section = CatalogConfig.model_validate(
        {
            "type": "polaris",
            "name": "lake",
            "uri": gateway.url,
            "warehouse": "lake",
            "credentials": {"client_id": CLIENT_ID, "client_secret": "${POLARIS_SECRET}"},
        }
    )
    plugin = PolarisCatalogPlugin()
    plugin.connect(section, file_io=store_properties(minio), project_root=tmp_path)
    plugin.create_namespace((namespace, "raw"))
    assert plugin.list_namespaces(namespace) == [f"{namespace}.raw"]
    conf = plugin.get_spark_conf("lake", {})
    assert conf["spark.sql.catalog.lake.type"] == "rest"
    assert conf["spark.sql.catalog.lake.credential"] == f"{CLIENT_ID}:{CLIENT_SECRET}"
    assert conf["spark.sql.catalog.lake.oauth2-server-uri"] == f"{gateway.url}/v1/oauth/tokens"
    assert conf["spark.sql.catalog.lake.header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert conf["spark.sql.catalog.lake.rest.client.socket-timeout-ms"] == "30000"
    assert CLIENT_SECRET not in repr(plugin)
    plugin.shutdown()


def test_a_section_without_address_or_warehouse_names_the_setting(tmp_path):
    plugin = PolarisCatalogPlugin()
    with pytest.raises(ConfigurationError, match=r"catalog\.|address"):
        plugin.connect(CatalogConfig(type="polaris", warehouse="x"), file_io={}, project_root=tmp_path)
    with pytest.raises(ConfigurationError, match="warehouse"):
        plugin.connect(CatalogConfig(type="polaris", uri="http://127.0.0.1"), file_io={}, project_root=tmp_path)


def test_a_tenant_that_may_not_list_everything_has_a_healthy_catalog(gateway, tmp_path, minio):
    plugin = PolarisCatalogPlugin()
    section = CatalogConfig(type="polaris", uri=gateway.url, warehouse="lake")
    plugin.connect(section, file_io=store_properties(minio), project_root=tmp_path)
    gateway.answer(403, path="/v1/namespaces$")
    assert plugin.health_check().ok
    gateway.answer(500, path="/v1/namespaces$")
    assert not plugin.health_check().ok
    assert plugin.health_check().ok
    plugin.shutdown()
