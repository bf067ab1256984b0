"""The management API: request bodies, idempotent creation, actionable errors.

A stand-in for Polaris records the requests; ``make test-polaris`` uses a real server.
"""

from __future__ import annotations

import json

import pytest

from floe_core.errors import CapabilityError, CatalogAuthorizationError, CatalogConnectionError, ConfigurationError
from floe_polaris import PolarisCatalogConfig, PolarisManagement
from floe_polaris.management import Grant
from floe_polaris.storage_info import S3StorageInfo
from floe_testing.faults.gateway import FaultGateway, Reply, Rule


@pytest.fixture
def server():
    with FaultGateway("http://127.0.0.1:1") as gateway:
        yield gateway


@pytest.fixture
def management(server):
    config = PolarisCatalogConfig(uri=f"{server.url}/api/catalog", token="canary-token")
    management = PolarisManagement(config)
    yield management
    management.close()


def reply(server, method, path, status, content=None):
    body = Reply.of(status, content) if content is not None else Reply(status)
    server.add(Rule(method, path, None, forward=False, reply=body))


def sent(server, method, path):
    [exchange] = server.seen(method=method, path=path)
    return json.loads(exchange.body)


def test_it_lives_beside_the_catalog_and_sends_the_same_token(management, server):
    reply(server, "GET", "/api/management/v1/catalogs$", 200, {"catalogs": [{"name": "sales", "type": "INTERNAL"}]})
    assert [catalog.name for catalog in management.list_catalogs()] == ["sales"]
    assert server.seen()[0].authorization == "Bearer canary-token"
    assert "canary" not in repr(management)


def test_a_catalog_is_created_once(management, server):
    storage = S3StorageInfo(
        allowed_locations=("s3://lake/x/",), region="us-east-1", path_style_access=True, kms_unavailable=True
    )
    reply(server, "POST", "/catalogs$", 201, {})
    assert management.ensure_catalog("sales", base_location="s3://lake/x", storage=storage)
    assert sent(server, "POST", "/catalogs$") == {
        "catalog": {
            "name": "sales",
            "type": "INTERNAL",
            "properties": {
                "default-base-location": "s3://lake/x",
                "polaris.config.drop-with-purge.enabled": "true",
            },
            "storageConfigInfo": {
                "storageType": "S3",
                "allowedLocations": ["s3://lake/x/"],
                "region": "us-east-1",
                "pathStyleAccess": True,
                "kmsUnavailable": True,
            },
        }
    }
    server.clear()
    reply(server, "POST", "/catalogs$", 409, {"error": {"message": "exists", "type": "AlreadyExists", "code": 409}})
    assert not management.ensure_catalog("sales", base_location="s3://lake/x", storage=storage)


def test_a_principals_secret_is_told_once_and_never_shown(management, server):
    content = {"principal": {"name": "etl"}, "credentials": {"clientId": "id", "clientSecret": "canary"}}
    reply(server, "POST", "/principals$", 201, content)
    reply(server, "POST", "/principals/etl/reset$", 200, content)
    credentials = management.create_principal("etl")
    assert credentials.client_secret.get_secret_value() == "canary"
    assert "canary" not in repr(credentials)
    assert sent(server, "POST", "/principals$") == {"principal": {"name": "etl"}, "credentialRotationRequired": False}
    assert management.reset_principal("etl").client_id == "id"


def test_roles_are_made_and_assigned(management, server):
    reply(server, "(POST|PUT)", "", 201)
    management.ensure_principal_role("readers")
    management.ensure_catalog_role("sales", "content")
    management.assign_principal_role("etl", "readers")
    management.assign_catalog_role("readers", "sales", "content")
    assert [(item.method, item.path.partition("/v1")[2], json.loads(item.body)) for item in server.seen()] == [
        ("POST", "/principal-roles", {"principalRole": {"name": "readers"}}),
        ("POST", "/catalogs/sales/catalog-roles", {"catalogRole": {"name": "content"}}),
        ("PUT", "/principals/etl/principal-roles", {"principalRole": {"name": "readers"}}),
        ("PUT", "/principal-roles/readers/catalog-roles/sales", {"catalogRole": {"name": "content"}}),
    ]


