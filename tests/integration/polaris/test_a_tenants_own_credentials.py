"""A tenant works with only its own credentials: no requests above its namespace, and no long-lived keys."""

from __future__ import annotations

import io
import json
import uuid
from contextlib import redirect_stderr, redirect_stdout

import pytest

from floe_cli.app import main
from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET
from floe_testing.stand_ins.tenant_guard import TenantGuard
from floe_testing.stand_ins.vending import CredentialVendor

pytestmark = pytest.mark.timeout(600)

ASSETS = """\
import pyarrow as pa
from dagster import asset


@asset(key=["bronze", "orders"], metadata={"write_mode": "append"})
def orders() -> pa.Table:
    return pa.table({"id": [1, 2, 3], "total": [10, 20, 30]})


@asset(key=["silver", "orders"], metadata={"write_mode": "overwrite"}, ins={})
def silver() -> pa.Table:
    return pa.table({"id": [1, 2, 3]})
"""


def floe(project, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*arguments, "--project", str(project), "-o", "json"])
    content = json.loads(out.getvalue())
    return code, content.get("data"), content.get("error"), err.getvalue()


@pytest.fixture
def place():
    return f"t{uuid.uuid4().hex[:10]}"


@pytest.fixture
def project(tmp_path, minio, place):
    """Give a way to write the project of one party: its address, and what else its floe.yaml says."""
    module = f"assets_{uuid.uuid4().hex}"

    def write(name, *, catalog, credentials=None):
        folder = tmp_path / name
        folder.mkdir()
        storage = {
            "type": "s3",
            "bucket": minio["bucket"],
            "prefix": place,
            "endpoint": minio.url,
            "region": minio["region"],
        }
        settings = {
            "name": "shop",
            "catalog": {"name": "lake", "warehouse": "lake", **catalog},
            "storage": {**storage, **({"credentials": credentials} if credentials else {})},
            "orchestration": {"module": module},
            "tenancy": {"namespace_prefix": place},
        }
        (folder / "floe.yaml").write_text(json.dumps(settings))
        (folder / f"{module}.py").write_text(ASSETS)
        return folder

    return write


@pytest.fixture
def bootstrapped(project, iceberg_rest, minio, monkeypatch):
    """Bootstrap a tenant and a neighbor with the administrator's keys, which nobody has afterwards."""
    monkeypatch.setenv("ROOT_KEY", minio["secret_access_key"])
    keys = {"access_key_id": minio["access_key_id"], "secret_access_key": "${ROOT_KEY}"}
    catalog = {"type": "rest", "uri": iceberg_rest.url, "access_delegation": "none"}
    code, _, error, _ = floe(project("owner", catalog=catalog, credentials=keys), "tenants", "bootstrap", "ewr", "jfk")
    assert code == 0, error
    monkeypatch.delenv("ROOT_KEY")


@pytest.fixture
def tenant(bootstrapped, project, gateway, minio, place):
    """Give the tenant's project, which names no storage keys, and the guard before its catalog."""
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    guard = TenantGuard(gateway, (place, "ewr"))
    with FaultGateway(minio.url) as front, pytest.MonkeyPatch.context() as environment:
        environment.setenv("TENANT_SECRET", CLIENT_SECRET)
        CredentialVendor(minio, catalog=gateway, front=front)
        own = {"client_id": CLIENT_ID, "client_secret": "${TENANT_SECRET}"}
        yield project("ewr", catalog={"type": "polaris", "uri": gateway.url, "credentials": own}), guard


def test_a_tenants_pipeline_runs_and_asks_nothing_above_its_namespace(tenant, place):
    folder, guard = tenant
    for command in (("plan", "--tenant", "ewr"), ("run", "--tenant", "ewr"), ("run", "--tenant", "ewr")):
        code, data, error, err = floe(folder, *command)
        assert code == 0, (command, error or data, err, guard.refused_calls)
    assert {asset["state"] for asset in data["assets"]} == {"written"}
    code, data, error, _ = floe(folder, "tables", "list", "--namespace", f"{place}.ewr", "--long")
    assert code == 0, error
    rows = {entry["table"]: entry["rows"] for entry in data if entry["exists"]}
    assert rows[f"{place}.ewr.bronze.orders"] == 6
    assert guard.refused_calls == []


def test_a_tenant_makes_namespaces_and_looks_after_its_tables(tenant, place):
    folder, guard = tenant
    own = f"{place}.ewr"
    assert floe(folder, "run", "--tenant", "ewr")[0] == 0
    assert floe(folder, "run", "--tenant", "ewr")[0] == 0
    for command in (
        ("namespaces", "create", f"{own}.lab.raw"),
        ("namespaces", "list", own),
        ("namespaces", "show", f"{own}.lab"),
        ("tables", "show", f"{own}.bronze.orders"),
        ("tables", "snapshots", f"{own}.bronze.orders"),
        ("tables", "create", f"{own}.lab.raw.notes", "--schema", "id long"),
        ("publish", "--tenant", "ewr"),
        ("namespaces", "delete", f"{own}.lab", "--dry-run"),
    ):
        code, data, error, _ = floe(folder, *command)
        assert code == 0, (command, error or data)
    assert guard.refused_calls == []
    code, _, error, _ = floe(folder, "namespaces", "create", f"{place}.jfk.lab")
    assert (code, error["type"]) == (1, "CatalogAuthorizationError")
    code, _, error, _ = floe(folder, "tables", "list")
    assert (code, error["type"]) == (1, "CatalogAuthorizationError")
    assert "Pass a namespace" in error["hint"]


def test_a_tenants_maintenance_asks_for_nothing_that_stops_it(tenant, place):
    folder, _ = tenant
    table = f"{place}.ewr.bronze.orders"
    for _ in range(2):
        assert floe(folder, "run", "--tenant", "ewr", "--select", "bronze.orders")[0] == 0
    code, data, error, _ = floe(folder, "tables", "expire", table, "--older-than", "0d", "--retain-last", "1", "--yes")
    assert code == 0, error or data
    code, data, error, _ = floe(folder, "tables", "drop", table, "--purge", "--yes")
    assert code == 0, error or data
