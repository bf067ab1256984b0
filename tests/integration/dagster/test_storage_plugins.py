"""The IO manager accesses files with a storage plugin's configuration alone."""

from __future__ import annotations

import dagster as dg
import pyarrow as pa
import pytest

from floe_core.plugins import PluginRegistry, PluginType
from floe_dagster import IcebergIOManager


@pytest.mark.req("PL-05", "FR-024", "FR-025")
@pytest.mark.parametrize("launch", [{}, {"default_namespace": None, "write_mode": "OVERWRITE"}], ids=["", "configured"])
def test_an_io_manager_with_the_settings_of_the_s3_plugin_writes_and_reads(
    gateway, minio, namespace, monkeypatch, launch
):
    monkeypatch.setenv("STORE_SECRET", minio["secret_access_key"])
    registry = PluginRegistry()
    credentials = {"access_key_id": minio["access_key_id"], "secret_access_key": "${STORE_SECRET}"}
    section = {"type": "s3", "bucket": minio["bucket"], "endpoint": minio.url, "region": minio["region"]}
    registry.configure(PluginType.STORAGE, "s3", {**section, "credentials": credentials})
    storage = registry.get(PluginType.STORAGE, "s3").get_dagster_io_manager_config()
    io_manager = IcebergIOManager(
        catalog_uri=gateway.url, warehouse="lake", default_namespace=namespace, write_mode="overwrite", **storage
    )
    read = []

    @dg.asset
    def orders() -> pa.Table:
        return pa.table({"id": [1, 2]})

    @dg.asset(metadata={"write_mode": "append"})
    def report(orders: pa.Table) -> None:
        read.append(orders.to_pydict())

    config = {name: namespace if value is None else value for name, value in launch.items()}
    given = {"resources": {"io_manager": {"config": config}}} if config else {}
    for _ in range(2):
        result = dg.materialize([orders, report], resources={"io_manager": io_manager}, run_config=given)
        assert result.success
    assert read == [{"id": [1, 2]}] * 2
