"""S21: off-boarding tenant-1 leaves the files of tenant-10 byte-identical."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from floe_tenancy import (
    CatalogProvider,
    IcebergCatalogBootstrapper,
    IcebergCatalogConfig,
    TenantOffboarding,
    verify_tenant,
)
from floe_testing.tenants import EmbeddedTenants

NEIGHBOURS = ["tenant-10", "tenant-1_", "tenant-11", "tenant", "xtenant-1"]


def event(number: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"event_id": str(number), "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}]
    )


def test_s21_off_boarding_leaves_neighbours_byte_for_byte(tmp_path):
    tenants = EmbeddedTenants(tmp_path)
    with tenants.bootstrapper.session(tenants.config) as session:
        for number, tenant in enumerate(["tenant-1", *NEIGHBOURS]):
            session.bootstrap(tenant)
            session.manager.append(f"tenants.{tenant}.events", event(number))
        before = {tenant: tenants.digests(tenant) for tenant in NEIGHBOURS}
        TenantOffboarding(session, journal_folder=tmp_path / "journals").run("tenant-1")
        assert tenants.digests("tenant-1") == {}
        assert {tenant: tenants.digests(tenant) for tenant in NEIGHBOURS} == before
        assert session.tenants() == sorted(NEIGHBOURS)
        for number, tenant in enumerate(NEIGHBOURS, start=1):
            assert session.manager.scan(f"tenants.{tenant}.events")["event_id"].to_pylist() == [str(number)]
            assert verify_tenant(session, tenant).ok
    tenants.close()


@pytest.mark.parametrize(
    "store",
    ["minio", pytest.param("fake_gcs", marks=pytest.mark.live), pytest.param("azurite", marks=pytest.mark.live)],
)
@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")
def test_s21_the_same_on_object_stores(store, request, tmp_path, monkeypatch):
    # gcsfs uses an API that emulators do not have.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    server = request.getfixturevalue(store)
    config = IcebergCatalogConfig(
        name="clients",
        warehouse_prefix=f"s21/{tmp_path.name}",
        properties={"type": "sql", "uri": f"sqlite:///{tmp_path}/clients.db"},
        **_place(store, server),
    )
    with IcebergCatalogBootstrapper().session(config) as session:
        for number, tenant in enumerate(["tenant-1", "tenant-10"]):
            session.bootstrap(tenant)
            session.manager.append(f"{tenant}.events", event(number))
        bucket = session.storage.store(config.warehouse)

        def content(tenant):
            keys = [item.key for item in bucket.list(config.warehouse_key_for(tenant))]
            return {key: bucket.read(key) for key in keys}

        before = content("tenant-10")
        assert len(before) > 4
        result = TenantOffboarding(session, journal_folder=tmp_path / "journals").run("tenant-1")
        assert result.deleted_objects == result.plan.objects > 4
        assert content("tenant-1") == {}
        assert content("tenant-10") == before
        assert session.manager.scan("tenant-10.events")["event_id"].to_pylist() == ["1"]
        assert verify_tenant(session, "tenant-10").ok


def _place(store, server):
    if store == "minio":
        return {
            "provider": CatalogProvider.S3,
            "warehouse_bucket": server["bucket"],
            "endpoint": server.url,
            "access_key_id": server["access_key_id"],
            "secret_access_key": server["secret_access_key"],
        }
    if store == "fake_gcs":
        return {
            "provider": CatalogProvider.GCS,
            "warehouse_bucket": server["bucket"],
            "endpoint": server.url,
            "project": server["project"],
        }
    return {
        "provider": CatalogProvider.AZURE,
        "warehouse_bucket": server["container"],
        "endpoint": server.url,
        "access_key_id": server["account"],
        "secret_access_key": server["account_key"],
    }
