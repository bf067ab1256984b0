"""Upsert keys on Spark: tables created by Spark, and branches."""

import dagster as dg
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from floe_core.errors import ConfigurationError, WriteError
from floe_core.schemas import CheckConfig, TableConfig
from floe_dagster import IcebergIOManager, audited, list_staged, publish_staged
from floe_dagster.io.tables_source import TablesSource
from floe_iceberg.table.keys.row_keys import recorded_keys

pytestmark = pytest.mark.spark

TABLE = "public.orders"
NO_NULLS = CheckConfig.model_validate({"type": "not_null", "column": "qty"})


@pytest.fixture
def upsert(tables):
    """Run an upsert on Spark under a declaration of keys."""

    def run(rows, keys=(), *, checks=(), spark=True):
        source = TablesSource(lambda: tables, declared={TABLE: TableConfig(keys=tuple(keys))})
        data = pa.Table.from_pylist(rows)
        kind = DataFrame if spark else pa.Table

        @dg.asset(name="orders", metadata={"write_mode": "upsert"})
        def orders() -> kind:
            return tables.spark.createDataFrame(data) if spark else data

        marked, gates = audited(orders, {orders.key: list(checks)})
        definitions = dg.Definitions(
            assets=[marked], asset_checks=gates, resources={"io_manager": IcebergIOManager(source=source)}
        )
        return definitions.resolve_implicit_global_asset_job_def().execute_in_process(raise_on_error=not checks)

    return run


def found(tables, ref=None):
    return sorted(tuple(row.values()) for row in tables.scan(TABLE, ref=ref).to_pylist())


@pytest.mark.parametrize("spark", [True, False], ids=["spark", "arrow"])
@pytest.mark.parametrize("version", [2, 3], ids=["v2", "v3"])
def test_a_table_that_spark_made_takes_declared_keys(version, spark, upsert, tables):
    tables.create_namespace("public")
    name = f"{tables.catalog.name}.{TABLE}"
    tables.spark.sql(
        f"CREATE TABLE {name} (id bigint, line bigint, qty bigint) USING iceberg "
        f"TBLPROPERTIES ('format-version'='{version}')"
    )
    tables.spark.sql(f"INSERT INTO {name} VALUES (1, 1, 5), (1, 2, 6)")
    with pytest.raises(ConfigurationError, match="not unique by id"):
        upsert([{"id": 1, "line": 1, "qty": 7}], ["id"], spark=spark)
    upsert([{"id": 1, "line": 1, "qty": 7}], ["id", "line"], spark=spark)
    frame = tables.frame(TABLE)
    assert sorted(tuple(row) for row in frame.collect()) == [(1, 1, 7), (1, 2, 6)]
    assert recorded_keys(tables.load_table(TABLE)) == ("id", "line")


def test_keys_are_compared_on_spark_where_the_table_is_large(upsert, tables):
    upsert([{"id": 1, "line": 1, "qty": 5}, {"id": 2, "line": 1, "qty": 5}], ["id"])
    tables.context.config.__dict__["spark_threshold_bytes"] = 1
    with pytest.raises(ConfigurationError, match=r"not unique by line; examples of duplicates: \{'line': 1\}"):
        upsert([{"id": 2, "line": 1, "qty": 6}], ["line"])
    upsert([{"id": 1, "line": 2, "qty": 6}], ["line", "id"])
    assert found(tables) == [(1, 1, 5), (1, 2, 6), (2, 1, 5)]


def test_a_checked_upsert_is_staged_and_published_by_the_declared_keys(upsert, tables):
    assert upsert([{"id": 1, "line": 1, "qty": 5}], ["id"], checks=[NO_NULLS]).success
    assert not upsert([{"id": 1, "line": 2, "qty": None}], ["id", "line"], checks=[NO_NULLS]).success
    [held] = list_staged(tables, TABLE)
    assert held.keys == ("id", "line")
    assert found(tables) == [(1, 1, 5)]
    assert found(tables, ref=held.branch) == [(1, 1, 5), (1, 2, None)]
    publish_staged(tables, TABLE, held.branch)
    assert found(tables) == [(1, 1, 5), (1, 2, None)]


def test_a_held_upsert_is_refused_once_the_table_has_other_keys(upsert, tables):
    assert upsert([{"id": 1, "line": 1, "qty": 5}], ["id"], checks=[NO_NULLS]).success
    assert not upsert([{"id": 1, "line": 2, "qty": None}], ["id"], checks=[NO_NULLS]).success
    [held] = list_staged(tables, TABLE)
    tables.set_keys(TABLE, ["id", "line"])
    with pytest.raises(WriteError, match="by id, but the keys of the table are now id, line"):
        publish_staged(tables, TABLE, held.branch)
    assert found(tables) == [(1, 1, 5)]
