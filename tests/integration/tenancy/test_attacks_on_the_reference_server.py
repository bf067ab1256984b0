"""A tenant attacks another on Iceberg's reference server, behind a gateway with Polaris's authorization rules.

The gateway enforces privileges and locations; keys and files are MinIO's. tests/polaris covers a real Polaris server.
"""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from floe_core.errors import CatalogAuthorizationError
from floe_core.schemas import AccessDelegation
from floe_iceberg import IcebergTableManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_polaris.management import TENANT_PRIVILEGES
from floe_tenancy import CatalogProvider, IcebergCatalogBootstrapper, IcebergCatalogConfig, verify_tenants
from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties
from floe_testing.stand_ins.privilege_guard import PrivilegeGuard
from floe_testing.stand_ins.tenant_attacks import ATTACKS, Intruder, TenantPair
from floe_testing.stand_ins.vending import CredentialVendor

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

OWN, VICTIM, TABLE = "acme", "beta", "events"
EARLIER = (*TENANT_PRIVILEGES, "NAMESPACE_FULL_METADATA")
# The reference server has no endpoint for credentials only, so the gateway has no such path.
ROWS = [name for name in ATTACKS if name != "request credentials for the neighbor's table"]


class Site:
    """Two tenants on the reference server, seen by the administrator and by one of them."""

    def __init__(self, server, minio):
        connection = {"uri": server.url, "warehouse": "lake", "properties": store_properties(minio)}
        self.admin = create_catalog(
            PolarisCatalogConfig.model_validate({**connection, "access_delegation": AccessDelegation.NONE})
        )
        self.config = IcebergCatalogConfig(
            name="lake",
            provider=CatalogProvider.S3,
            warehouse_bucket=minio["bucket"],
            warehouse_prefix="attacks",
            namespace_prefix=(f"t{uuid.uuid4().hex[:8]}",),
            endpoint=minio.url,
            access_key_id=minio["access_key_id"],
            secret_access_key=minio["secret_access_key"],
        )
        self.manager = IcebergTableManager(self.admin)
        bootstrapper = IcebergCatalogBootstrapper(catalog_loader=lambda _: self.admin)
        with bootstrapper.session(self.config) as session:
            for tenant in (OWN, VICTIM):
                session.bootstrap(tenant)
            assert all(report.ok for report in verify_tenants(session, [OWN, VICTIM]))

    @property
    def rooms(self):
        victim = (*self.config.namespace_for(VICTIM), TABLE)
        return TenantPair(
            prefix="",
            own=self.config.namespace_for(OWN),
            victim=victim[:-1],
            own_location=self.config.warehouse_uri_for(OWN),
            victim_location=self.config.warehouse_uri_for(VICTIM),
            table=TABLE,
            victim_metadata=self.admin.load_table(victim).metadata_location,
            principal=OWN,
            victim_principal=VICTIM,
            separator=".",
        )

    def state(self):
        victim = ".".join(self.config.namespace_for(VICTIM))
        return {
            "tables": {
                name: self.admin.load_table(f"{victim}.{name}").metadata_location
                for name in self.manager.list_tables(victim)
            },
            "properties": [self.manager.namespaces.properties(self.config.namespace_for(t)) for t in (OWN, VICTIM)],
            "own tables": self.manager.list_tables(self.config.namespace_for(OWN)),
            "tenants": self.manager.namespaces.list_below(self.config.namespace_prefix),
        }


@pytest.fixture(scope="module")
def site(iceberg_rest, minio):
    site = Site(iceberg_rest, minio)
    yield site
    for tenant in (OWN, VICTIM):
        namespace = ".".join(site.config.namespace_for(tenant))
        for table in site.manager.list_tables(namespace):
            site.manager.drop_table(f"{namespace}.{table}")
        site.manager.namespaces.delete(namespace)
    site.manager.namespaces.delete(site.config.namespace_prefix)
    site.admin.close()


@pytest.fixture
def guarded(iceberg_rest, site):
    """Give a way to stand before the server with a tenant's privileges."""
    with FaultGateway(iceberg_rest.url) as gateway:
        gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)

        def guard(privileges=TENANT_PRIVILEGES):
            PrivilegeGuard(gateway, site.config.namespace_for(OWN), privileges)
            return Intruder(gateway.url, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)

        guard.gateway = gateway
        yield guard


def test_every_attack_is_refused(site, guarded):
    intruder, before = guarded(), site.state()
    for name in ROWS:
        attack = ATTACKS[name](site.rooms)
        answer = intruder.catalog(site.rooms, attack)
        assert answer.status in attack.denied, (name, answer)
        assert site.state() == before, name
    intruder.close()


def test_the_gateway_lets_pass_what_earlier_privileges_allowed(site, guarded):
    """It does not refuse everything: with what floe granted once, the namespace's location can be removed."""
    intruder, rooms = guarded(EARLIER), site.rooms
    remove = ATTACKS["remove the location of its namespace"](rooms)
    assert intruder.catalog(rooms, remove).status == 200
    site.manager.namespaces.update_properties(rooms.own, updates={"location": rooms.own_location})
    intruder.close()


def test_a_tenant_works_with_its_own_keys_and_reaches_no_neighbor(site, guarded, minio):
    guarded().close()
    rooms = site.rooms
    with FaultGateway(minio.url) as front:
        CredentialVendor(minio, catalog=guarded.gateway, front=front)
        connection = {"uri": guarded.gateway.url, "warehouse": "lake", "client_id": CLIENT_ID}
        catalog = create_catalog(
            PolarisCatalogConfig.model_validate(
                {
                    **connection,
                    "client_secret": CLIENT_SECRET,
                    "properties": {"s3.endpoint": minio.url, "s3.region": minio["region"]},
                }
            )
        )
        manager = IcebergTableManager(catalog)
        name = ".".join((*rooms.own, "orders"))
        manager.create_table(name, pa.schema([("id", pa.int64())]), location=f"{rooms.own_location}/orders")
        manager.append(name, pa.table({"id": [1, 2]}))
        assert manager.scan(name).num_rows == 2
        with pytest.raises(CatalogAuthorizationError):
            manager.load_table(".".join((*rooms.victim, TABLE)))
        keys = manager.load_table(name).io.properties
        store = S3FileSystem(
            endpoint_override=minio.url,
            region=minio["region"],
            access_key=keys["s3.access-key-id"],
            secret_key=keys["s3.secret-access-key"],
            session_token=keys["s3.session-token"],
        )
        theirs = f"{rooms.victim_location}/{TABLE}".removeprefix("s3://")
        assert store.get_file_info(FileSelector(f"{rooms.own_location}/orders".removeprefix("s3://"), recursive=True))
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            store.get_file_info(FileSelector(theirs, recursive=True))
        with pytest.raises(OSError, match=r"ACCESS_DENIED|Forbidden|403"):
            store.open_input_stream(rooms.victim_metadata.removeprefix("s3://")).read()
        with pytest.raises(OSError, match=r"ACCESS_DENIED|Forbidden|403"):
            store.delete_file(rooms.victim_metadata.removeprefix("s3://"))
        manager.drop_table(name)
        catalog.close()
