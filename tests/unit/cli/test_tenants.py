"""``floe tenants`` on the embedded stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floe_polaris import PolarisCatalogConfig, PolarisManagement
from floe_tenancy import PolarisIsolation, tenancy_config
from floe_testing.rest_fixtures import QUICK_RETRY
from floe_testing.stand_ins.polaris_management import PolarisManagementServer

WIDER = """
tenancy:
  tables:
    events:
      columns:
        - {name: event_id, type: string, required: true}
        - {name: device, type: string}
"""


@pytest.mark.req("TN-04", "TN-05")
def test_bootstrap_can_be_repeated(shop):
    run = shop("tenants", "bootstrap", "acme", "beta", "-o", "json")
    assert run.code == 0
    assert run.data == [
        {"tenant": "acme", "state": "done", "detail": "created main, events, metrics"},
        {"tenant": "beta", "state": "done", "detail": "created main, events, metrics"},
    ]
    assert shop("tenants", "bootstrap", "acme", "-o", "json").data[0]["state"] == "skipped"
    assert shop("tenants", "list", "-o", "json").data == ["acme", "beta"]


def test_ids_come_from_a_file(shop):
    Path("ids.txt").write_text("# tenants\nacme\n\n  beta  \nacme\n")
    assert len(shop("tenants", "bootstrap", "--file", "ids.txt", "-o", "json").data) == 2
    assert shop("tenants", "bootstrap", "--file", "nope.txt").code == 1
    assert "--file" in shop("tenants", "bootstrap").err


def test_a_bad_id_stops_before_anything_is_made(shop):
    run = shop("tenants", "bootstrap", "acme", "../beta")
    assert run.code == 1
    assert "'../beta' is not a valid tenant id" in run.err
    assert shop("tenants", "list", "-o", "json").data == []


def test_ids_that_differ_in_case_are_reported(shop):
    run = shop("tenants", "bootstrap", "acme", "ACME", "--concurrency", "1", "-o", "json")
    assert run.code == 1
    assert [line["state"] for line in run.data] == ["done", "failed"]


def test_show_tells_where_a_tenant_lies(shop):
    shop("tenants", "bootstrap", "acme")
    data = shop("tenants", "show", "acme", "-o", "json").data
    assert data["namespace"] == "tenants.acme"
    assert data["warehouse_uri"].endswith("/.floe/warehouse/tenants/acme")
    assert [table["name"] for table in data["tables"]] == [
        "tenants.acme.events",
        "tenants.acme.main",
        "tenants.acme.metrics",
    ]
    assert "tenants.acme.events" in shop("tenants", "show", "acme").out
    assert shop("tenants", "show", "beta").code == 1


@pytest.mark.parametrize(
    "command",
    [
        ("tenants", "bootstrap"),
        ("tenants", "show"),
        ("tenants", "verify"),
        ("tenants", "evolve"),
        ("tenants", "offboard", "--yes"),
        ("run", "--tenant"),
        ("plan", "--tenant"),
    ],
)
def test_a_bad_id_opens_nothing(shop, command):
    run = shop(*command, "../acme", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "InvalidIdentifierError"
    # Not even the catalog, which opening would have created.
    assert not list(Path().rglob("*.db"))


def test_a_run_for_a_tenant_that_is_none_says_how_to_make_it(shop):
    shop("tenants", "bootstrap", "acme")
    for command in ("run", "plan"):
        run = shop(command, "--tenant", "beta", "-o", "json")
        assert run.code == 1
        assert run.error["hint"] == "Create it with: floe tenants bootstrap beta"
        assert shop(command, "--tenant", "ACME", "-o", "json").error["hint"] == "Did you mean 'acme'?"
    assert shop("tenants", "list", "-o", "json").data == ["acme"]


def test_verify_proves_the_layout(shop):
    assert "No tenants" in shop("tenants", "verify").out
    shop("tenants", "bootstrap", "acme", "beta")
    assert shop("tenants", "verify").code == 0
    Path(".floe/warehouse/tenants/acme/stray.txt").write_text("x")
    run = shop("tenants", "verify", "-o", "json")
    assert run.code == 1
    assert [report["ok"] for report in run.data] == [False, True]
    shown = shop("tenants", "verify").out
    assert "stray.txt" in shown
    assert "1 of 2 tenants passed." in shown
    assert "floe tenants bootstrap nobody" in shop("tenants", "verify", "nobody").out
    assert shop("tenants", "verify", "beta").code == 0


@pytest.mark.req("TN-06")
def test_evolve_rolls_new_columns_over_tenants(shop):
    shop("tenants", "bootstrap", "acme", "beta")
    with Path("floe.yaml").open("a") as file:
        file.write(WIDER)
    planned = shop("tenants", "evolve", "--dry-run", "-o", "json")
    assert [line["detail"] for line in planned.data] == ["would add device", "would add device"]
    run = shop("tenants", "evolve", "-o", "json")
    assert [(line["tenant"], line["table"], line["state"]) for line in run.data] == [
        ("acme", "events", "done"),
        ("beta", "events", "done"),
    ]
    assert shop("tenants", "evolve", "acme", "-o", "json").data[0]["state"] == "skipped"
    assert "Declared tables: events" in shop("tenants", "evolve", "--table", "nope").err
    assert shop("tenants", "evolve").out.strip() == "0 tables changed, 2 up to date, 0 failed."
    assert "Tenant not found: 'nobody'" in shop("tenants", "evolve", "acme", "nobody").err


def test_evolve_reports_a_refused_column(shop):
    shop("tenants", "bootstrap", "acme")
    with Path("floe.yaml").open("a") as file:
        file.write(WIDER.replace("device, type: string", "device, type: string, required: true"))
    run = shop("tenants", "evolve", "-o", "json")
    assert run.code == 1
    assert run.data[0]["state"] == "failed"
    assert "required" in run.data[0]["detail"]


def test_offboard_asks_shows_and_removes(shop):
    shop("tenants", "bootstrap", "tenant-1", "tenant-10")
    planned = shop("tenants", "offboard", "tenant-1", "--dry-run", "-o", "json").data
    assert planned["removed"] is False
    assert planned["objects"] == 4
    assert "Nothing was changed" in shop("tenants", "offboard", "tenant-1", "--dry-run").out
    refused = shop("tenants", "offboard", "tenant-1")
    assert refused.code == 1
    assert "--yes" in refused.err
    run = shop("tenants", "offboard", "tenant-1", "--yes", "--export", "out", "-o", "json")
    assert run.code == 0
    assert run.data["deleted_objects"] == 4
    assert json.loads(Path(run.data["journal"]).read_text())["finished_at"]
    assert Path("out/tenants/tenant-1/events.parquet").is_file()
    assert shop("tenants", "list", "-o", "json").data == ["tenant-10"]
    assert shop("tenants", "verify", "tenant-10").code == 0
    assert shop("tenants", "offboard", "tenant-1", "--yes").code == 1


def test_a_legal_hold_is_set_like_any_property(shop):
    shop("tenants", "bootstrap", "acme")
    shop("namespaces", "set", "tenants.acme", "--property", "floe.legal-hold=case 42")
    assert "case 42" in shop("tenants", "show", "acme").out
    planned = shop("tenants", "offboard", "acme", "--dry-run")
    assert (planned.code, "would be refused" in planned.out) == (1, True)
    run = shop("tenants", "offboard", "acme", "--yes", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "LegalHoldError"
    shop("namespaces", "set", "tenants.acme", "--remove", "floe.legal-hold")
    assert shop("tenants", "offboard", "acme", "--yes").code == 0


def test_credentials_are_rotated_only_where_they_are_given(shop):
    run = shop("tenants", "bootstrap", "acme", "--rotate")
    assert run.code == 1
    assert "Add --isolate." in run.err
    assert shop("tenants", "list", "-o", "json").data == []


def test_only_polaris_isolates(shop):
    run = shop("tenants", "bootstrap", "acme", "--isolate", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "CapabilityError"


def test_what_holds_for_a_table_of_the_project_holds_for_each_tenants(shop):
    with Path("floe.yaml").open("a") as file:
        file.write("""
  gold.sums:
    columns: [{name: id, type: long}]
    retention: {snapshot_days: 400}
