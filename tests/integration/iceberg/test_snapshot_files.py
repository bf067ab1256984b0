"""Manifests, manifest lists and summaries follow the specification and are readable by Spark."""

from __future__ import annotations

import json

import fastavro
import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from floe_core.errors import CapabilityError, ConfigurationError
from floe_iceberg import IcebergTableManager
from floe_iceberg.commit.summaries import summarize
from floe_iceberg.models import SchemaChange, SchemaChangeKind
from floe_testing.embedded_tables import files_of, local_path
from floe_testing.spark import embedded_catalog

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids, p="a"):
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, SCHEMA)


def ids(manager):
    return sorted(manager.scan("bronze.t")["id"].to_pylist())


@pytest.fixture
def manager(tmp_path):
    catalog = embedded_catalog(tmp_path)
    catalog.create_namespace_if_not_exists("bronze")
    yield IcebergTableManager(catalog)
    catalog.close()


def header(location):
    with local_path(location).open("rb") as stream:
        return fastavro.reader(stream).metadata


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_manifest_names_its_schema_spec_and_version(manager, version):
    manager.create_table("bronze.t", SCHEMA, partition_spec=["p"], properties={"format-version": version})
    manager.append("bronze.t", rows(1))
    change = SchemaChange(kind=SchemaChangeKind.ADD, column="x", type="long")
    manager.evolve_schema("bronze.t", [change])
    manager.append("bronze.t", rows(2), commit_strategy="merge")
    table = manager.load_table("bronze.t")
    snapshot = table.current_snapshot()
    (manifest,) = snapshot.manifests(table.io)
    found = header(manifest.manifest_path)
    assert json.loads(found["schema"])["schema-id"] == 1
    assert (found["schema-id"], found["partition-spec-id"], found["format-version"]) == ("1", "0", version)
    assert [field["name"] for field in json.loads(found["partition-spec"])] == ["p"]
    assert found.get("content") == (None if version == "1" else "data")
    listed = header(snapshot.manifest_list)
    assert listed["snapshot-id"] == str(snapshot.snapshot_id)
    assert listed["parent-snapshot-id"] == str(snapshot.parent_snapshot_id)
    assert listed.get("sequence-number") == (None if version == "1" else "2")


CODECS = {"gzip": "deflate", "GZIP": "deflate", "zstd": "zstandard", "Snappy": "snappy", "UNCOMPRESSED": "null"}


