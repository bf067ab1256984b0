"""S07 on Spark: a write that takes longer than the lifetime of its token."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from floe_iceberg import Engine, IcebergTableManager
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET

LIFETIME_SECONDS = 3


@pytest.mark.spark
@pytest.mark.req("FR-004")
@pytest.mark.parametrize("seconds", [8, pytest.param(30, marks=pytest.mark.live)])
def test_s07_a_spark_write_outlives_its_tokens(gateway, connect, spark_over, namespace, seconds):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET, lifetime_seconds=LIFETIME_SECONDS)
    catalog = connect(name=f"rest_{uuid.uuid4().hex[:8]}")
    plane = spark_over(catalog)
    manager = IcebergTableManager(catalog, compute=plane)
    manager.create_namespace(namespace)
    name = f"{namespace}.orders"
    manager.create_table(name, pa.schema([pa.field("id", pa.int64())]))

    def slowly(batches):
        import time

        for batch in batches:
            time.sleep(seconds)
            yield batch

    frame = plane.session.range(0, 10, numPartitions=1).mapInArrow(slowly, "id long")
    manager.append(name, frame, engine=Engine.SPARK)
    assert sorted(manager.scan(name)["id"].to_pylist()) == list(range(10))
    assert len(gateway.token_requests) >= 3
