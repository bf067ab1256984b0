"""S34: tables of format version 3 are written through Spark, or rejected before anything is written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.dataplane import OPERATION_ID_PROPERTY
from floe_core.errors import CapabilityError, EngineUnavailableError, RefExistsError
from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_testing.embedded_tables import files_of, no_engine
from floe_testing.java.deltas import java_table

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ALL = {"older_than_days": 0, "retain_last": 1}


def rows(*ids, name="new"):
    return pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=SCHEMA)


@pytest.fixture
def spark(spark_tables):
    spark_tables.catalog.create_namespace_if_not_exists("bronze")
    return spark_tables.plane.session


@pytest.fixture
def manager(spark_tables, spark):
    spark.sql(f"CREATE TABLE floe.{NAME} (id bigint, name string) USING iceberg TBLPROPERTIES('format-version'='3')")
    return IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)


def seen(spark):
    """Rows with their lineage, as Spark sees them."""
    found = spark.sql(f"SELECT id, name, _row_id, _last_updated_sequence_number FROM floe.{NAME}").collect()
    return {row[0]: tuple(row)[1:] for row in found}


def java_agrees(spark, manager):
    """Java parses the metadata, no row id is given twice, and the next one is higher than all."""
    found = spark.sql(f"SELECT _row_id FROM floe.{NAME}").collect()
    ids = [row[0] for row in found]
    assert len(set(ids)) == len(ids)
    assert None not in ids
    assert manager.load_table(NAME).metadata.next_row_id > max(ids, default=-1)


@pytest.mark.spark
def test_s34_every_write_keeps_row_lineage(manager, spark):
    first = manager.append(NAME, rows(1, 2, 3), operation_id="load-1")
    assert first.summary[OPERATION_ID_PROPERTY] == "load-1"
    before = seen(spark)
    assert manager.append(NAME, rows(1, 2, 3), operation_id="load-1").snapshot_id == first.snapshot_id
    upserted = manager.upsert(NAME, rows(3, 4, name="upserted"), keys=["id"], operation_id="upsert-1")
    assert upserted.summary[OPERATION_ID_PROPERTY] == "upsert-1"
    after = seen(spark)
    assert {n: after[n][0] for n in after} == {1: "new", 2: "new", 3: "upserted", 4: "upserted"}
    # Copied rows keep their id and their last update; changed rows keep only their id.
    assert (after[1], after[2]) == (before[1], before[2])
    assert after[3][1] == before[3][1]
    assert after[3][2] > before[3][2]
    again = manager.upsert(NAME, rows(3, 4, name="upserted"), keys=["id"], operation_id="upsert-1")
    assert again.snapshot_id == upserted.snapshot_id
    manager.delete(NAME, "id = 1")
    manager.overwrite(NAME, rows(9), overwrite_filter="id = 2")
    assert {n: row[0] for n, row in seen(spark).items()} == {3: "upserted", 4: "upserted", 9: "new"}
    manager.overwrite(NAME, rows(7, 8))
    assert sorted(seen(spark)) == [7, 8]
    assert sorted(manager.scan(NAME).column("id").to_pylist()) == [7, 8]
    java_agrees(spark, manager)
    assert [ref.name for ref in manager.list_refs(NAME)] == ["main"]


@pytest.mark.spark
def test_s34_maintenance_and_refs_go_through_spark(manager, spark):
    first = manager.append(NAME, rows(1, 2))
    manager.create_tag(NAME, "v1", max_ref_age=24 * 3600 * 1000)
    with pytest.raises(RefExistsError):
        manager.create_tag(NAME, "v1")
    manager.append(NAME, rows(3))
    manager.create_branch(NAME, "trial")
    manager.append(NAME, rows(4), branch="trial")
    manager.publish_branch(NAME, "trial", remove=True)
    assert sorted(seen(spark)) == [1, 2, 3, 4]
    before = seen(spark)
    compacted = manager.compact_table(NAME)
    assert compacted.files_before > compacted.files_after == 1
    assert seen(spark) == before
    manager.rewrite_manifests(NAME)
    manager.remove_tag(NAME, "v1")
    expired = manager.expire_snapshots(NAME, **ALL)
    assert expired >= 3
    assert len(manager.list_snapshots(NAME)) == 1
    assert len(files_of(manager.load_table(NAME), ".parquet")) == 1
    assert seen(spark) == before
    manager.append(NAME, rows(5))
    kept = manager.list_snapshots(NAME)[-1]
    assert kept.snapshot_id != first.snapshot_id
    manager.rollback(NAME, kept.snapshot_id)
    assert sorted(seen(spark)) == [1, 2, 3, 4]
    assert [ref.name for ref in manager.list_refs(NAME)] == ["main"]
    java_agrees(spark, manager)


@pytest.mark.spark
def test_s34_columns_and_defaults(manager, spark):
    manager.append(NAME, rows(1))
    wider = pa.table({"id": [2], "name": ["b"], "score": [1.5], "tags": [["x"]]})
    manager.append(NAME, wider)
    manager.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.RENAME, column="score", new_name="points")])
    assert [field.name for field in manager.load_table(NAME).schema().fields] == ["id", "name", "points", "tags"]
    with_default(spark, "level", 5)
    manager.append(NAME, rows(3))
    manager.upsert(NAME, rows(4), keys=["id"])
    found = spark.sql(f"SELECT id, level FROM floe.{NAME} ORDER BY id").collect()
    assert [tuple(row) for row in found] == [(1, 5), (2, 5), (3, 5), (4, 5)]
    assert sorted(manager.scan(NAME, ["id", "level"]).column("level").to_pylist()) == [5, 5, 5, 5]
    with pytest.raises(CapabilityError):
        manager.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.ADD, column="t", type="time")])


def with_default(spark, column, value):
    """Add a column with a default, which only Java can."""
    java = spark._jvm.org.apache.iceberg
    table = java_table(spark, f"floe.{NAME}")
    kind, literal = java.types.Types.IntegerType.get(), java.expressions.Expressions.lit(value)
    table.updateSchema().addColumn(column, kind, literal).commit()


OPERATIONS = {
    "append": lambda m, **o: m.append(NAME, rows(9), **o),
    "overwrite": lambda m, **o: m.overwrite(NAME, rows(9), **o),
    "overwrite by filter": lambda m, **o: m.overwrite(NAME, rows(9), overwrite_filter="id = 1", **o),
    "upsert": lambda m, **o: m.upsert(NAME, rows(9), keys=["id"], **o),
    "delete": lambda m, **o: m.delete(NAME, "id = 1", **o),
    "compact": lambda m, **o: m.compact_table(NAME, **o),
    "expire": lambda m, **o: m.expire_snapshots(NAME, **ALL, **o),
    "rewrite manifests": lambda m, **o: m.rewrite_manifests(NAME, **o),
}
WITHOUT_ENGINE = {
    "tag": lambda m: m.create_tag(NAME, "v1"),
    "branch": lambda m: m.create_branch(NAME, "trial"),
    "rollback": lambda m: m.rollback(NAME, m.list_snapshots(NAME)[-1].snapshot_id),
    "columns": lambda m: m.evolve_schema(NAME, [SchemaChange(kind=SchemaChangeKind.ADD, column="x", type="long")]),
}


@pytest.mark.spark
def test_s34_without_spark_everything_is_refused_before_the_first_byte(manager, spark_tables):
    manager.append(NAME, rows(1))
    manager.append(NAME, rows(2))
    table = manager.load_table(NAME)
    files = files_of(table)
    alone = IcebergTableManager(spark_tables.catalog)
    object.__setattr__(alone._context, "plane", no_engine)
    attempts = [(name, act, {}) for name, act in (OPERATIONS | WITHOUT_ENGINE).items()]
    attempts += [(f"{name} by arrow", act, {"engine": "arrow"}) for name, act in OPERATIONS.items()]
    for name, act, options in attempts:
        with pytest.raises(CapabilityError) as refused:
            act(alone, **options)
        wanted = "Remove engine=arrow" if options else "floe-lakehouse[spark]"
        assert wanted in str(refused.value), name
    assert manager.load_table(NAME).metadata_location == table.metadata_location
    assert files_of(table) == files
    assert sorted(alone.scan(NAME).column("id").to_pylist()) == [1, 2]


class Unlucky:
    """A plane that loses answers: the call lands, and the caller is told otherwise."""

    def __init__(self, plane, lost):
        self._plane = plane
        self._lost = lost

    def __getattr__(self, name):
        found = getattr(self._plane, name)
        if name not in self._lost:
            return found

        def landed_and_lost(*args, **options):
            found(*args, **options)
            if name in self._lost:
                self._lost.remove(name)
                msg = "The driver is gone."
                raise EngineUnavailableError(msg)

        return landed_and_lost


@pytest.mark.spark
@pytest.mark.parametrize(
    "lost",
    ["write", "fast_forward", *(pytest.param(name, marks=pytest.mark.live) for name in ("set_ref", "remove_ref"))],
)
def test_s34_a_lost_answer_does_not_double_an_upsert(manager, spark, spark_tables, lost):
    manager.append(NAME, rows(1, 2))
    unlucky = IcebergTableManager(spark_tables.catalog, compute=Unlucky(spark_tables.plane, [lost]))
    made = unlucky.upsert(NAME, rows(2, 3, name="upserted"), keys=["id"], operation_id="once")
    assert {n: row[0] for n, row in seen(spark).items()} == {1: "new", 2: "upserted", 3: "upserted"}
    again = manager.upsert(NAME, rows(2, 3, name="upserted"), keys=["id"], operation_id="once")
    assert again.snapshot_id == made.snapshot_id
    java_agrees(spark, manager)


@pytest.mark.spark
def test_s34_an_upsert_that_lost_the_race_is_done_again(manager, spark, spark_tables):
    manager.append(NAME, rows(1, 2))
    plane = spark_tables.plane

    class Raced(Unlucky):
        def fast_forward(self, *args, **options):
            if self._lost:
                self._lost.clear()
                manager.append(NAME, rows(3, name="other"))
            self._plane.fast_forward(*args, **options)

    raced = IcebergTableManager(spark_tables.catalog, compute=Raced(plane, ["once"]))
    raced.upsert(NAME, rows(3, name="upserted"), keys=["id"])
    assert {n: row[0] for n, row in seen(spark).items()} == {1: "new", 2: "new", 3: "upserted"}
    assert spark.sql(f"SELECT count(*) FROM floe.{NAME}").collect()[0][0] == 3


@pytest.mark.spark
def test_s34_an_empty_table_takes_an_upsert_and_a_branch(manager, spark):
    manager.upsert(NAME, rows(1), keys=["id"])
    assert sorted(seen(spark)) == [1]
    spark.sql("CREATE TABLE floe.bronze.empty (id bigint) USING iceberg TBLPROPERTIES('format-version'='3')")
    manager.create_branch("bronze.empty", "trial")
    assert {ref.name for ref in manager.list_refs("bronze.empty")} == {"main", "trial"}


@pytest.mark.spark
def test_s34_a_type_that_only_spark_knows_is_no_damage(manager, spark):
    spark.sql("CREATE TABLE floe.bronze.var (id bigint, v variant) USING iceberg TBLPROPERTIES('format-version'='3')")
    spark.sql("""INSERT INTO floe.bronze.var SELECT 1, parse_json('{"a": 7}')""")
    for act in (
        lambda: manager.scan("bronze.var"),
        lambda: manager.load_table("bronze.var"),
        lambda: manager.append("bronze.var", rows(1)),
        lambda: manager.expire_snapshots("bronze.var"),
    ):
        with pytest.raises(CapabilityError, match="type variant, which needs Spark"):
            act()
    frame = manager.frame("bronze.var", row_filter="id = 1", limit=5)
    assert frame.selectExpr("variant_get(v, '$.a', 'int')").collect()[0][0] == 7
