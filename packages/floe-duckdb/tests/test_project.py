"""A complete project on DuckDB: floe.yaml, tables, assets, SQL models and checks, without importing PySpark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pyarrow as pa
import pytest
from floe_core.compile import compile_project
from floe_dagster import list_staged
from floe_dagster.runs.batches import batches_of
from floe_dagster.runs.home import open_instance
from floe_dagster.runs.materialize import combined, run_assets
from floe_dagster.runs.pipeline import PartitionChoice, Pipeline
from floe_iceberg import IcebergTableManager

PROJECT = """\
schema_version: 1
name: shop
compute: {type: duckdb}
orchestration: {module: shop_assets}
tables:
  silver.customers:
    checks:
      - {type: unique, column: name}
  silver.orders:
    keys: [id]
    checks:
      - {type: not_null, columns: [id, customer]}
      - {type: unique, column: id}
      - {type: range, column: amount, min: 0, max: 1000}
      - {type: range, name: days, column: day, min: "2026-01-01"}
      - {type: accepted_values, column: status, values: [open, paid]}
      - {type: expression, name: paid_amount, expression: "status <> 'paid' or amount::DOUBLE > 0.5"}
      - {type: freshness, column: changed, max_age: 1d}
      - {type: row_count, min: 1}
      - {type: row_count_change, min_ratio: 0.5}
      - {type: relationship, column: customer, to: silver.customers, to_columns: [name]}
  gold.spent:
    checks:
      - {type: expression, name: positive, expression: "total > 0", where: "city is not null"}
"""
ASSETS = """\
import dagster as dg
from duckdb import DuckDBPyRelation

ORDERS = [
    (1, "ann", 10, "paid"),
    (2, "bob", 20, "open"),
]


@dg.asset(key=["silver", "customers"], metadata={"write_mode": "overwrite"}, required_resource_keys={"duckdb"})
def customers(context):
    return context.resources.duckdb.sql("select * from (values ('ann', 'Oslo'), ('bob', 'Rome')) rows(name, city)")


@dg.asset(
    key=["silver", "orders"],
    deps=[customers],
    metadata={"write_mode": "upsert"},
    required_resource_keys={"duckdb"},
)
def orders(context):
    rows = ", ".join(str(order) for order in ORDERS)
    return context.resources.duckdb.sql(
        "select id::BIGINT as id, customer, amount::DECIMAL(10, 2) as amount, status, date '2026-01-05' as day, "
        f"now() as changed from (values {rows}) rows(id, customer, amount, status)"
    )


@dg.asset(
    key=["gold", "largest"],
    ins={"orders": dg.AssetIn(["silver", "orders"])},
    metadata={"write_mode": "overwrite"},
)
def largest(orders: DuckDBPyRelation):
    return orders.aggregate("max(amount) as amount")
"""
MODEL = """\
/* floe:
write_mode: overwrite
*/
select c.city, sum(o.amount)::DECIMAL(12, 2) as total, list_sort(list(o.id)) as ids
from silver.orders o join silver.customers as c on o.customer = c.name
group by all
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "floe.yaml").write_text(PROJECT)
    (tmp_path / "shop_assets.py").write_text(ASSETS)
    (tmp_path / "models/gold").mkdir(parents=True)
    (tmp_path / "models/gold/spent.sql").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    yield compile_project(tmp_path / "floe.yaml")
    sys.modules.pop("shop_assets", None)


@pytest.fixture
def tables(project):
    with IcebergTableManager.from_artifacts(project) as tables:
        yield tables


def run(project):
    pipeline = Pipeline.of(project)
    with open_instance(project) as instance:
        batches = batches_of(pipeline, pipeline.keys, PartitionChoice(), instance)
        outcome = combined([run_assets(pipeline, instance, one.keys, one.partitions) for one in batches])
    sys.modules.pop("shop_assets", None)
    return outcome


def rows_of(tables, table, *columns):
    return sorted((tuple(row.values()) for row in tables.scan(table, columns=columns).to_pylist()), key=str)


