"""The flights example for one tenant with only its own credentials, on REST with MinIO."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import date

import pytest

from floe_polaris.management import TENANT_PRIVILEGES
from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET
from floe_testing.stand_ins.privilege_guard import PrivilegeGuard
from floe_testing.stand_ins.vending import CredentialVendor

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.req("TN-01", "TN-02")]

DAYS = ("2013-07-01", "2013-07-02")
AIRPORT, NEIGHBOR = "ewr", "jfk"
# The administrator has keys for the bucket; the tenant has an id and a secret, and the catalog vends keys to it.
ENVIRONMENTS = """
  owner:
    catalog: {{type: rest, uri: "{server}", warehouse: lake, access_delegation: none}}
    storage: &storage
      type: s3
      bucket: {bucket}
      prefix: {place}
      endpoint: {store}
      region: {region}
      credentials: {{access_key_id: "${{OWNER_KEY_ID}}", secret_access_key: "${{OWNER_SECRET}}"}}
    tenancy: {{namespace_prefix: {place}}}
  tenant:
    catalog:
      type: polaris
      uri: {gateway}
      warehouse: lake
      credentials: {{client_id: {client_id}, client_secret: "${{TENANT_SECRET}}"}}
    storage: {{type: s3, bucket: {bucket}, prefix: {place}, endpoint: {store}, region: {region}}}
    tenancy: {{namespace_prefix: {place}}}
"""


@pytest.fixture
def site(project, iceberg_rest, minio):
    """Give the gateway before the catalog, and the project with one environment for each party."""
    place = f"f{uuid.uuid4().hex[:10]}"
    with FaultGateway(iceberg_rest.url) as gateway, FaultGateway(minio.url) as front:
        gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
        front.keeps_exchanges = False
        guard = PrivilegeGuard(gateway, (place, AIRPORT), TENANT_PRIVILEGES)
        CredentialVendor(minio, catalog=gateway, front=front)
        text = ENVIRONMENTS.format(
            server=iceberg_rest.url,
            gateway=gateway.url,
            bucket=minio["bucket"],
            store=minio.url,
            region=minio["region"],
            place=place,
            client_id=CLIENT_ID,
        )
        with (project.folder / "floe.yaml").open("a") as file:
            file.write(text)
        yield guard, place


def test_an_airports_pipeline_runs_with_its_own_credentials_alone(site, project, raw, minio):
    from flights import feed

    guard, place = site
    feed.deliver_reference()
    feed.deliver(*map(date.fromisoformat, DAYS))
    owner = {"OWNER_KEY_ID": minio["access_key_id"], "OWNER_SECRET": minio["secret_access_key"]}

    def floe(*arguments, **variables):
        command = [sys.executable, "-m", "floe_cli", *arguments, "--project", str(project.folder), "--output", "json"]
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "OWNER_"))}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean | variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["data"]

    floe("tenants", "bootstrap", AIRPORT, NEIGHBOR, "--env", "owner", **owner)
    own = {"TENANT_SECRET": CLIENT_SECRET}
    days = ("--partition-range", "...".join(DAYS))
    ran = floe("run", "--tenant", AIRPORT, "--env", "tenant", *days, **own)
    assets = {asset["table"]: asset for asset in ran["assets"]}
    expected = ((raw.origin == AIRPORT.upper()) & raw.flight_date.isin([date.fromisoformat(day) for day in DAYS])).sum()
    flights = f"{place}.{AIRPORT}.silver.flights"
    assert assets[flights]["state"] == "published"
    assert assets[flights]["rows"] == expected
    assert assets[f"{place}.{AIRPORT}.gold.daily"]["total_rows"] == len(DAYS)
    assert guard.refused_calls == []
    planes = f"{place}.{AIRPORT}.bronze.planes"
    floe("tables", "expire", planes, "--older-than", "0d", "--retain-last", "1", "--yes", "--env", "tenant", **own)
    # Expiry looks for a legal hold above the tenant; missing access there does not stop it.
    assert set(guard.refused_calls) == {f"GET /v1/namespaces/{place}"}
    # The administrator sees the same rows, all files below the tenant's prefix, and an unchanged second tenant.
    verified = floe("tenants", "verify", AIRPORT, NEIGHBOR, "--env", "owner", **owner)
    wrong = [check for report in verified for check in report["checks"] if check["state"] == "failed"]
    assert [report["ok"] for report in verified] == [True, True], wrong
