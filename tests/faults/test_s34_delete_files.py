"""S34: tables whose rows other engines have deleted: every operation is right, or refused before the first byte."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError
from floe_iceberg import IcebergTableManager
from floe_testing.embedded_tables import files_of, no_engine
from floe_testing.java_deltas import add_deletion_vectors, add_equality_deletes, add_position_deletes

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("name", pa.string())])
ALL = {"older_than_days": 0, "retain_last": 1}
LEFT = {1: "old", 3: "old", 4: "old", 6: "old"}


def rows(*ids, name="new", part="a"):
    return pa.table({"id": list(ids), "part": [part] * len(ids), "name": [name] * len(ids)}, schema=SCHEMA)


def by_position(spark):
    found = spark.sql(f"SELECT _file, _pos, id FROM floe.{NAME}").collect()
    positions = {}
    for file, place, number in found:
        if number in {2, 5}:
            positions.setdefault(file, []).append(place)
    return positions


DELETES = {
    "position": lambda spark: add_position_deletes(spark, f"floe.{NAME}", by_position(spark)),
    "equality": lambda spark: add_equality_deletes(spark, f"floe.{NAME}", ["id"], [[2], [5]]),
    "vectors": lambda spark: add_deletion_vectors(spark, f"floe.{NAME}", by_position(spark)),
}
OPERATIONS = {
    "scan": (lambda _m, **_o: None, LEFT),
    "append": (lambda m, **o: m.append(NAME, rows(2, 9), **o), {**LEFT, 2: "new", 9: "new"}),
    "upsert": (lambda m, **o: m.upsert(NAME, rows(2, 3), keys=["id"], **o), {**LEFT, 2: "new", 3: "new"}),
    "delete": (lambda m, **o: m.delete(NAME, "id in (1, 2)", **o), {3: "old", 4: "old", 6: "old"}),
    "overwrite": (lambda m, **o: m.overwrite(NAME, rows(2, 9), **o), {2: "new", 9: "new"}),
    "overwrite partitions": (
        lambda m, **o: m.overwrite_partitions(NAME, rows(2, 9), **o),
        {2: "new", 9: "new", 4: "old", 6: "old"},
    ),
    "overwrite by filter": (
        lambda m, **o: m.overwrite(NAME, rows(2, 9), overwrite_filter="id <= 3", **o),
        {2: "new", 9: "new", 4: "old", 6: "old"},
    ),
    "compact": (lambda m, **o: m.compact_table(NAME, **o), LEFT),
    "compact on spark": (lambda m, **o: m.compact_table(NAME, **{"engine": "spark", **o}), LEFT),
    "expire": (lambda m, **o: m.expire_snapshots(NAME, **ALL, **o), LEFT),
}
# Appends and whole files need no look at what is deleted inside them.
ARROW_CAN = {
    "position": set(OPERATIONS),
    "equality": {"append", "overwrite", "overwrite partitions", "expire"},
    "vectors": set(),
}
# The rest of the matrix is the same code with another kind of delete.
QUICK = (
    {("position", name) for name in ("upsert", "delete", "overwrite partitions", "compact")}
    | {("equality", name) for name in ("append", "upsert", "compact")}
    | {("vectors", "upsert"), ("vectors", "compact")}
)


def cases():
    for kind in DELETES:
        for operation in OPERATIONS:
            marks = [] if (kind, operation) in QUICK else [pytest.mark.live]
            yield pytest.param(kind, operation, marks=marks, id=f"{kind}-{operation}")


@pytest.fixture
def spark(spark_tables):
    spark_tables.catalog.create_namespace_if_not_exists("bronze")
    return spark_tables.plane.session


@pytest.fixture
def deleted(spark, spark_tables):
    """Make a table of two partitions with rows 1 to 6, of which another engine has deleted 2 and 5."""

    def make(kind):
        version = 3 if kind == "vectors" else 2
        spark.sql(
            f"CREATE TABLE floe.{NAME} (id bigint, part string, name string) USING iceberg PARTITIONED BY (part) "
            f"TBLPROPERTIES ('format-version'='{version}')"
        )
        values = ", ".join(f"({n}, '{'a' if n < 4 else 'b'}', 'old')" for n in range(1, 7))
        spark.sql(f"INSERT INTO floe.{NAME} VALUES {values}")
        DELETES[kind](spark)
        return IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)

    return make


def seen(spark):
    found = spark.sql(f"SELECT id, name FROM floe.{NAME}").collect()
    assert len({row[0] for row in found}) == len(found)
    return {row[0]: row[1] for row in found}


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "operation"), list(cases()))
def test_s34_every_operation_is_right_on_every_kind_of_delete(deleted, spark, kind, operation):
    manager = deleted(kind)
    assert seen(spark) == LEFT
    act, expected = OPERATIONS[operation]
    act(manager)
    assert seen(spark) == expected
    if kind != "equality" or operation.startswith("compact"):
        read = manager.scan(NAME, ["id", "name"]).to_pylist()
        assert {row["id"]: row["name"] for row in read} == expected
    if operation.startswith("compact"):
        assert manager.table_health(NAME).delete_files == 0


@pytest.mark.spark
@pytest.mark.parametrize("kind", DELETES)
def test_s34_in_process_each_operation_is_right_or_refused_before_the_first_byte(deleted, spark, spark_tables, kind):
    manager = deleted(kind)
    table = manager.load_table(NAME)
    files = files_of(table)
    alone = IcebergTableManager(spark_tables.catalog)
    object.__setattr__(alone._context, "plane", no_engine)
    refused = [name for name in OPERATIONS if name not in ARROW_CAN[kind] | {"scan"}]
    for operation in refused:
        for options in ({}, {"engine": "arrow"}):
            with pytest.raises(CapabilityError):
                OPERATIONS[operation][0](alone, **options)
    if kind == "equality":
        with pytest.raises(CapabilityError, match="equality"):
            alone.scan(NAME)
    else:
        assert sorted(alone.scan(NAME).column("id").to_pylist()) == sorted(LEFT)
    assert manager.load_table(NAME).metadata_location == table.metadata_location
    assert files_of(table) == files
    assert seen(spark) == LEFT
