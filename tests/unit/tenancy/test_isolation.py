"""Principals, roles and grants of tenants, through Polaris's management API.

The server here answers as Polaris does and enforces nothing; a real Polaris is asked by make test-polaris.
"""

from __future__ import annotations

import pytest

from floe_core.errors import CatalogConnectionError, ConfigurationError, InvalidIdentifierError
from floe_polaris import PolarisCatalogConfig
from floe_polaris.management import TENANT_PRIVILEGES, Grant, PolarisManagement
from floe_tenancy import IcebergCatalogConfig, PolarisIsolation, TenantOffboarding
from floe_testing.polaris_management import PolarisManagementServer

NAME = "lake.tenants.tenant-1"


@pytest.fixture
def server():
    with PolarisManagementServer() as server:
        yield server


@pytest.fixture
def management(server):
    config = PolarisCatalogConfig(
        uri=server.uri, warehouse="lake", client_id="root", client_secret="canary-root-secret"
    )
    management = PolarisManagement(config)
    yield management
    management.close()


@pytest.fixture
def isolation(management, tenants):
    return PolarisIsolation(management, catalog="lake", config=tenants.config)


def test_a_tenant_gets_privileges_on_its_own_namespace_alone(isolation, server):
    isolation.grant("tenant-1")
    grants = server.state.catalog_roles["lake", NAME]
    assert {grant["privilege"] for grant in grants} == set(TENANT_PRIVILEGES)
    assert all(grant["type"] == "namespace" and grant["namespace"] == ["tenants", "tenant-1"] for grant in grants)
    assert server.state.principal_roles == {NAME: {("lake", NAME)}}
    assert server.state.assigned == {NAME: {NAME}}
    assert isolation.excess_grants("tenant-1") == []


def test_tenants_share_nothing(isolation, server):
    isolation.grant("tenant-1")
    isolation.grant("tenant-10")
    assert server.state.assigned == {NAME: {NAME}, f"{NAME}0": {f"{NAME}0"}}
    for tenant in ("tenant-1", "tenant-10"):
        grants = server.state.catalog_roles["lake", f"lake.tenants.{tenant}"]
        assert {tuple(grant["namespace"]) for grant in grants} == {("tenants", tenant)}


def test_credentials_are_told_once_and_never_shown(isolation, server):
    access = isolation.grant("tenant-1")
    secret = server.state.principals[NAME]
    assert access.is_new
    assert access.client_id == f"id-of-{NAME}"
    assert access.client_secret.get_secret_value() == secret
    assert secret not in repr(access)
    again = isolation.grant("tenant-1")
    assert not again.is_new
    assert again.client_secret is None
    assert server.state.principals[NAME] == secret


def test_rotation_ends_the_old_secret(isolation, server):
    old = isolation.grant("tenant-1").client_secret.get_secret_value()
    new = isolation.grant("tenant-1", rotate=True)
    assert new.is_new
    assert new.client_secret.get_secret_value() == server.state.principals[NAME] != old


def test_the_secret_is_asked_for_last(isolation, server):
    isolation.grant("tenant-1")
    calls = [call for call in server.state.calls if not call.startswith("GET")]
    assert calls[-2:] == ["POST principals", f"PUT principals/{NAME}/principal-roles"]


def test_revoking_removes_everything_and_can_be_repeated(isolation, server):
    isolation.grant("tenant-1")
    isolation.grant("tenant-10")
    assert isolation.has_access("tenant-1")
    assert isolation.revoke("tenant-1")
    assert not isolation.has_access("tenant-1")
    assert not isolation.revoke("tenant-1")
    assert list(server.state.principals) == [f"{NAME}0"]
    assert isolation.has_access("tenant-10")


def test_grants_beyond_the_namespace_are_named(isolation, management):
    isolation.grant("tenant-1")
    management.grant("lake", NAME, [Grant(privilege="CATALOG_MANAGE_CONTENT")])
    management.grant_namespace("lake", NAME, ["tenants", "tenant-10"], ["TABLE_READ_DATA"])
    management.grant_namespace("lake", NAME, ["tenants", "tenant-1", "bronze"], ["TABLE_READ_DATA"])
    assert isolation.excess_grants("tenant-1") == [
        "CATALOG_MANAGE_CONTENT on catalog",
        "TABLE_READ_DATA on namespace tenants.tenant-10",
    ]


def test_names_that_cannot_be_are_refused_before_any_call(isolation, management, server):
    with pytest.raises(InvalidIdentifierError):
        isolation.grant("../tenant-1")
    deep = IcebergCatalogConfig(
        name="lake",
        provider="local",
        warehouse_bucket="warehouse",
        namespace_prefix=("a" * 63,) * 4,
    )
    with pytest.raises(ConfigurationError, match="shorter"):
        PolarisIsolation(management, catalog="lake", config=deep).grant("tenant-1")
    assert server.state.calls == []


def test_a_refusal_says_what_polaris_said(management):
    with pytest.raises(CatalogConnectionError, match="does not exist"):
        management.assign_principal_role("nobody", "nothing")


def test_off_boarding_ends_the_credentials(isolation, session, tmp_path):
    session.bootstrap("tenant-1")
    isolation.grant("tenant-1")
    offboarding = TenantOffboarding(session, journal_folder=tmp_path / "journals", isolation=isolation)
    assert offboarding.plan("tenant-1").has_access
    result = offboarding.run("tenant-1")
    assert not isolation.has_access("tenant-1")
    assert '"revoked": true' in result.journal.read_text()
    assert "secret" not in result.journal.read_text().lower()
