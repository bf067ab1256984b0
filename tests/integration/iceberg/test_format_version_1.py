"""Tables of format version 1, also upgraded to 2: all operations, with results read by Spark."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import local_path
from floe_testing.oracles.sequence_numbers import sequence_number_breaches
from floe_testing.spark import embedded_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string()), ("x", pa.int64())])
START = [(1, "a", 0), (2, "a", 0), (3, "b", 0), (4, "b", 0)]


def rows(*values):
    return pa.table({name: [value[place] for value in values] for place, name in enumerate(SCHEMA.names)}, SCHEMA)


def found(manager, **version):
    return sorted((row["id"], row["p"], row["x"]) for row in manager.scan("bronze.t", **version).to_pylist())


@pytest.fixture
def open_manager(tmp_path):
    """Open managers on one embedded catalog, each without anything remembered."""
    opened = []

    def open_():
        catalog = embedded_catalog(tmp_path)
        catalog.create_namespace_if_not_exists("bronze")
        opened.append(catalog)
        return IcebergTableManager(catalog)

    yield open_
    for catalog in opened:
        catalog.close()


def upgrade(manager):
    table = manager.load_table("bronze.t")
    with table.transaction() as change:
        change.upgrade_table_version(2)


@pytest.fixture(params=["v1", "upgraded", "upgraded in one process"])
def manager(open_manager, request):
    """A partitioned table with four rows in three appends by one manager, and who works with it."""
    first = open_manager()
    first.create_table("bronze.t", SCHEMA, partition_spec=["p"], properties={"format-version": "1"})
    first.append("bronze.t", rows(*START[:2]))
    first.append("bronze.t", rows(*START[2:3]))
    if request.param.startswith("upgraded"):
        upgrade(first)
    first.append("bronze.t", rows(*START[3:]))
    return first if request.param.endswith("one process") else open_manager()


OPERATIONS = {
    "fast append": (
        lambda m: m.append("bronze.t", rows((5, "a", 1)), commit_strategy="fast_append"),
        [*START, (5, "a", 1)],
    ),
    "merge append": (lambda m: m.append("bronze.t", rows((5, "a", 1)), commit_strategy="merge"), [*START, (5, "a", 1)]),
    "stream": (lambda m: m.append("bronze.t", rows((5, "c", 1)).to_reader()), [*START, (5, "c", 1)]),
    "overwrite": (lambda m: m.overwrite("bronze.t", rows((5, "a", 1))), [(5, "a", 1)]),
    "overwrite by filter": (
        lambda m: m.overwrite("bronze.t", rows((5, "a", 1)), overwrite_filter="id > 2"),
        [*START[:2], (5, "a", 1)],
    ),
    "overwrite partitions": (
        lambda m: m.write_data("bronze.t", rows((5, "a", 1)), mode="overwrite_partitions"),
        [*START[2:], (5, "a", 1)],
    ),
    "upsert": (
        lambda m: m.upsert("bronze.t", rows((1, "a", 7), (5, "a", 1)), keys=["id"]),
        [(1, "a", 7), *START[1:], (5, "a", 1)],
    ),
    "delete rows": (lambda m: m.delete("bronze.t", "id = 2"), [START[0], *START[2:]]),
    "delete a partition": (lambda m: m.delete("bronze.t", "p = 'a'"), START[2:]),
    "compact": (lambda m: m.compact_table("bronze.t"), START),
    "rewrite manifests": (lambda m: m.rewrite_manifests("bronze.t"), START),
    "expire": (lambda m: m.expire_snapshots("bronze.t", older_than=datetime.now(UTC), retain_last=1), START),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_on_a_version_1_table_does_what_it_says(manager, open_manager, name):
    operate, expected = OPERATIONS[name]
    version = manager.load_table("bronze.t").metadata.format_version
    operate(manager)
    reader = open_manager()
    assert found(reader) == found(manager) == sorted(expected)
    table = reader.load_table("bronze.t")
    assert table.metadata.format_version == version
    assert sequence_number_breaches(table) == []
    assert_audited(table)
    health = reader.table_health("bronze.t")
    assert (health.rows, health.delete_files) == (len(expected), 0)
    summary = table.current_snapshot().summary.additional_properties
    assert (summary["total-records"], summary["total-data-files"]) == (str(len(expected)), str(health.data_files))
    assert sum(part.records for part in reader.partitions("bronze.t")) == len(expected)
    assert {file.content for file in reader.files("bronze.t")} == {"data"}
    assert {one.content for one in reader.manifests("bronze.t")} == {"data"}


def test_the_fields_of_version_1_alone_follow_the_schema_and_the_spec(open_manager):
    manager = open_manager()
    manager.create_table("bronze.t", SCHEMA, partition_spec=["p"], properties={"format-version": "1"})
    manager.append("bronze.t", rows(*START))
    manager.evolve_schema("bronze.t", [SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")])
    with manager.load_table("bronze.t").update_spec() as spec:
        spec.add_field("id", "bucket[4]", "id_bucket")
    written = json.loads(local_path(manager.load_table("bronze.t").metadata_location).read_text())
    assert [field["name"] for field in written["schema"]["fields"]] == ["id", "p", "x", "note"]
    assert written["partition-spec"] == written["partition-specs"][-1]["fields"]
    assert_audited(manager, "bronze.t")


def test_refs_and_rollback_work_on_a_version_1_table(manager, open_manager):
    before = manager.get_current_snapshot("bronze.t")
    manager.create_tag("bronze.t", "kept")
    manager.create_branch("bronze.t", "trial")
    manager.append("bronze.t", rows((9, "z", 9)), branch="trial")
    assert found(open_manager()) == START
    assert found(open_manager(), ref="trial") == [*START, (9, "z", 9)]
    manager.delete("bronze.t", "id > 0")
    assert found(open_manager()) == []
    assert found(open_manager(), ref="kept") == START
    manager.rollback("bronze.t", before.snapshot_id)
    assert found(open_manager()) == START


def test_a_sweep_of_a_version_1_table_takes_orphans_and_nothing_else(manager, open_manager):
    folder = local_path(manager.load_table("bronze.t").location())
    orphan = folder / "data" / "orphan.parquet"
    orphan.write_bytes(b"x")
    month = time.time() - 30 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (month, month))
    manager.sweep_orphans("bronze.t", dry_run=False)
    assert not orphan.exists()
    assert found(open_manager()) == START


SEQUENCE = {
    "fast append": lambda m: m.append("bronze.t", rows((5, "a", 1)), commit_strategy="fast_append"),
    "merge append": lambda m: m.append("bronze.t", rows((6, "c", 1)), commit_strategy="merge"),
    "upsert": lambda m: m.upsert("bronze.t", rows((1, "a", 7), (7, "d", 1)), keys=["id"]),
    "delete": lambda m: m.delete("bronze.t", "id = 2"),
    "compact": lambda m: m.compact_table("bronze.t"),
    "overwrite by filter": lambda m: m.overwrite("bronze.t", rows((8, "b", 1)), overwrite_filter="id = 3"),
    "rewrite manifests": lambda m: m.rewrite_manifests("bronze.t"),
    "overwrite partitions": lambda m: m.overwrite_partitions("bronze.t", rows((9, "a", 1))),
    "expire": lambda m: m.expire_snapshots("bronze.t", older_than=datetime.now(UTC), retain_last=1),
    "overwrite": lambda m: m.overwrite("bronze.t", rows((10, "a", 1))),
}
EXPECTED = {
    "fast append": [*START, (5, "a", 1)],
    "merge append": [*START, (5, "a", 1), (6, "c", 1)],
    "upsert": [(1, "a", 7), *START[1:], (5, "a", 1), (6, "c", 1), (7, "d", 1)],
    "delete": [(1, "a", 7), *START[2:], (5, "a", 1), (6, "c", 1), (7, "d", 1)],
    "compact": [(1, "a", 7), *START[2:], (5, "a", 1), (6, "c", 1), (7, "d", 1)],
    "overwrite by filter": [(1, "a", 7), START[3], (5, "a", 1), (6, "c", 1), (7, "d", 1), (8, "b", 1)],
    "rewrite manifests": [(1, "a", 7), START[3], (5, "a", 1), (6, "c", 1), (7, "d", 1), (8, "b", 1)],
    "overwrite partitions": [START[3], (6, "c", 1), (7, "d", 1), (8, "b", 1), (9, "a", 1)],
    "expire": [START[3], (6, "c", 1), (7, "d", 1), (8, "b", 1), (9, "a", 1)],
    "overwrite": [(10, "a", 1)],
}


@pytest.mark.spark
@pytest.mark.parametrize("origin", ["floe", "upgraded"])
def test_spark_reads_what_each_operation_leaves_of_a_version_1_table(spark_session, open_manager, origin):
    if origin == "floe":
        open_manager().create_table("bronze.t", SCHEMA, partition_spec=["p"], properties={"format-version": "1"})
    else:
        spark_session.sql("CREATE NAMESPACE IF NOT EXISTS floe.bronze")
        spark_session.sql(
            "CREATE TABLE floe.bronze.t (id BIGINT, p STRING, x BIGINT) USING iceberg PARTITIONED BY (p) "
            "TBLPROPERTIES ('format-version'='1')"
        )
    spark_session.sql("INSERT INTO floe.bronze.t VALUES (1, 'a', 0), (2, 'a', 0), (3, 'b', 0)")
    spark_session.sql("INSERT INTO floe.bronze.t VALUES (4, 'b', 0)")
    if origin == "upgraded":
        spark_session.sql("ALTER TABLE floe.bronze.t SET TBLPROPERTIES ('format-version'='2')")
    for name, operate in SEQUENCE.items():
        # A new manager each time, because cached state can hide the content of the files.
        operate(open_manager())
        read = sorted(tuple(row) for row in spark_session.sql("SELECT id, p, x FROM floe.bronze.t").collect())
        assert read == found(open_manager()) == EXPECTED[name], name
    table = open_manager().load_table("bronze.t")
    assert table.metadata.format_version == (2 if origin == "upgraded" else 1)
    assert sequence_number_breaches(table) == []
