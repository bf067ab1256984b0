"""Recorded responses of a real Polaris 1.4.1 to all tenant attacks (POLARIS_RECORD updates them)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floe_polaris.management import TENANT_PRIVILEGES
from floe_tenancy import PolarisIsolation
from floe_testing.stand_ins.polaris_management import PolarisManagementServer
from floe_testing.stand_ins.tenant_attacks import ATTACKS, ESCALATIONS, TenantPair

RECORDED = json.loads(Path(__file__).with_name("recorded").joinpath("polaris_1_4_1.json").read_text())
EARLIER = "answers with NAMESPACE_FULL_METADATA"
ROOMS = TenantPair(
    prefix="lake",
    own=("tenants", "acme"),
    victim=("tenants", "beta"),
    own_location="s3://lake/lake/tenants/acme",
    victim_location="s3://lake/lake/tenants/beta",
    table="events",
    victim_metadata="s3://lake/lake/tenants/beta/events/metadata/0.metadata.json",
    principal="lake.tenants.acme",
    victim_principal="lake.tenants.beta",
)


def test_the_answers_are_those_to_the_privileges_that_floe_grants():
    """Whoever changes the privileges records the answers anew."""
    assert RECORDED["privileges"] == list(TENANT_PRIVILEGES)


@pytest.mark.parametrize("name", [*ATTACKS, *ESCALATIONS])
def test_polaris_refused_every_attack(name):
    attack = {**ATTACKS, **ESCALATIONS}[name](ROOMS)
    answer = RECORDED["answers"][name]
    assert answer["status"] in attack.denied
    if answer["status"] == 403:
        assert any(
            why in answer["message"] for why in ("not authorized", "allowed locations", "conflicts with", "Only Root")
        )


def test_with_the_privilege_that_floe_once_granted_polaris_vends_keys_to_the_neighbors_files():
    removal = "remove the location of its namespace"
    create = "create a table in the neighbor's prefix"
    assert RECORDED[EARLIER][removal]["content"]["removed"] == ["location"]
    assert RECORDED[EARLIER][create]["status"] == 200
    assert RECORDED[EARLIER][create]["keys for"] == [f"{ROOMS.victim_location}/spy"]
    # The same two requests with the current privileges.
    assert "not authorized for op UPDATE_NAMESPACE_PROPERTIES" in RECORDED["answers"][removal]["message"]
    assert f"is not in the list of allowed locations: [{ROOMS.own_location}]" in RECORDED["answers"][create]["message"]


def test_the_privilege_too_many_is_found_and_taken_away(tenants, management_of):
    with PolarisManagementServer() as server:
        name = ROOMS.principal
        server.state.catalog_roles["lake", name] = list(RECORDED["grants with one too many"])
        isolation = PolarisIsolation(management_of(server), catalog="lake", config=tenants.config)
        assert isolation.review("acme").excess == ("NAMESPACE_FULL_METADATA on namespace tenants.acme",)
        assert isolation.grant("acme").revoked == ("NAMESPACE_FULL_METADATA on namespace tenants.acme",)
        left = {grant["privilege"] for grant in server.state.catalog_roles["lake", name]}
        assert left == set(TENANT_PRIVILEGES)
