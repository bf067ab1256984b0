"""Principals, roles and grants of tenants, through Polaris's management API.

The server responds like Polaris but enforces nothing; ``make test-polaris`` uses a real server.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from floe_core.errors import CatalogConnectionError, ConfigurationError, FloeStorageError, InvalidIdentifierError
from floe_polaris.management import TENANT_PRIVILEGES, Grant
from floe_tenancy import (
    AccessReview,
    CheckState,
    IcebergCatalogConfig,
    PolarisIsolation,
    TenantOffboarding,
    verify_tenants,
)
from floe_testing.stand_ins.polaris_management import PolarisManagementServer

NAME = "lake.tenants.tenant-1"


@pytest.fixture
def server():
    with PolarisManagementServer() as server:
        yield server


@pytest.fixture
def management(server, management_of):
    return management_of(server)


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
    assert isolation.review("tenant-1") == AccessReview(excess=(), missing=())


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


def test_a_tenant_may_not_write_what_confines_it(isolation, server):
    """Who removes its namespace's location reaches whatever the parent may; who writes properties lifts a hold."""
    isolation.grant("tenant-1")
    granted = {grant["privilege"] for grant in server.state.catalog_roles["lake", NAME]}
    confining = {"NAMESPACE_WRITE_PROPERTIES", "NAMESPACE_FULL_METADATA", "VIEW_CREATE", "VIEW_WRITE_PROPERTIES"}
    assert not granted & confining
    assert not any(privilege.startswith(("CATALOG_", "POLICY_")) or "MANAGE" in privilege for privilege in granted)


EARLIER_PRIVILEGES = (
    "NAMESPACE_FULL_METADATA",
    "TABLE_CREATE",
    "TABLE_LIST",
    "TABLE_READ_DATA",
    "TABLE_WRITE_DATA",
    "TABLE_FULL_METADATA",
    "TABLE_DROP",
)


def test_a_tenant_of_an_earlier_floe_is_tightened_by_the_same_command(isolation, management, server):
    management.ensure_catalog_role("lake", NAME)
    management.grant_namespace("lake", NAME, ["tenants", "tenant-1"], EARLIER_PRIVILEGES)
    review = isolation.review("tenant-1")
    assert "NAMESPACE_FULL_METADATA on namespace tenants.tenant-1" in review.excess
    assert "NAMESPACE_LIST on namespace tenants.tenant-1" in review.missing
    access = isolation.grant("tenant-1")
    assert access.revoked == (
        "NAMESPACE_FULL_METADATA on namespace tenants.tenant-1",
        "TABLE_FULL_METADATA on namespace tenants.tenant-1",
    )
    assert {grant["privilege"] for grant in server.state.catalog_roles["lake", NAME]} == set(TENANT_PRIVILEGES)
    assert isolation.review("tenant-1") == AccessReview(excess=(), missing=())
    assert isolation.grant("tenant-1").revoked == ()
    # New privileges are granted before old ones are revoked, so that a running pipeline never lacks one.
    changes = [call for call in server.state.calls if call.endswith(f"catalog-roles/{NAME}/grants")]
    revoking = [number for number, call in enumerate(changes) if call.startswith("POST")]
    granting = [number for number, call in enumerate(changes) if call.startswith("PUT")]
    assert max(granting) < min(revoking)


def test_every_difference_of_privileges_is_named(isolation, management, server):
    isolation.grant("tenant-1")
    management.grant("lake", NAME, [Grant(privilege="CATALOG_MANAGE_CONTENT")])
    management.grant_namespace("lake", NAME, ["tenants", "tenant-10"], ["TABLE_READ_DATA"])
    management.grant_namespace("lake", NAME, ["tenants", "tenant-1"], ["NAMESPACE_WRITE_PROPERTIES"])
    table = Grant(type="table", privilege="TABLE_READ_DATA", namespace=("tenants", "tenant-10"), table_name="orders")
    management.grant("lake", NAME, [table])
    own = Grant(type="namespace", privilege="TABLE_DROP", namespace=("tenants", "tenant-1"))
    management.revoke("lake", NAME, [own])
    for catalog in ("lake", "other"):
        management.ensure_catalog_role(catalog, "reader")
        management.assign_catalog_role(NAME, catalog, "reader")
    management.ensure_principal_role("service_admin")
    management.assign_principal_role(NAME, "service_admin")
    review = isolation.review("tenant-1")
    assert review.excess == (
        "CATALOG_MANAGE_CONTENT on catalog",
        "TABLE_READ_DATA on namespace tenants.tenant-10",
        "NAMESPACE_WRITE_PROPERTIES on namespace tenants.tenant-1",
        "TABLE_READ_DATA on table tenants.tenant-10.orders",
        "the principal role 'service_admin'",
        "the role 'reader' of catalog 'lake'",
        "the role 'reader' of catalog 'other'",
    )
    assert review.missing == ("TABLE_DROP on namespace tenants.tenant-1",)
    # Only the privileges of the tenant's own role are corrected; other assigned roles must be revoked by hand.
    assert len(isolation.grant("tenant-1").revoked) == 4
    assert isolation.review("tenant-1") == AccessReview(excess=review.excess[4:], missing=())