def test_relations_are_written_through_the_table_manager(tables):
    session = tables.context.plane().session
    rows = session.sql("select i as id, i % 2 = 0 as even from range(3) numbers(i)")
    tables.create_namespace("bronze")
    tables.create_table("bronze.numbers", tables.context.plane().arrow_schema(rows), ["even"])
    tables.append("bronze.numbers", rows)
    assert tables.append("bronze.numbers", rows, operation_id="again") == tables.append(
        "bronze.numbers", rows, operation_id="again"
    )
    assert tables.scan("bronze.numbers").num_rows == 6
    tables.overwrite("bronze.numbers", rows)
    tables.upsert("bronze.numbers", session.sql("select 1::BIGINT as id, true as even"), keys=["id"])
    assert rows_of(tables, "bronze.numbers", "id", "even") == [(0, True), (1, True), (2, True)]
    tables.overwrite("bronze.numbers", rows.filter("id = 2"), overwrite_filter="id >= 1")
    tables.append("bronze.numbers", rows.project("*, 'new' as note").filter("id = 1"))
    assert rows_of(tables, "bronze.numbers", "id", "note") == [(0, None), (1, "new"), (2, None)]
    assert tables.frame("bronze.numbers", row_filter="note is not null").project("id").fetchall() == [(1,)]


def test_a_required_column_becomes_optional_for_rows_with_null(tables):
    tables.create_namespace("bronze")
    tables.create_table("bronze.strict", pa.schema([pa.field("id", pa.int64(), nullable=False)]))
    tables.append("bronze.strict", tables.context.plane().session.sql("select null::BIGINT as id"))
    assert rows_of(tables, "bronze.strict", "id") == [(None,)]


def test_a_pipeline_of_relations_sql_models_and_checks_is_published(project, tables):
    outcome = run(project)
    assert outcome.success, outcome
    assert {asset.table: asset.state.value for asset in outcome.assets} == {
        "silver.customers": "published",
        "silver.orders": "published",
        "gold.largest": "written",
        "gold.spent": "published",
    }
    assert [
        (city, float(total), ids) for city, total, ids in rows_of(tables, "gold.spent", "city", "total", "ids")
    ] == [
        ("Oslo", 10.0, [1]),
        ("Rome", 20.0, [2]),
    ]
    assert float(rows_of(tables, "gold.largest", "amount")[0][0]) == 20.0
    assert run(project).success
    assert tables.scan("silver.orders").num_rows == 2


def test_rows_that_fail_checks_do_not_reach_main(project, tables, tmp_path):
    assert run(project).success
    before = rows_of(tables, "silver.orders", "id", "amount")
    bad = "(2, None, 21, 'open'), (3, 'ann', -1, 'open'), (4, 'cid', 10, 'lost'), (5, 'ann', 0, 'paid')"
    file = tmp_path / "shop_assets.py"
    text = file.read_text().replace('    (2, "bob", 20, "open"),\n', f"    {bad},\n")
    file.write_text(text.replace("str(order)", 'str(order).replace("None", "null")'))
    outcome = run(project)
    assert not outcome.success
    (orders,) = (asset for asset in outcome.assets if asset.table == "silver.orders")
    failed = ["not_null_customer", "range_amount", "accepted_values_status", "paid_amount", "relationship_customer"]
    assert all(check in str(orders) for check in failed), orders
    assert rows_of(tables, "silver.orders", "id", "amount") == before
    (staged,) = list_staged(tables, "silver.orders")
    assert tables.scan("silver.orders", ref=staged.branch).num_rows == 5


def test_floe_run_starts_no_java(project, tmp_path):
    script = dedent("""
        import subprocess, sys
        from floe_cli.app import main

        sys.modules["pyspark"] = None  # an import of it fails
        sys.argv = ["floe", "run"]
        try:
            main()
        except SystemExit as ended:
            assert not ended.code, ended.code
    """)
    environ = {**os.environ, "JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(Path(sys.executable).parent)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
