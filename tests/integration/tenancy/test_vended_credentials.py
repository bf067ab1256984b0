"""Credentials vended for a tenant's table are limited to that table's prefix."""

from __future__ import annotations

import uuid

import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import S3Store
from pyiceberg.catalog.rest import RestCatalog

from floe_core.errors import StorageAuthenticationError, StorageError
from floe_storage.obstore_store import ObstoreObjectStore
from floe_tenancy import CatalogProvider, IcebergCatalogBootstrapper, IcebergCatalogConfig

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


@pytest.fixture
def session(nessie, minio):
    config = IcebergCatalogConfig(
        name="nessie",
        provider=CatalogProvider.S3,
        warehouse_bucket=minio["bucket"],
        warehouse_prefix="nessie",
        namespace_prefix=(f"v{uuid.uuid4().hex[:8]}",),
        endpoint=minio.url,
        access_key_id=minio["access_key_id"],
        secret_access_key=minio["secret_access_key"],
    )

    def load(_):
        delegation = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
        return RestCatalog("nessie", uri=nessie["url"], warehouse=nessie["warehouse"], **delegation)

    with IcebergCatalogBootstrapper(catalog_loader=load).session(config) as session:
        yield session


@pytest.mark.req("TN-01")
def test_vended_credentials_stop_at_the_tenants_prefix(session, minio):
    for tenant in ("tenant-1", "tenant-10"):
        session.bootstrap(tenant)
    table = session.manager.load_table(".".join((*session.config.namespace_for("tenant-1"), "events")))
    vended = table.io.properties
    assert vended["s3.session-token"]
    assert vended["s3.access-key-id"] != minio["access_key_id"]
    store = S3Store(
        minio["bucket"],
        endpoint=minio.url,
        region=minio["region"],
        access_key_id=vended["s3.access-key-id"],
        secret_access_key=vended["s3.secret-access-key"],
        session_token=vended["s3.session-token"],
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )
    # Nessie adds its own suffix to the location.
    own = table.location().removeprefix(f"s3://{minio['bucket']}/")
    assert own.startswith(session.config.warehouse_key_for("tenant-1"))
    store.put(f"{own}/data/mine.parquet", b"mine")
    assert bytes(store.get(f"{own}/data/mine.parquet").bytes()) == b"mine"
    other = session.config.warehouse_key_for("tenant-10")
    with pytest.raises(PermissionDeniedError):
        store.put(f"{other}events/data/theirs.parquet", b"x")
    with pytest.raises(PermissionDeniedError):
        store.get(f"{other}.catalog-bootstrap")
    with pytest.raises(StorageAuthenticationError):
        list(ObstoreObjectStore(store).list(f"{other}events"))
    with pytest.raises(StorageError):
        ObstoreObjectStore(store).delete([f"{other}.catalog-bootstrap"])
    assert session.storage.store(session.config.warehouse).read(f"{other}.catalog-bootstrap")
