"""A planted breach for each rule on table metadata, snapshots, manifest lists and statistics.

Each change is made to a table that Java has written. ``also`` names rules that the same change inevitably breaks.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from floe_audit import AuditDepth, Rule
from floe_testing.faults.planting import Planted, Plantings, another_schema, put, with_ids

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("audit")]

HOUR = 3_600_000
ID, NAME, FLOAT = 1, 2, 3
PLANTINGS = Plantings()

# Any file


@PLANTINGS.planted(Rule.FILE_MISSING)
def data_file_is_gone(table: Planted) -> None:
    # Without equality deletes, the rows of a snapshot are counted from metadata.
    table.replace(table.file()[0], None)


@PLANTINGS.planted(Rule.FILE_MISSING)
def manifest_is_gone(table: Planted) -> None:
    table.replace(table.lines()[0]["manifest_path"], None)


@PLANTINGS.planted(Rule.FILE_MISSING)
def statistics_are_gone(table: Planted) -> None:
    table.replace(table.document["statistics"][0]["statistics-path"], None)


@PLANTINGS.planted(Rule.FILE_UNREADABLE)
def manifest_is_cut(table: Planted) -> None:
    path = table.lines()[0]["manifest_path"]
    table.replace(path, table.read(path)[:-20])


@PLANTINGS.planted(Rule.FILE_UNREADABLE)
def metadata_is_no_json(table: Planted) -> None:
    table.replace(table.metadata_location, b"{")


# Table metadata

PLANTINGS.document(Rule.METADATA_FIELD, "no last-column-id", lambda one: one.pop("last-column-id"))
PLANTINGS.document(Rule.METADATA_FIELD, "refs is a list", put("refs", []))
PLANTINGS.document(Rule.METADATA_FIELD, "no schema in version 1", lambda one: one.pop("schema"), version=1)
PLANTINGS.document(Rule.METADATA_VERSION, "version 4", put("format-version", 4))
PLANTINGS.document(Rule.METADATA_UUID, "no uuid", put("table-uuid", "none"))
PLANTINGS.document(Rule.METADATA_LOCATION, "no location", put("location", ""))
PLANTINGS.document(Rule.METADATA_LAST_COLUMN_ID, "last-column-id is low", put("last-column-id", 1))
PLANTINGS.document(
    Rule.METADATA_COLUMN_IDS,
    "a reserved id",
    lambda one: (put("last-column-id", 2147483500)(one), another_schema(id=2147483500)(one)),
)
PLANTINGS.document(Rule.METADATA_SCHEMA, "an unknown type", another_schema(id=2, name="x", type="text"))
PLANTINGS.document(
    Rule.METADATA_SCHEMA,
    "a type of version 3",
    another_schema(id=77, type="variant"),
    also=frozenset({Rule.METADATA_LAST_COLUMN_ID}),
)
PLANTINGS.document(Rule.METADATA_SCHEMA, "an id twice", lambda one: one["schemas"].append(dict(one["schemas"][0])))
PLANTINGS.document(Rule.METADATA_SCHEMA_ID, "current schema unknown", put("current-schema-id", 77))
PLANTINGS.document(
    Rule.METADATA_IDENTIFIER_FIELDS,
    "an optional identifier",
    lambda one: (put("last-column-id", 4)(one), another_schema(identifiers=[NAME])(one)),
)
PLANTINGS.document(
    Rule.METADATA_DEFAULTS,
    "a default in version 2",
    lambda one: (put("last-column-id", 4)(one), another_schema(**{"initial-default": 5})(one)),
)
PLANTINGS.document(Rule.METADATA_PROMOTION, "text becomes a date", another_schema(id=NAME, name="name", type="date"))
PLANTINGS.document(
    Rule.METADATA_SPEC,
    "no buckets",
    lambda one: one["partition-specs"].append(
        {"spec-id": 9, "fields": [{"source-id": 1, "field-id": 1000, "name": "x", "transform": "bucket[0]"}]}
    ),
)
PLANTINGS.document(
    Rule.METADATA_SPEC,
    "a field id with two meanings",
    lambda one: one["partition-specs"].append(
        {"spec-id": 9, "fields": [{"source-id": 1, "field-id": 1000, "name": "x", "transform": "identity"}]}
    ),
)
PLANTINGS.document(
    Rule.METADATA_SPEC, "no field id", lambda one: one["partition-specs"][0]["fields"][0].pop("field-id")
)
PLANTINGS.document(Rule.METADATA_SPEC_ID, "default spec unknown", put("default-spec-id", 77))
PLANTINGS.document(Rule.METADATA_LAST_PARTITION_ID, "last-partition-id is low", put("last-partition-id", 999))
PLANTINGS.document(
    Rule.METADATA_SORT_ORDER,
    "an unknown direction",
    lambda one: one["sort-orders"].append(
        {
            "order-id": 9,
            "fields": [{"transform": "identity", "source-id": 1, "direction": "up", "null-order": "nulls-first"}],
        }
    ),
)
PLANTINGS.document(Rule.METADATA_SORT_ORDER_ID, "default order unknown", put("default-sort-order-id", 77))
PLANTINGS.document(Rule.METADATA_PROPERTIES, "a number", put("properties", "write.x", 5))
PLANTINGS.document(Rule.METADATA_PROPERTIES, "no name mapping", put("properties", "schema.name-mapping.default", "{"))
PLANTINGS.document(Rule.METADATA_LAST_UPDATED, "an hour back", put("last-updated-ms", lambda moment: moment - HOUR))
PLANTINGS.document(
    Rule.METADATA_SNAPSHOT_LOG,
    "an expired snapshot",
    lambda one: one["snapshot-log"].insert(0, {"timestamp-ms": 5, "snapshot-id": 5}),
)
PLANTINGS.document(Rule.METADATA_SNAPSHOT_LOG, "not the current snapshot", lambda one: one["snapshot-log"].pop())
PLANTINGS.document(
    Rule.METADATA_SNAPSHOT_LOG, "out of order", put("snapshot-log", 0, "timestamp-ms", lambda moment: moment + HOUR)
)
PLANTINGS.document(
    Rule.METADATA_LOG, "out of order", put("metadata-log", 0, "timestamp-ms", lambda moment: moment + HOUR)
)
PLANTINGS.document(Rule.METADATA_REFS, "a tag of nothing", put("refs", "keep", "snapshot-id", 5))
PLANTINGS.document(
    Rule.METADATA_REFS,
    "main elsewhere",
    lambda one: put("refs", "main", "snapshot-id", one["snapshots"][0]["snapshot-id"])(one),
)
PLANTINGS.document(Rule.METADATA_REFS, "a negative age", put("refs", "keep", "max-ref-age-ms", -1))
PLANTINGS.document(Rule.METADATA_REFS, "a tag with snapshots", put("refs", "keep", "min-snapshots-to-keep", 3))
PLANTINGS.document(
    Rule.METADATA_CURRENT_SNAPSHOT,
    "unknown",
    put("current-snapshot-id", 5),
    also=frozenset({Rule.METADATA_REFS, Rule.METADATA_SNAPSHOT_LOG}),
)
PLANTINGS.document(Rule.METADATA_LAST_SEQUENCE_NUMBER, "too low", put("last-sequence-number", 1))
PLANTINGS.document(
    Rule.METADATA_NEXT_ROW_ID, "too low", put("next-row-id", 5), version=3, also=frozenset({Rule.MANIFEST_FIRST_ROW_ID})
)
PLANTINGS.document(Rule.METADATA_ENCRYPTION_KEYS, "no key", put("encryption-keys", [{}]), version=3)

# Snapshots

PLANTINGS.document(Rule.SNAPSHOT_ID, "no id", lambda one: one["snapshots"].append({"timestamp-ms": 5}))
PLANTINGS.document(Rule.SNAPSHOT_ID, "an id twice", lambda one: one["snapshots"].append(dict(one["snapshots"][-1])))
PLANTINGS.document(Rule.SNAPSHOT_FIELD, "no time", lambda one: one["snapshots"][0].pop("timestamp-ms"))
PLANTINGS.document(Rule.SNAPSHOT_FIELD, "no summary", lambda one: one["snapshots"][0].pop("summary"))
PLANTINGS.document(Rule.SNAPSHOT_PARENT, "a lost parent", lambda one: one["snapshots"][-1].pop("parent-snapshot-id"))
PLANTINGS.document(
    Rule.SNAPSHOT_PARENT,
    "a circle",
    lambda one: put("snapshots", 0, "parent-snapshot-id", one["snapshots"][1]["snapshot-id"])(one),
    also=frozenset({Rule.SNAPSHOT_SEQUENCE_NUMBER, Rule.SNAPSHOT_CONTINUITY, Rule.LIST_HEADER}),
)
PLANTINGS.document(
    Rule.SNAPSHOT_SEQUENCE_NUMBER,
    "that of the parent",
    lambda one: put("snapshots", -1, "sequence-number", one["snapshots"][-2]["sequence-number"])(one),
    also=frozenset({Rule.LIST_HEADER, Rule.LIST_SEQUENCE_NUMBER}),
)
PLANTINGS.document(Rule.SNAPSHOT_SCHEMA_ID, "unknown", put("snapshots", 0, "schema-id", 77))
PLANTINGS.document(Rule.SNAPSHOT_OPERATION, "unknown", put("snapshots", 0, "summary", "operation", "vanish"))
PLANTINGS.document(
    Rule.SNAPSHOT_OPERATION, "an append that deletes", put("snapshots", 2, "summary", "operation", "append")
)
PLANTINGS.document(Rule.SNAPSHOT_OPERATION, "a delete that adds", put("snapshots", 0, "summary", "operation", "delete"))
PLANTINGS.document(
    Rule.SNAPSHOT_OPERATION,
    "a replacement that adds",
    put("snapshots", 1, "summary", "operation", "replace"),
    version=1,
)
PLANTINGS.document(
    Rule.SNAPSHOT_FIRST_ROW_ID,
    "ids used before",
    put("snapshots", -1, "first-row-id", 0),
    version=3,
)
PLANTINGS.document(Rule.SNAPSHOT_ADDED_ROWS, "too few", put("snapshots", 0, "added-rows", 1), version=3)
PLANTINGS.document(Rule.SUMMARY_CHANGE, "added-records", put("snapshots", 0, "summary", "added-records", "11"))
PLANTINGS.document(Rule.SUMMARY_CHANGE, "added-files-size", put("snapshots", 0, "summary", "added-files-size", "11"))
PLANTINGS.document(
    Rule.SUMMARY_CHANGE, "added-position-deletes", put("snapshots", 2, "summary", "added-position-deletes", "1")
)
PLANTINGS.document(Rule.SUMMARY_TOTAL, "total-records", put("snapshots", -1, "summary", "total-records", "11"))
PLANTINGS.document(
    Rule.SUMMARY_TOTAL, "total-equality-deletes", put("snapshots", -1, "summary", "total-equality-deletes", "0")
)
PLANTINGS.document(Rule.SUMMARY_PARTITIONS, "one more", put("snapshots", 0, "summary", "changed-partition-count", "3"))


@PLANTINGS.planted(Rule.SNAPSHOT_DUPLICATE_FILE, also=(Rule.LIST_FILE_COUNTS, Rule.LIST_ROW_COUNTS, Rule.SUMMARY_TOTAL))
def live_file_twice(table: Planted) -> None:
    table.manifest(table.file()[1], lambda entries, *_: entries.append(dict(entries[0])))


@PLANTINGS.planted(Rule.SNAPSHOT_CONTINUITY, also=(Rule.LIST_FILE_COUNTS, Rule.LIST_ROW_COUNTS, Rule.SUMMARY_TOTAL))
def file_lost_without_a_trace(table: Planted) -> None:
    table.manifest(table.file()[1], lambda entries, *_: entries.pop(0))


# Manifest lists


@PLANTINGS.planted(Rule.LIST_HEADER)
def list_of_another_snapshot(table: Planted) -> None:
    table.manifest_list(lambda _lines, header, _schema: header.update({"snapshot-id": "5"}))


@PLANTINGS.planted(Rule.LIST_SCHEMA)
def list_without_field_id(table: Planted) -> None:
    def change(_lines: Any, _header: Any, schema: dict[str, Any]) -> None:
        next(one for one in schema["fields"] if one["name"] == "key_metadata").pop("field-id")

    table.manifest_list(change)


PLANTINGS.line(Rule.LIST_LENGTH, "one byte more", manifest_length=lambda size: size + 1)
PLANTINGS.line(
    Rule.LIST_SPEC_ID, "unknown spec", partition_spec_id=77, also=(Rule.MANIFEST_HEADER, Rule.MANIFEST_FILE_CHANGED)
)
PLANTINGS.line(Rule.LIST_SEQUENCE_NUMBER, "one more", sequence_number=lambda number: number + 1)
PLANTINGS.line(Rule.LIST_SEQUENCE_NUMBER, "one less", sequence_number=lambda number: number - 1)
PLANTINGS.line(Rule.LIST_MIN_SEQUENCE_NUMBER, "zero", min_sequence_number=0)
PLANTINGS.line(Rule.LIST_FILE_COUNTS, "one more", existing_files_count=lambda number: number + 1)
PLANTINGS.line(
    Rule.LIST_FILE_COUNTS, "one more added, version 1", version=1, added_files_count=lambda number: number + 1
)
PLANTINGS.line(Rule.LIST_ROW_COUNTS, "one more", existing_rows_count=lambda number: number + 1)
PLANTINGS.line(Rule.LIST_SUMMARIES, "a null", partitions=lambda parts: [parts[0] | {"contains_null": True}])
PLANTINGS.line(Rule.LIST_SUMMARIES, "a NaN", partitions=lambda parts: [parts[0] | {"contains_nan": True}])
PLANTINGS.line(
    Rule.LIST_SUMMARIES, "a wrong bound", partitions=lambda parts: [parts[0] | {"upper_bound": struct.pack("<i", 0)}]
)
PLANTINGS.line(Rule.LIST_SUMMARIES, "no bound", partitions=lambda parts: [parts[0] | {"lower_bound": None}])
PLANTINGS.line(Rule.LIST_SUMMARIES, "none", partitions=[])
PLANTINGS.line(Rule.LIST_FIRST_ROW_ID, "missing", version=3, first_row_id=None)
PLANTINGS.line(Rule.LIST_FIRST_ROW_ID, "of deletes", content=1, version=3, first_row_id=5)


@PLANTINGS.planted(Rule.LIST_CONTENT)
def data_manifest_called_deletes(table: Planted) -> None:
    def change(lines: list[dict[str, Any]], *_: object) -> None:
        next(one for one in lines if one["content"] == 0)["content"] = 1

    table.manifest_list(change)


@PLANTINGS.planted(Rule.LIST_ADDED_SNAPSHOT, also=(Rule.SUMMARY_CHANGE, Rule.SUMMARY_PARTITIONS))
def manifest_of_another_snapshot(table: Planted) -> None:
    first = table.document["snapshots"][0]

    def change(entries: list[dict[str, Any]], *_: object) -> None:
        for entry in entries:
            entry["snapshot_id"] = 5

    table.manifest(table.records(first["manifest-list"])[0][0]["manifest_path"], change)


@PLANTINGS.planted(Rule.LIST_DUPLICATE, also=(Rule.SNAPSHOT_DUPLICATE_FILE, Rule.SUMMARY_TOTAL))
def manifest_twice(table: Planted) -> None:
    table.manifest_list(lambda lines, *_: lines.append(dict(lines[0])))


# Statistics

PLANTINGS.document(Rule.STATISTICS_SNAPSHOT, "of nothing", put("statistics", 0, "snapshot-id", 5))
PLANTINGS.document(
    Rule.STATISTICS_FILE, "another size", put("statistics", 0, "file-size-in-bytes", lambda size: size + 1)
)
PLANTINGS.document(Rule.STATISTICS_FILE, "another footer", put("statistics", 0, "file-footer-size-in-bytes", 1))
PLANTINGS.document(Rule.STATISTICS_FILE, "another blob", put("statistics", 0, "blob-metadata", 0, "fields", [3, 2]))
PLANTINGS.document(Rule.PARTITION_STATISTICS_SNAPSHOT, "of nothing", put("partition-statistics", 0, "snapshot-id", 5))
PLANTINGS.document(
    Rule.PARTITION_STATISTICS_FILE, "another size", put("partition-statistics", 0, "file-size-in-bytes", 1)
)


@PLANTINGS.planted(Rule.PARTITION_STATISTICS_FILE)
def partition_statistics_count_too_much(table: Planted) -> None:
    entry_of = table.document["partition-statistics"][0]
    path = entry_of["statistics-path"]
    rows = pq.read_table(io.BytesIO(table.read(path)), partitioning=None)
    place = rows.schema.names.index("data_record_count")
    changed = with_ids(rows.set_column(place, "data_record_count", pc.add(rows["data_record_count"], 1)), rows)
    target = io.BytesIO()
    pq.write_table(changed, target, store_schema=False)
    table.replace(path, target.getvalue())
    table.metadata(put("partition-statistics", 0, "file-size-in-bytes", len(target.getvalue())))


@pytest.mark.parametrize("planting", PLANTINGS, ids=lambda one: f"{one.rule}: {one.name}".replace(" ", "-"))
def test_a_planted_breach_is_found_under_its_rule(java_table, planting):
    table = java_table(planting.version)
    planting.change(table)
    report = table.audit()
    assert {breach.rule for breach in report.breaches} == {planting.rule, *planting.also}
    assert all(breach.file and breach.message for breach in report.breaches)


def test_every_rule_has_a_planted_breach():
    groups = {"metadata", "manifest-list", "file", "snapshot", "statistics", "partition-statistics", "summary"}
    assert {planting.rule for planting in PLANTINGS} == {one for one in Rule if one.partition(".")[0] in groups}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_tables_have_no_breach_before_one_is_planted(java_table, version):
    report = java_table(version).audit()
    assert report.breaches == ()
    rows = {1: 21, 2: 19, 3: 21}
    assert list(report.live_rows.values())[-1] == rows[version]


def test_each_depth_looks_no_deeper_than_asked(java_table):
    table = java_table(2)
    table.replace(table.file()[0], b"gone")
    assert table.audit(AuditDepth.METADATA).ok
    assert {one.rule for one in table.audit(AuditDepth.FILES).breaches} == {Rule.DATA_SIZE, Rule.FILE_UNREADABLE}
