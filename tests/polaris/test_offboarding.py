"""A tenant is created, isolated, verified and off-boarded on a real Polaris server, with all kinds of objects."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.errors import CatalogAuthenticationError
from floe_polaris import create_catalog
from floe_tenancy import (
    CatalogProvider,
    IcebergCatalogBootstrapper,
    IcebergCatalogConfig,
    PolarisIsolation,
    TenantOffboarding,
    verify_tenants,
)
from floe_testing.stand_ins.tenant_attacks import VIEW, Attack, Intruder, TenantPair

LEAVES, STAYS = "tenant-1", "tenant-10"
EVENT = pa.Table.from_pylist(
    [{"event_id": "1", "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}]
)


@pytest.fixture
def config(polaris_config, bucket):
    keys = {name: os.environ.get(f"POLARIS_S3_{name}") for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}
    if not all(keys.values()):
        pytest.skip("capability: off-boarding needs POLARIS_S3_ACCESS_KEY_ID and POLARIS_S3_SECRET_ACCESS_KEY")
    return IcebergCatalogConfig(
        name="lake",
        provider=CatalogProvider.S3,
        warehouse_bucket=bucket,
        warehouse_prefix=polaris_config.warehouse,
        namespace_prefix=(f"floe_{uuid.uuid4().hex[:10]}",),
        endpoint=os.environ.get("POLARIS_S3_ENDPOINT") or None,
        region=os.environ.get("POLARIS_S3_REGION") or "us-east-1",
        access_key_id=keys["ACCESS_KEY_ID"],
        secret_access_key=keys["SECRET_ACCESS_KEY"],
    )


@pytest.fixture
def session(polaris_config, config):
    def load(_):
        catalogs.append(create_catalog(polaris_config))
        return catalogs[-1]

    catalogs = []
    with IcebergCatalogBootstrapper(catalog_loader=load).session(config) as session:
        yield session
    for catalog in catalogs:
        catalog.close()


def test_whatever_a_tenant_leaves_it_goes(session, config, polaris_config, management, tmp_path):
    isolation = PolarisIsolation(management, catalog=polaris_config.warehouse, config=config)
    for tenant in (LEAVES, STAYS):
        session.bootstrap(tenant)
        session.manager.append(".".join((*config.namespace_for(tenant), "events")), EVENT)
    access = {tenant: isolation.grant(tenant) for tenant in (LEAVES, STAYS)}
    reports = verify_tenants(session, [LEAVES, STAYS], isolation=isolation)
    assert all(report.ok for report in reports), reports
    bucket = session.storage.store(config.warehouse)

    def content(tenant):
        return {item.key: bucket.read(item.key) for item in bucket.list(config.warehouse_key_for(tenant))}

    own = config.namespace_for(LEAVES)
    rooms = TenantPair(polaris_config.warehouse, own, (), "", "", "events", "", "", "")
    client_id, secret = access[LEAVES].client_id, access[LEAVES].client_secret
    intruder = Intruder(polaris_config.uri, client_id=client_id, client_secret=secret.get_secret_value())
    # Objects that a tenant can leave: a namespace with an unusual name, a table of another format, a broken table.
    for namespace in ("..", "bronze"):
        assert intruder.catalog(rooms, Attack("POST", "namespaces", {"namespace": [*own, namespace]})).status == 200
    generic = intruder.polaris(
        rooms, Attack("POST", f"namespaces/{'%1F'.join(own)}/generic-tables", {"name": "g", "format": "delta"})
    )
    administrator = Intruder(
        polaris_config.uri,
        client_id=polaris_config.client_id,
        client_secret=polaris_config.client_secret.get_secret_value(),
    )
    view = administrator.catalog(rooms, Attack("POST", f"namespaces/{'%1F'.join((*own, 'bronze'))}/views", VIEW))
    assert view.status == 200, view
    for tenant in (LEAVES, STAYS):
        table = session.manager.load_table(".".join((*config.namespace_for(tenant), "metrics")))
        bucket.delete([table.metadata_location.removeprefix(f"{config.warehouse.uri()}/")])
    before = content(STAYS)
    offboarding = TenantOffboarding(session, journal_folder=tmp_path / "journals", isolation=isolation)
    plan = offboarding.plan(LEAVES)
    prefix = ".".join(own)
    assert {str(one) for one in plan.contents} == {
        f"namespace {prefix}.'..'",
        f"view {prefix}.bronze.spy",
        *([f"generic table {prefix}.g"] if generic.status == 200 else []),
    }
    assert [table.name for table in plan.broken] == [f"{prefix}.metrics"]
    assert plan.unreadable == (".".join((*config.namespace_for(STAYS), "metrics")),)
    assert not plan.is_blocked
    result = offboarding.run(LEAVES, export_to=str(tmp_path / "out"), grace=timedelta())
    assert list(result.not_exported) == [f"{prefix}.metrics"]
    assert result.exported[f"{prefix}.events"] == 1
    assert content(LEAVES) == {}
    assert content(STAYS) == before
    assert session.tenants() == [STAYS]
    assert not isolation.has_access(LEAVES)
    update = {"client_id": client_id, "client_secret": secret}
    with pytest.raises(CatalogAuthenticationError):
        create_catalog(polaris_config.model_copy(update=update))
    [report] = verify_tenants(session, [STAYS], isolation=isolation)
    wrong = {check.name for check in report.checks if check.state.value == "failed"}
    # It reports the tenant's own broken table, and no other problem.
    assert "tables" in wrong
    assert wrong <= {"tables", "foreign files", "table locations"}
    for one in (intruder, administrator):
        one.close()
    isolation.revoke(STAYS)
