"""Off-boarding of a tenant that keeps writing with valid storage keys."""

from __future__ import annotations

import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from obstore.exceptions import BaseError
from obstore.store import S3Store

from floe_polaris import PolarisCatalogConfig, PolarisManagement
from floe_tenancy import CatalogProvider, OffboardingStep, PolarisIsolation, TenantOffboarding, verify_tenant
from floe_testing.faults.gateway import FaultGateway, Reply, Rule
from floe_testing.stand_ins.polaris_management import PolarisManagementServer
from floe_testing.stand_ins.vending import assume_role, prefix_policy
from floe_testing.tenants import EmbeddedTenants

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

LEAVES, STAYS = "tenant-1", "tenant-10"
# The number of objects written with the keys after the first deletion, and how long floe is configured to wait.
LATE_OBJECTS = 10
GRACE = timedelta(seconds=20)
EVENT = pa.Table.from_pylist(
    [{"event_id": "1", "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}]
)
EXPIRED = Reply(403, {"Content-Type": "application/xml"}, b"<Error><Code>ExpiredToken</Code></Error>")


class Writer:
    """Writes objects below a tenant's prefix with vended keys, as fast as the store takes them."""

    def __init__(self, minio, front, location):
        keys = assume_role(minio, policy=prefix_policy(location))
        bucket, _, self._prefix = location.removeprefix("s3://").partition("/")
        self._store = S3Store(
            bucket,
            endpoint=front.url,
            region=minio["region"],
            access_key_id=keys["s3.access-key-id"],
            secret_access_key=keys["s3.secret-access-key"],
            session_token=keys["s3.session-token"],
            virtual_hosted_style_request=False,
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
        )
        self.written = 0
        self.refused = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(0.02):
            try:
                self._store.put(f"{self._prefix}/events/data/{uuid.uuid4().hex}.parquet", b"late")
                self.written += 1
            except BaseError:
                self.refused += 1

    def stop(self):
        self._stop.set()
        self._thread.join()


def ends_keys_early(front, has_ended):
    """Refuse vended keys from some event on: STS gives them a quarter of an hour at least."""

    def chaos(exchange):
        is_vended = any(name.lower() == "x-amz-security-token" for name in exchange.headers)
        return Rule(".*", "", None, forward=False, reply=EXPIRED) if is_vended and has_ended() else None

    front.chaos = chaos


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def tenants(minio, tmp_path):
    place = {
        "provider": CatalogProvider.S3,
        "warehouse_bucket": minio["bucket"],
        "warehouse_prefix": f"keys/{uuid.uuid4().hex[:8]}",
        "endpoint": minio.url,
        "access_key_id": minio["access_key_id"],
        "secret_access_key": minio["secret_access_key"],
    }
    tenants = EmbeddedTenants(tmp_path, place=place)
    yield tenants
    tenants.close()


@pytest.mark.req("TN-01")
def test_a_prefix_stays_empty_after_an_off_boarding_under_fire(minio, tenants, tmp_path, monkeypatch):
    monkeypatch.setattr("floe_tenancy.offboarding.offboard._POLL_SECONDS", 1.0)
    config = tenants.config
    with (
        FaultGateway(minio.url) as front,
        PolarisManagementServer() as server,
        tenants.bootstrapper.session(config) as session,
    ):
        front.keeps_exchanges = False
        for tenant in (LEAVES, STAYS):
            session.bootstrap(tenant)
            session.manager.append(f"tenants.{tenant}.events", EVENT)
        bucket = session.storage.store(config.warehouse)

        def content(tenant):
            return {item.key: bucket.read(item.key) for item in bucket.list(config.warehouse_key_for(tenant))}

        before = content(STAYS)
        connection = PolarisCatalogConfig(uri=server.uri, warehouse="lake", client_id="root", client_secret="canary")
        management = PolarisManagement(connection)
        isolation = PolarisIsolation(management, catalog="lake", config=config)
        isolation.grant(LEAVES)
        writer = Writer(minio, front, config.warehouse_uri_for(LEAVES))
        at_wait = []

        def note(step):
            if step is OffboardingStep.WAIT:
                at_wait.append(writer.written)
                ends_keys_early(front, lambda: writer.written >= at_wait[0] + LATE_OBJECTS)

        try:
            result = TenantOffboarding(session, journal_folder=tmp_path / "journals", isolation=isolation).run(
                LEAVES, grace=GRACE, on_step=note
            )
            # The writer continued after the first deletion, until its keys expired.
            assert writer.written >= at_wait[0] + LATE_OBJECTS > LATE_OBJECTS
            tries = writer.refused
            wait_for(lambda: writer.refused > tries)
        finally:
            writer.stop()
        assert result.list_again_after is None
        assert result.deleted_objects > result.plan.objects
        assert content(LEAVES) == {}
        assert content(STAYS) == before
        assert session.tenants() == [STAYS]
        assert verify_tenant(session, STAYS).ok
        assert not isolation.has_access(LEAVES)
        management.close()