""")
    shop("tenants", "bootstrap", "acme")
    assert shop("tables", "create", "tenants.acme.gold.sums", "--schema", "id long").code == 0
    young = shop("tables", "expire", "tenants.acme.gold.sums", "-o", "json").data
    assert young["retention_days"] == 400
    refused = shop("tables", "expire", "tenants.acme.gold.sums", "--older-than", "30d", "--yes")
    assert (refused.code, "must be kept for 400 days" in refused.err) == (1, True)
    assert "max-snapshot-age-ms" in shop("tables", "drift", "tenants.acme.gold.sums").out
    listed = {one["table"]: one["declared"] for one in shop("tables", "list", "-o", "json").data}
    assert listed["tenants.acme.gold.sums"] is True
    # Only bootstrap creates a tenant.
    assert shop("tables", "create", "tenants.beta.gold.sums").code == 1


@pytest.fixture
def polaris(shop, monkeypatch):
    """Give the embedded project a management API, as if its catalog were a Polaris."""

    def isolated(connection):
        config = PolarisCatalogConfig(
            uri=server.uri, warehouse="lake", client_id="root", client_secret="canary-root-secret", retry=QUICK_RETRY
        )
        return PolarisIsolation(PolarisManagement(config), catalog="lake", config=tenancy_config(connection))

    with PolarisManagementServer() as server:
        monkeypatch.setattr("floe_tenancy.project_isolation", isolated)
        yield server.state


def secret_of(state, tenant):
    return state.principals[f"lake.tenants.{tenant}"]


def test_secrets_are_printed_one_by_one_and_the_server_may_die_between(shop, polaris):
    polaris.dies_at = "PUT catalogs/lake/catalog-roles/lake.tenants.beta/grants"
    run = shop("tenants", "bootstrap", "acme", "beta", "gamma", "--isolate")
    assert run.code == 1
    assert secret_of(polaris, "acme") in run.out
    assert list(polaris.principals) == ["lake.tenants.acme"]
    assert "1 created, 0 already exist, 2 failed." in run.out
    polaris.dies_at = None
    again = shop("tenants", "bootstrap", "acme", "beta", "gamma", "--isolate")
    assert again.code == 0
    assert secret_of(polaris, "acme") not in again.out
    assert "already has credentials; pass --rotate to replace them" in again.out
    assert secret_of(polaris, "beta") in again.out
    assert secret_of(polaris, "gamma") in again.out
    assert "These secrets will not be shown again." in again.out


def test_a_secret_that_was_told_is_handed_over_although_the_next_call_fails(shop, polaris):
    polaris.dies_at = "PUT principals/lake.tenants.beta/principal-roles"
    run = shop("tenants", "bootstrap", "acme", "beta", "--isolate", "--credentials-file", "made.secret", "-o", "json")
    assert run.code == 1
    assert [line["state"] for line in run.data] == ["done", "failed"]
    told = [json.loads(line) for line in Path("made.secret").read_text().splitlines()]
    assert {line["tenant"]: line["client_secret"] for line in told} == {
        "acme": secret_of(polaris, "acme"),
        "beta": secret_of(polaris, "beta"),
    }
    polaris.dies_at = None
    assert shop("tenants", "bootstrap", "acme", "beta", "--isolate").code == 0
    assert shop("tenants", "verify").code == 0


def test_lost_secrets_are_replaced_by_rotation(shop, polaris):
    shop("tenants", "bootstrap", "acme", "--isolate")
    lost = secret_of(polaris, "acme")
    run = shop("tenants", "bootstrap", "acme", "--isolate", "--rotate", "--yes", "-o", "json")
    assert run.data[0]["client_secret"] == secret_of(polaris, "acme") != lost


def test_credentials_go_to_a_file_that_only_its_owner_reads(shop, polaris):
    file = Path("made.secret")
    run = shop("tenants", "bootstrap", "acme", "beta", "--isolate", "--credentials-file", str(file))
    assert run.code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert secret_of(polaris, "acme") not in run.out + run.err
    assert "Wrote 2 secrets to made.secret" in run.out
    file.chmod(0o644)
    refused = shop("tenants", "bootstrap", "gamma", "--isolate", "--credentials-file", str(file), "-o", "json")
    assert refused.error["hint"].endswith("chmod 600 made.secret")
    missing = shop("tenants", "bootstrap", "gamma", "--isolate", "--credentials-file", "no/folder/made.secret")
    assert missing.code == 1
    # No tenant was created whose secret could not have been stored.
    assert "lake.tenants.gamma" not in polaris.principals
    assert "Add --isolate." in shop("tenants", "bootstrap", "gamma", "--credentials-file", str(file)).err


def test_json_for_several_tenants_needs_a_file_for_the_secrets(shop, polaris):
    run = shop("tenants", "bootstrap", "acme", "beta", "--isolate", "-o", "json")
    assert run.code == 1
    assert "--credentials-file" in run.error["hint"]
    assert not polaris.principals


def test_verify_fails_on_a_privilege_too_many(shop, polaris):
    shop("tenants", "bootstrap", "acme", "--isolate")
    assert shop("tenants", "verify").code == 0
    grants = polaris.catalog_roles["lake", "lake.tenants.acme"]
    grants.append(grants[0] | {"privilege": "NAMESPACE_FULL_METADATA"})
    run = shop("tenants", "verify")
    assert run.code == 1
    assert "should not have NAMESPACE_FULL_METADATA on namespace tenants.acme" in run.out
    tightened = shop("tenants", "bootstrap", "acme", "--isolate")
    assert "revoked NAMESPACE_FULL_METADATA on namespace tenants.acme" in tightened.out
    assert shop("tenants", "verify").code == 0


def test_off_boarding_without_waiting_says_when_to_come_back(shop, polaris):
    shop("tenants", "bootstrap", "acme", "--isolate")
    run = shop("tenants", "offboard", "acme", "--yes", "--no-wait")
    assert run.code == 0
    assert "Run the same command again after that" in run.out
    assert not polaris.principals
    early = shop("tenants", "bootstrap", "acme")
    assert early.code == 1
    assert "floe tenants offboard acme" in early.err
    again = shop("tenants", "offboard", "acme", "--yes", "--no-wait", "-o", "json").data
    assert again["removed"] is False
    assert again["list_again_after"]
    last = shop("tenants", "offboard", "acme", "--yes", "--grace", "0s", "-o", "json").data
    assert (last["removed"], last["list_again_after"]) == (True, None)
    assert shop("tenants", "bootstrap", "acme").code == 0
