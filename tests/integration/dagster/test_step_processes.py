"""Runs with step processes, for the project and for a tenant."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from floe_core.compile import compile_project
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.materialize import run_assets
from floe_dagster.runs.pipeline import PartitionChoice, Pipeline
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.connection import open_project
from floe_tenancy import project_bootstrapper, tenancy_config

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

ASSETS = """
    import datetime as dt
    import os

    import dagster as dg
    import pyarrow as pa

    from floe_dagster import partition_keys_of, tenant_of

    DAYS = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-01-05")

    @dg.asset(key_prefix="bronze", partitions_def=DAYS)
    def orders(context: dg.AssetExecutionContext) -> pa.Table:
        [day] = partition_keys_of(context)
        row = {"day": dt.date.fromisoformat(day), "owner": tenant_of(context) or "nobody", "process": os.getpid()}
        return pa.Table.from_pylist([row])

    @dg.asset_check(asset=dg.AssetKey(["bronze", "orders"]), blocking=True)
    def one_row(orders: pa.Table) -> dg.AssetCheckResult:
        return dg.AssetCheckResult(passed=orders.num_rows == 1)

    @dg.asset(key_prefix="gold", metadata={"write_mode": "overwrite"}, ins={"orders": dg.AssetIn(["bronze", "orders"])})
    def total(orders: pa.Table) -> pa.Table:
        return pa.table({"orders": [orders.num_rows], "process": [os.getpid()]})
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    for variable in ("FLOE_PROJECT", "FLOE_ENV", "FLOE_PER_TENANT"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "assets_in_processes.py").write_text(dedent(ASSETS))
    (tmp_path / "floe.yaml").write_text("schema_version: 1\nname: shop\norchestration: {module: assets_in_processes}\n")
    return compile_project(tmp_path)


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_steps_in_processes_of_their_own_write_the_same_tables(project, tenant):
    prefix = ""
    if tenant is not None:
        prefix = f"tenants.{tenant}."
        with open_project(project) as connection:
            project_bootstrapper(connection).bootstrap_client(tenant, tenancy_config(connection))
    pipeline = Pipeline.of(project, tenant=tenant)
    choice = PartitionChoice("2024-01-02", "2024-01-02")
    with open_instance(project) as instance:
        partitions = pipeline.partitions(pipeline.keys, choice, instance)
        outcome = run_assets(pipeline, instance, pipeline.keys, partitions, processes=2)
    assert outcome.success, [(asset.table, asset.reason) for asset in outcome.assets]
    assert {asset.table: asset.state.value for asset in outcome.assets} == {
        f"{prefix}bronze.orders": "published",
        f"{prefix}gold.total": "written",
    }
    with IcebergTableManager.from_artifacts(project) as tables:
        [order] = tables.scan(f"{prefix}bronze.orders").to_pylist()
        [total] = tables.scan(f"{prefix}gold.total").to_pylist()
    assert (order["owner"], total["orders"]) == (tenant or "nobody", 1)
    assert order["process"] != total["process"]