def codec(location):
    with local_path(location).open("rb") as stream:
        content = stream.read()
    place = content.index(b"avro.codec") + len(b"avro.codec")
    return content[place + 1 : place + 1 + content[place] // 2].decode()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("key", ["write.avro.compression-codec", "write.manifest.compression-codec"])
def test_manifests_are_compressed_as_the_table_says(manager, key, name):
    manager.create_table("bronze.t", SCHEMA, properties={key: name})
    manager.append("bronze.t", rows(1))
    manager.append("bronze.t", rows(2), commit_strategy="merge")
    manager.delete("bronze.t", "id = 1")
    assert ids(manager) == [2]
    assert {codec(path.as_uri()) for path in files_of(manager.load_table("bronze.t"), ".avro")} == {CODECS[name]}


def test_the_codec_of_manifests_is_javas_own_property_first(manager):
    properties = {"write.avro.compression-codec": "lzo", "write.manifest.compression-codec": "zstd"}
    manager.create_table("bronze.t", SCHEMA, properties=properties)
    manager.append("bronze.t", rows(1))
    assert ids(manager) == [1]


@pytest.mark.parametrize(
    "operate",
    [
        lambda m: m.append("bronze.t", rows(1)),
        lambda m: m.append("bronze.t", rows(1).to_reader()),
        lambda m: m.overwrite("bronze.t", rows(1)),
        lambda m: m.upsert("bronze.t", rows(1), keys=["id"]),
    ],
    ids=["append", "stream", "overwrite", "upsert"],
)
def test_an_unknown_codec_is_refused_before_the_first_byte(manager, operate):
    manager.create_table("bronze.t", SCHEMA, properties={"write.avro.compression-codec": "bzip2"})
    table = manager.load_table("bronze.t")
    before = files_of(table)
    with pytest.raises(ConfigurationError, match=r"bzip2.*gzip, zstd, snappy or uncompressed"):
        operate(manager)
    assert files_of(table) == before


@pytest.mark.spark
@pytest.mark.parametrize("name", ["zstd", "snappy", "UNCOMPRESSED"])
def test_codecs_are_read_across_engines(manager, spark_session, name):
    properties = {"write.manifest.compression-codec": name, "write.avro.compression-codec": name}
    manager.create_table("bronze.t", SCHEMA, properties=properties)
    manager.append("bronze.t", rows(1, 2))
    manager.append("bronze.t", rows(3), commit_strategy="merge")
    spark_session.sql("INSERT INTO floe.bronze.t VALUES (4, 'a')")
    spark_session.sql("CALL floe.system.rewrite_manifests('bronze.t')")
    manager.delete("bronze.t", "id = 2")
    read = [row.id for row in spark_session.sql("SELECT id FROM floe.bronze.t ORDER BY id").collect()]
    assert read == ids(manager) == [1, 3, 4]


def test_a_summary_counts_what_changed_and_what_there_is(manager):
    manager.create_table("bronze.t", SCHEMA, partition_spec=["p"])
    manager.append("bronze.t", rows(1, 2))
    made = manager.append("bronze.t", rows(3, p="b"), snapshot_properties={"added-records": "99", "team": "x"})
    figures = manager.load_table("bronze.t").current_snapshot().summary.additional_properties
    assert figures["team"] == "x"
    assert made.summary["added-records"] == figures["added-records"] == "1"
    assert (figures["total-records"], figures["total-data-files"]) == ("3", "2")
    assert figures["changed-partition-count"] == "1"
    manager.overwrite("bronze.t", rows(4, p="c"))
    figures = manager.load_table("bronze.t").current_snapshot().summary.additional_properties
    assert (figures["deleted-records"], figures["deleted-data-files"], figures["total-records"]) == ("3", "2", "1")
    assert figures["changed-partition-count"] == "3"


@pytest.mark.parametrize(
    ("before", "totals"),
    [(None, {}), ({}, {}), ({"total-records": "many"}, {}), ({"total-records": "5"}, {"total-records": "5"})],
    ids=["no summary", "no totals", "no number", "known"],
)
def test_totals_that_the_parent_does_not_know_are_left_out(manager, before, totals):
    manager.create_table("bronze.t", SCHEMA)
    summary = None if before is None else Summary(Operation.APPEND, **before)
    parent = Snapshot(snapshot_id=1, manifest_list="x", summary=summary)
    metadata = manager.load_table("bronze.t").metadata
    made = summarize(metadata, Operation.APPEND, parent, added=[], removed=[], properties={})
    assert {key: value for key, value in made.additional_properties.items() if key.startswith("total")} == totals


def test_files_of_a_spec_whose_column_is_gone_can_be_rewritten(manager):
    manager.create_table("bronze.t", SCHEMA, partition_spec=["p"])
    manager.append("bronze.t", rows(1, 2))
    manager.append("bronze.t", rows(3, p="b"))
    with manager.load_table("bronze.t").update_spec() as change:
        change.remove_field("p")
    # floe rejects this, but another writer may have done it.
    with manager.load_table("bronze.t").update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("p")
    manager.append("bronze.t", pa.table({"id": [4]}))
    manager.delete("bronze.t", "id = 1")
    assert ids(manager) == [2, 3, 4]
    manager.upsert("bronze.t", pa.table({"id": [3, 5]}), keys=["id"])
    manager.append("bronze.t", pa.table({"id": [6]}), commit_strategy="merge")
    manager.rewrite_manifests("bronze.t")
    manager.compact_table("bronze.t")
    assert ids(manager) == [2, 3, 4, 5, 6]
    manager.overwrite("bronze.t", pa.table({"id": [7]}))
    assert ids(manager) == [7]


V3_OPERATIONS = {
    "append": lambda m: m.append("bronze.t", rows(1), engine="arrow"),
    "stream": lambda m: m.append("bronze.t", rows(1).to_reader(), engine="arrow"),
    "overwrite": lambda m: m.overwrite("bronze.t", rows(1), engine="arrow"),
    "overwrite by filter": lambda m: m.overwrite("bronze.t", rows(1), overwrite_filter="id = 1", engine="arrow"),
    "overwrite partitions": lambda m: m.overwrite_partitions("bronze.t", rows(1), engine="arrow"),
    "upsert": lambda m: m.upsert("bronze.t", rows(1), keys=["id"], engine="arrow"),
    "delete": lambda m: m.delete("bronze.t", "id = 1", engine="arrow"),
    "compact": lambda m: m.compact_table("bronze.t", engine="arrow"),
}


@pytest.mark.spark
def test_a_version_3_table_is_refused_in_process_before_the_first_byte(manager, spark_session):
    spark_session.sql(
        "CREATE TABLE floe.bronze.t (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) "
        "TBLPROPERTIES ('format-version'='3')"
    )
    spark_session.sql("INSERT INTO floe.bronze.t VALUES (1, 'a'), (2, 'a')")
    table = manager.load_table("bronze.t")
    before = files_of(table)
    for name, operate in V3_OPERATIONS.items():
        with pytest.raises(CapabilityError, match=r"(?i)spark"):
            operate(manager)
        assert files_of(table) == before, name


SIZES = {"added-files-size", "removed-files-size", "total-files-size"}
# Optional counts of manifests, and the names of the writer.
ENGINE_OWN = ("engine-", "spark.", "app-", "iceberg-version", "floe.", "operation", "manifests-")


def figures(summary):
    return {
        key: "some" if key in SIZES and value != "0" else value
        for key, value in summary.items()
        if not key.startswith(ENGINE_OWN)
    }


SAME_CHANGES = {
    "append": (
        lambda m: m.append("bronze.t", rows(1, 2)),
        "INSERT INTO floe.bronze.s SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a'), (2, 'a')",
    ),
    "append of another partition": (
        lambda m: m.append("bronze.t", rows(3, p="b")),
        "INSERT INTO floe.bronze.s VALUES (3, 'b')",
    ),
    "delete of rows": (lambda m: m.delete("bronze.t", "id = 1"), "DELETE FROM floe.bronze.s WHERE id = 1"),
    "delete of a partition": (lambda m: m.delete("bronze.t", "p = 'b'"), "DELETE FROM floe.bronze.s WHERE p = 'b'"),
    "overwrite": (lambda m: m.overwrite("bronze.t", rows(5, p="c")), "INSERT OVERWRITE floe.bronze.s VALUES (5, 'c')"),
    "delete of everything": (lambda m: m.delete("bronze.t", "id > 0"), "DELETE FROM floe.bronze.s WHERE true"),
}


@pytest.mark.spark
@pytest.mark.parametrize("version", ["1", "2"])
def test_a_summary_has_the_figures_that_java_writes(manager, spark_session, version):
    for name in ("bronze.t", "bronze.s"):
        manager.create_table(name, SCHEMA, partition_spec=["p"], properties={"format-version": version})
    for name, (ours, theirs) in SAME_CHANGES.items():
        ours(manager)
        spark_session.sql(theirs)
        found, expected = (manager.load_table(table).current_snapshot().summary for table in ("bronze.t", "bronze.s"))
        assert figures(found.additional_properties) == figures(expected.additional_properties), name
        assert found.operation == expected.operation, name