def test_grants_speak_of_a_catalog_or_a_namespace(management, server):
    reply(server, "PUT", "/grants$", 201)
    management.grant("sales", "content", [Grant(privilege="CATALOG_MANAGE_CONTENT")])
    management.grant_namespace("sales", "tenant", ("tenants", "t1"), ["TABLE_LIST"])
    bodies = [json.loads(item.body)["grant"] for item in server.seen()]
    assert bodies == [
        {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"},
        {"type": "namespace", "privilege": "TABLE_LIST", "namespace": ["tenants", "t1"]},
    ]


def test_lists_are_read(management, server):
    reply(server, "GET", "/principals$", 200, {"principals": [{"name": "etl"}]})
    reply(server, "GET", "/principal-roles$", 200, {"roles": [{"name": "readers"}]})
    reply(server, "GET", "/catalogs/sales/catalog-roles$", 200, {"roles": [{"name": "content"}]})
    reply(server, "GET", "/grants$", 200, {"grants": [{"type": "catalog", "privilege": "TABLE_LIST"}]})
    reply(server, "GET", "/catalogs/none$", 404, {"error": {"message": "no", "type": "NotFound", "code": 404}})
    assert management.list_principals() == ["etl"]
    assert management.list_principal_roles() == ["readers"]
    assert management.list_catalog_roles("sales") == ["content"]
    assert management.list_grants("sales", "content") == [Grant(privilege="TABLE_LIST")]
    assert management.find_catalog("none") is None


def test_deleting_what_is_gone_is_no_error(management, server):
    reply(server, "DELETE", "/principals/etl$", 204)
    reply(server, "DELETE", "", 404)
    assert management.delete_principal("etl")
    assert not management.delete_principal_role("readers")
    assert not management.delete_catalog_role("sales", "content")
    assert not management.delete_catalog("sales")


def test_a_name_cannot_climb_out_of_its_place(management, server):
    reply(server, "DELETE", "", 204)
    management.delete_principal("../catalogs/sales")
    assert server.seen()[0].path.endswith("/principals/..%2Fcatalogs%2Fsales")


def test_refusals_say_what_to_do(management, server):
    reply(server, "GET", "/catalogs$", 403, {"error": {"message": "no privilege", "type": "Forbidden", "code": 403}})
    reply(server, "GET", "/principals$", 404)
    reply(server, "PUT", "", 404, {"error": {"message": "Principal etl not found", "type": "NotFound", "code": 404}})
    reply(server, "POST", "", 400, {"error": {"message": "bad name", "type": "BadRequest", "code": 400}})
    with pytest.raises(CatalogAuthorizationError, match="no privilege"):
        management.list_catalogs()
    with pytest.raises(CapabilityError, match="management_uri"):
        management.list_principals()
    with pytest.raises(CatalogConnectionError, match="Principal etl not found"):
        management.assign_principal_role("etl", "readers")
    with pytest.raises(CatalogConnectionError, match="bad name"):
        management.ensure_principal_role("")


def test_an_answer_that_is_no_json_is_a_clear_error(management, server):
    server.add(Rule("GET", "", None, forward=False, reply=Reply(200, {}, b"<html>")))
    with pytest.raises(CatalogConnectionError, match="did not respond like"):
        management.list_catalogs()


def test_its_address_must_be_known_and_on_the_same_server():
    elsewhere = PolarisCatalogConfig(uri="https://a.example/iceberg")
    with pytest.raises(ConfigurationError, match="management_uri"):
        PolarisManagement(elsewhere)
    with pytest.raises(ConfigurationError, match="not on the catalog's own server"):
        PolarisManagement(elsewhere, management_uri="https://b.example/api/management/v1")
