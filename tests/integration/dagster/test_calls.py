"""The number of catalog calls per write: over REST, each call is a round trip."""

import itertools
from collections import Counter

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from floe_core.schemas import CheckConfig
from floe_dagster import IcebergIOManager, audited
from floe_iceberg import IcebergTableManager
from floe_iceberg.catalog.reconciling import ReconcilingCatalog
from floe_iceberg.read.integrity import find_table

pytestmark = pytest.mark.spark

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})
UNIQUE = CheckConfig(type="unique", column="id")


class CountingCatalog(ReconcilingCatalog):
    """Counts the calls on tables, and makes them."""

    def __init__(self, inner):
        super().__init__(inner)
        self.calls = Counter()

    def load_table(self, identifier):
        self.calls["load"] += 1
        return super().load_table(identifier)

    def table_exists(self, identifier):
        self.calls["exists"] += 1
        return super().table_exists(identifier)

    def list_tables(self, namespace):
        self.calls["list tables"] += 1
        return super().list_tables(namespace)

    def list_namespaces(self, namespace=()):
        self.calls["list namespaces"] += 1
        return super().list_namespaces(namespace)

    def load_namespace_properties(self, namespace):
        self.calls["namespace"] += 1
        return super().load_namespace_properties(namespace)

    def commit_table(self, table, requirements, updates):
        self.calls["commit"] += 1
        return super().commit_table(table, requirements, updates)


@pytest.fixture
def catalog(spark_tables):
    return CountingCatalog(spark_tables.catalog)


@pytest.fixture
def tables(catalog, spark_tables):
    return IcebergTableManager(catalog, compute=spark_tables.plane)


@pytest.fixture
def orders(tables, catalog):
    """A table with rows; nothing is counted yet."""
    tables.create_namespace("public")
    tables.create_table("public.orders", ROWS.schema)
    tables.append("public.orders", ROWS)
    catalog.calls.clear()
    return "public.orders"


@pytest.mark.parametrize(
    ("operation", "commits"),
    [
        (lambda tables, name: tables.append(name, ROWS), 1),
        (lambda tables, name: tables.overwrite(name, ROWS), 1),
        (lambda tables, name: tables.upsert(name, ROWS.slice(0, 1).set_column(1, "name", [["z"]]), keys=["id"]), 1),
        (lambda tables, name: tables.delete(name, "id = 1"), 1),
        (lambda tables, name: tables.create_tag(name, "monday"), 1),
        (lambda tables, name: tables.create_branch(name, "other"), 1),
        (lambda tables, name: tables.scan(name), 0),
    ],
    ids=["append", "overwrite", "upsert", "delete", "tag", "branch", "scan"],
)
def test_an_operation_loads_the_table_once_and_commits_once(tables, catalog, orders, operation, commits):
    operation(tables, orders)
    assert catalog.calls == Counter(load=1, commit=commits)


@pytest.mark.parametrize("name", ["public.missing", "nowhere.missing"])
def test_a_table_that_may_be_missing_is_asked_for_once(tables, catalog, orders, name):
    """What is beside it or above it is not looked at: a tenant may not."""
    assert find_table(tables.context, name) is None
    assert catalog.calls == Counter(load=1)


@pytest.mark.parametrize("mode", ["append", "overwrite", "upsert"])
def test_a_checked_write_on_spark_takes_few_calls(tables, catalog, orders, mode):
    numbers = itertools.count(3)

    @dg.asset(name="orders", metadata={"write_mode": mode, "upsert_keys": ["id"]})
    def asset() -> DataFrame:
        return tables.spark.createDataFrame([(next(numbers), "z"), (next(numbers), "c")], "id long, name string")

    marked, gates = audited(asset, {asset.key: [UNIQUE]})
    resources = {"io_manager": IcebergIOManager(table_manager=tables)}
    job = dg.Definitions(
        assets=[marked], asset_checks=gates, jobs=[dg.define_asset_job("all")], resources=resources
    ).resolve_job_def("all")
    # The first upsert records its keys.
    assert job.execute_in_process().success
    catalog.calls.clear()
    assert job.execute_in_process().success
    # Before the write, after it, and before the checks; an overwrite also looks for older staged writes.
    assert catalog.calls == Counter(load=4 if mode == "overwrite" else 3, commit=2)
    assert 5 in tables.scan(orders)["id"].to_pylist()
