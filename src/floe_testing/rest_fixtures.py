"""Pytest fixtures for tests over REST: a fault gateway in front of the reference server, and connections to it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from floe_core.schemas import AccessDelegation, RetryConfig, TimeoutConfig
from floe_polaris import PolarisCatalog, PolarisCatalogConfig, create_catalog
from floe_testing.faults.gateway import FaultGateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from floe_testing.services import Server

    Connect = Callable[..., PolarisCatalog]

CLIENT_ID = "floe"
CLIENT_SECRET = "canary-client-secret"  # noqa: S105 - for a gateway on the loopback interface

# Shorter than the defaults, to keep tests fast.
QUICK_RETRY = RetryConfig(max_attempts=3, initial_wait_seconds=0.1, max_wait_seconds=1.0, jitter_seconds=0.0)
QUICK_TIMEOUTS = TimeoutConfig(connect_seconds=2.0, read_seconds=10.0, total_seconds=30.0)


def store_properties(store: Server) -> dict[str, str]:
    """Return the PyIceberg properties of a MinIO server, with its root credentials."""
    return {
        "s3.endpoint": store.url,
        "s3.region": store["region"],
        "s3.access-key-id": store["access_key_id"],
        "s3.secret-access-key": store["secret_access_key"],
    }


@pytest.fixture
def gateway(iceberg_rest: Server) -> Iterator[FaultGateway]:
    """Provide a fault gateway in front of the reference server."""
    with FaultGateway(iceberg_rest.url) as gateway:
        yield gateway


@pytest.fixture
def rest_config(gateway: FaultGateway, minio: Server) -> Callable[..., PolarisCatalogConfig]:
    """Provide a function that configures connections through the gateway; keywords override the defaults."""

    def configure(**changes: Any) -> PolarisCatalogConfig:
        usual: dict[str, Any] = {
            "uri": gateway.url,
            "warehouse": "lake",
            "access_delegation": AccessDelegation.NONE,
            "properties": store_properties(minio),
            "retry": QUICK_RETRY,
            "timeouts": QUICK_TIMEOUTS,
        }
        if gateway.tokens is not None:
            usual |= {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
        return PolarisCatalogConfig.model_validate({**usual, **changes})

    return configure


@pytest.fixture
def connect(rest_config: Callable[..., PolarisCatalogConfig]) -> Iterator[Connect]:
    """Provide a function that connects through the gateway; connections are closed after the test."""
    catalogs: list[PolarisCatalog] = []

    def connected(**changes: Any) -> PolarisCatalog:
        catalogs.append(create_catalog(rest_config(**changes)))
        return catalogs[-1]

    yield connected
    for catalog in catalogs:
        catalog.close()


@pytest.fixture
def namespace() -> str:
    """Provide a unique namespace name."""
    return f"ns_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def spark_over(
    spark_engine: Any,  # noqa: ARG001 - keeps Spark running; a process has only one
    spark_settings: Any,
) -> Iterator[Callable[[PolarisCatalog], Any]]:
    """Provide Spark planes for connected REST catalogs; they share the session's Spark."""
    from floe_spark.plane.plane import SparkDataPlane

    planes: list[SparkDataPlane] = []

    def over(catalog: PolarisCatalog) -> SparkDataPlane:
        conf = catalog.catalog_plugin.get_spark_conf(catalog.name, {})
        planes.append(SparkDataPlane(spark_settings, catalog_name=catalog.name, conf=conf))
        return planes[-1]

    yield over
    for plane in planes:
        plane.close()