def test_a_role_that_is_not_assigned_is_missed(isolation, server):
    isolation.grant("tenant-1")
    server.state.assigned.clear()
    server.state.principal_roles[NAME].clear()
    assert isolation.review("tenant-1").missing == (
        f"the principal role '{NAME}'",
        f"the role '{NAME}' of catalog 'lake'",
    )
    assert isolation.review("tenant-10") is None


def test_verification_fails_on_one_privilege_too_many_or_too_few(isolation, management, session):
    def access(tenant="tenant-1"):
        [report] = verify_tenants(session, [tenant], isolation=isolation)
        [check] = [check for check in report.checks if check.name == "access"]
        return check, report.ok

    session.bootstrap("tenant-1")
    assert access()[0].state is CheckState.SKIPPED
    isolation.grant("tenant-1")
    assert access()[1]
    extra = Grant(type="namespace", privilege="NAMESPACE_WRITE_PROPERTIES", namespace=("tenants", "tenant-1"))
    management.grant("lake", NAME, [extra])
    check, is_ok = access()
    assert not is_ok
    assert check.detail == "should not have NAMESPACE_WRITE_PROPERTIES on namespace tenants.tenant-1"
    management.revoke("lake", NAME, [extra, extra.model_copy(update={"privilege": "TABLE_CREATE"})])
    check, is_ok = access()
    assert not is_ok
    assert check.detail == "is missing TABLE_CREATE on namespace tenants.tenant-1"


@pytest.mark.parametrize(
    "setting",
    [
        "polaris.config.allow.unstructured.table.location",
        "allow.external.table.location",
        "polaris.config.namespace-custom-location.enabled",
    ],
)
def test_verification_fails_where_the_catalog_checks_no_locations(isolation, server, session, setting):
    session.bootstrap("tenant-1")
    isolation.grant("tenant-1")
    server.state.catalogs["lake"] = {"default-base-location": "s3://lake", setting: "false"}
    assert verify_tenants(session, ["tenant-1"], isolation=isolation)[0].ok
    server.state.catalogs["lake"][setting] = "true"
    [report] = verify_tenants(session, ["tenant-1"], isolation=isolation)
    assert not report.ok
    assert f"{setting}=true" in report.checks[-1].detail


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
    result = offboarding.run("tenant-1", grace=timedelta())
    assert not isolation.has_access("tenant-1")
    assert '"revoked": true' in result.journal.read_text()
    assert "secret" not in result.journal.read_text().lower()


def test_keys_of_a_tenant_with_credentials_are_given_an_hour_to_end(isolation, session, tmp_path):
    session.bootstrap("tenant-1")
    isolation.grant("tenant-1")
    offboarding = TenantOffboarding(session, journal_folder=tmp_path / "journals", isolation=isolation)
    before = datetime.now(UTC)
    result = offboarding.run("tenant-1", wait=False)
    assert before + timedelta(hours=1) <= result.list_again_after <= datetime.now(UTC) + timedelta(hours=1)
    again = offboarding.run("tenant-1", wait=False)
    assert again.list_again_after == result.list_again_after
    noted = json.loads(again.journal.read_text())["steps"]["revoke"]
    assert noted["revoked"] is True
    # Users who know that the server's keys expire earlier can say so; the time counts from the revocation.
    assert offboarding.run("tenant-1", grace=timedelta(), wait=False).list_again_after is None


def test_a_secret_is_handed_over_before_the_next_call(isolation, server):
    taken = {}
    server.state.dies_at = f"PUT principals/{NAME}/principal-roles"
    with pytest.raises(FloeStorageError):
        isolation.grant("tenant-1", hand_over=lambda access: taken.update({"tenant-1": access}))
    assert taken["tenant-1"].client_secret.get_secret_value() == server.state.principals[NAME]
    server.state.dies_at = None
    again = isolation.grant("tenant-1")
    assert not again.is_new
    assert server.state.assigned == {NAME: {NAME}}
