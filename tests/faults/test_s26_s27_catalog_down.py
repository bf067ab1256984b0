"""S26 and S27: an unavailable catalog, and wrong secrets."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogUnavailableError,
    CircuitOpenError,
    StorageAuthenticationError,
    WriteError,
)
from floe_core.schemas import CatalogConfig, CircuitBreakerConfig
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_polaris.client import breaker_for, create_catalog
from floe_polaris.plugin import RestCatalogPlugin
from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties


@pytest.fixture
def closed_address():
    with FaultGateway("http://127.0.0.1:1") as gateway:
        return gateway.url


@pytest.mark.req("FR-006a")
def test_s26_a_catalog_that_stays_down_is_left_alone_after_a_while(closed_address, rest_config):
    breaker = CircuitBreakerConfig(failure_threshold=5, reset_timeout_seconds=600)
    config = rest_config(uri=closed_address, circuit_breaker=breaker)
    shared = breaker_for(config)
    started = time.monotonic()
    with pytest.raises(CatalogUnavailableError):
        create_catalog(config, breaker=shared)
    with pytest.raises((CatalogUnavailableError, CircuitOpenError)):
        create_catalog(config, breaker=shared)
    assert time.monotonic() - started < config.timeouts.total_seconds

    with pytest.raises(CircuitOpenError, match="Next attempt in") as caught:
        create_catalog(config, breaker=shared)
    assert caught.value.retry_at.timestamp() > time.time() + 500


@pytest.mark.req("FR-006a")
def test_s26_the_plugin_remembers_that_its_catalog_is_down(closed_address, tmp_path):
    section = CatalogConfig.model_validate(
        {
            "type": "rest",
            "uri": closed_address,
            "retry": {"max_attempts": 2, "initial_wait_seconds": 0.1, "jitter_seconds": 0},
            "circuit_breaker": {"failure_threshold": 2, "reset_timeout_seconds": 600},
        }
    )
    plugin = RestCatalogPlugin()
    with pytest.raises(CatalogUnavailableError):
        plugin.connect(section, file_io={}, project_root=tmp_path)
    with pytest.raises(CircuitOpenError):
        plugin.connect(section, file_io={}, project_root=tmp_path)


@pytest.mark.req("FR-006a")
def test_s26_an_open_breaker_closes_when_the_catalog_is_back(gateway, connect):
    catalog = connect(circuit_breaker=CircuitBreakerConfig(failure_threshold=3, reset_timeout_seconds=0.5))
    gateway.answer(503, path="/v1/namespaces$", times=None)
    for _ in range(3):
        with pytest.raises(CatalogUnavailableError):
            catalog.list_namespaces()
    with pytest.raises(CircuitOpenError):
        catalog.list_namespaces()
    gateway.clear()
    time.sleep(0.6)
    catalog.list_namespaces()


@pytest.mark.req("SC-006")
def test_s27_a_wrong_catalog_secret_and_a_wrong_storage_secret_are_two_errors(gateway, connect, minio, namespace):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    with pytest.raises(CatalogAuthenticationError, match=r"catalog\.credentials\.client_secret") as catalog_error:
        connect(client_secret="canary-wrong")

    wrong = {**store_properties(minio), "s3.secret-access-key": "canary-wrong"}
    manager = IcebergTableManager(connect(properties=wrong))
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
    with pytest.raises(StorageAuthenticationError, match=r"storage\.credentials") as storage_error:
        manager.append(f"{namespace}.orders", pa.table({"id": [1]}))
    assert isinstance(storage_error.value, WriteError)
    for error in (catalog_error.value, storage_error.value):
        assert "canary" not in str(error)


@pytest.mark.req("API-03")
def test_s26_a_write_to_a_catalog_that_went_down_is_a_write_error(gateway, connect, namespace):
    breaker = CircuitBreakerConfig(failure_threshold=50)
    manager = IcebergTableManager(ReconcilingCatalog(connect(circuit_breaker=breaker), patience=0.5))
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
    gateway.answer(503, path="/tables/orders", times=None)
    with pytest.raises(WriteError) as caught:
        manager.append(f"{namespace}.orders", pa.table({"id": [1]}))
    # The error depends on the number of attempts.
    assert isinstance(caught.value, CatalogUnavailableError | CircuitOpenError)
    assert caught.value.exit_code == 2
