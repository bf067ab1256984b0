"""The example for one airport on a REST catalog with MinIO, with nothing but that tenant's own credentials."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import date

import pytest

from floe_testing.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET
from floe_testing.tenant_guard import TenantGuard
from floe_testing.vending import VendingDesk

pytestmark = [pytest.mark.live, pytest.mark.timeout(900), pytest.mark.req("TN-01", "SC-009")]

DAYS = ("2013-07-01", "2013-07-02")
ENVIRONMENTS = """
  owner:
    catalog: {type: rest, name: lake, uri: "${OWNER_URI}", warehouse: lake, access_delegation: none}
    storage:
      type: s3
      bucket: "${S3_BUCKET}"
      prefix: PLACE
      endpoint: "${S3_ENDPOINT}"
      region: us-east-1
      credentials: {access_key_id: "${S3_ACCESS_KEY_ID}", secret_access_key: "${S3_SECRET_ACCESS_KEY}"}
    tenancy: {namespace_prefix: PLACE}

  ewr:
    catalog:
      type: polaris
      name: lake
      uri: "${TENANT_URI}"
      warehouse: lake
      credentials: {client_id: floe, client_secret: "${TENANT_SECRET}"}
    storage: {type: s3, bucket: "${S3_BUCKET}", prefix: PLACE, region: us-east-1}
    tenancy: {namespace_prefix: PLACE}
"""


def floe(project, *arguments, **variables):
    command = [sys.executable, "-m", "floe_cli", *arguments, "--project", str(project.folder), "--output", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)["data"]


def test_a_tenants_flights_need_its_own_credentials_and_nothing_else(project, raw, iceberg_rest, gateway, minio):
    from flights import feed

    feed.deliver_reference()
    feed.deliver(*map(date.fromisoformat, DAYS))
    place = f"t{uuid.uuid4().hex[:10]}"
    file = project.folder / "floe.yaml"
    file.write_text(file.read_text().rstrip("\n") + "\n" + ENVIRONMENTS.replace("PLACE", place))
    shared = {"S3_BUCKET": minio["bucket"]}
    keys = {"S3_ACCESS_KEY_ID": minio["access_key_id"], "S3_SECRET_ACCESS_KEY": minio["secret_access_key"]}
    owner = {"OWNER_URI": iceberg_rest.url, "S3_ENDPOINT": minio.url, **keys, **shared}
    floe(project, "tenants", "bootstrap", "ewr", "jfk", "--env", "owner", **owner)
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    guard = TenantGuard(gateway, (place, "ewr"))
    with FaultGateway(minio.url) as front:
        desk = VendingDesk(minio, catalog=gateway, front=front)
        own = {"TENANT_URI": gateway.url, "TENANT_SECRET": CLIENT_SECRET, **shared}
        tenant = ("--tenant", "ewr", "--env", "ewr")
        data = floe(project, "run", *tenant, "--partition-range", "...".join(DAYS), **own)
        listed = floe(project, "tables", "list", "--namespace", f"{place}.ewr", "--long", "--env", "ewr", **own)
    tables = {asset["table"]: asset for asset in data["assets"]}
    flights = raw[raw.flight_date.isin([date.fromisoformat(day) for day in DAYS]) & (raw.origin == "EWR")]
    assert tables[f"{place}.ewr.silver.flights"]["state"] == "published"
    rows = {entry["table"]: entry["rows"] for entry in listed if entry["exists"]}
    assert rows[f"{place}.ewr.silver.flights"] == len(flights)
    assert rows[f"{place}.ewr.gold.daily"] == len(DAYS)
    assert guard.asked == []
    assert desk.vended > 0
