"""S07 and S08: tokens that expire during an operation, and an unavailable token endpoint."""

from __future__ import annotations

import time
from dataclasses import replace

import pyarrow as pa
import pytest

from floe_core.errors import CatalogUnavailableError, CircuitOpenError
from floe_core.schemas import CircuitBreakerConfig
from floe_iceberg import IcebergTableManager
from floe_testing.faults.gateway import TOKEN_PATH
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET


@pytest.mark.req("FR-004")
@pytest.mark.parametrize(
    ("lifetime", "batches"), [(3, 14), pytest.param(3, 60, marks=pytest.mark.live)], ids=["7 s", "30 s"]
)
def test_s07_a_write_outlives_its_tokens(gateway, connect, namespace, lifetime, batches):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET, lifetime_seconds=lifetime)
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    schema = pa.schema([pa.field("id", pa.int64())])
    manager.create_table(name, schema)

    def slowly():
        for number in range(batches):
            time.sleep(0.5)
            yield pa.record_batch([pa.array([number], pa.int64())], schema=schema)

    manager.append(name, pa.RecordBatchReader.from_batches(schema, slowly()))
    assert sorted(manager.scan(name)["id"].to_pylist()) == list(range(batches))
    assert len(gateway.token_requests) >= 2


@pytest.mark.req("FR-004")
def test_s07_a_token_revoked_before_the_commit_is_replaced(gateway, connect, namespace):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    schema = pa.schema([pa.field("id", pa.int64())])
    manager.create_table(name, schema)

    def revoking():
        yield pa.record_batch([pa.array([1], pa.int64())], schema=schema)
        desk.revoke()

    manager.append(name, pa.RecordBatchReader.from_batches(schema, revoking()))
    assert manager.scan(name).num_rows == 1
    assert len(gateway.token_requests) == 2


@pytest.mark.req("FR-004", "FR-006a")
def test_s08_the_same_catalog_recovers_when_the_token_endpoint_is_back(gateway, connect):
    desk = gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect(circuit_breaker=CircuitBreakerConfig(failure_threshold=5, reset_timeout_seconds=0.2))
    desk.revoke()
    gateway.answer(503, path=TOKEN_PATH, times=None)
    for _ in range(2):
        with pytest.raises((CatalogUnavailableError, CircuitOpenError)):
            catalog.list_namespaces()
    gateway.clear()
    time.sleep(0.3)
    catalog.list_namespaces()


def test_s08_a_token_that_still_holds_is_used_while_the_endpoint_is_down(gateway, connect):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    catalog = connect()
    authenticator = catalog._authenticator
    authenticator._token = replace(authenticator._token, renew_at=0.0)
    gateway.answer(503, path=TOKEN_PATH, times=None)
    catalog.list_namespaces()
    tried = len(gateway.token_requests)
    assert tried > 1
    catalog.list_namespaces()
    assert len(gateway.token_requests) == tried
