"""A planted breach for each rule on manifests, data files and delete files.

Each change is made to a table that Java has written. ``also`` names rules that the same change inevitably breaks.
"""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from floe_audit import Rule
from floe_testing.faults.planting import Planted, Planting, Plantings, metric, with_ids

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("audit")]

ID, NAME, FLOAT = 1, 2, 3
PLANTINGS = Plantings()

# Manifests


PLANTINGS.header(Rule.MANIFEST_HEADER, "no partition-spec-id", "partition-spec-id", None)
PLANTINGS.header(Rule.MANIFEST_HEADER, "another spec id", "partition-spec-id", "5")
PLANTINGS.header(Rule.MANIFEST_HEADER, "another spec", "partition-spec", "[]")
PLANTINGS.header(Rule.MANIFEST_HEADER, "no schema", "schema", None)
PLANTINGS.header(Rule.MANIFEST_HEADER, "another schema id", "schema-id", "5")
PLANTINGS.header(
    Rule.MANIFEST_HEADER, "another schema", "schema", json.dumps({"type": "struct", "schema-id": 0, "fields": []})
)
PLANTINGS.header(Rule.MANIFEST_HEADER, "a version to come", "format-version", "3")
PLANTINGS.header(Rule.MANIFEST_HEADER, "no content", "content", None)


@PLANTINGS.planted(Rule.MANIFEST_SCHEMA, also=(Rule.MANIFEST_FILE_CHANGED,))
def unknown_field_id(table: Planted) -> None:
    def change(_entries: Any, _header: Any, schema: dict[str, Any]) -> None:
        data_file = next(one for one in schema["fields"] if one["name"] == "data_file")["type"]
        next(one for one in data_file["fields"] if one["name"] == "sort_order_id")["field-id"] = 999

    table.manifest(table.file()[1], change)


EXISTING, ADDED, DELETED = 0, 1, 2
PLANTINGS.entry(
    Rule.MANIFEST_STATUS,
    "unknown",
    EXISTING,
    status=7,
    also=(Rule.LIST_FILE_COUNTS, Rule.LIST_ROW_COUNTS, Rule.SUMMARY_TOTAL, Rule.SNAPSHOT_CONTINUITY),
)
PLANTINGS.entry(Rule.MANIFEST_SNAPSHOT_ID, "missing", EXISTING, snapshot_id=None, also=(Rule.MANIFEST_SEQUENCE_NUMBER,))
PLANTINGS.entry(
    Rule.MANIFEST_SEQUENCE_NUMBER,
    "existing without",
    EXISTING,
    sequence_number=None,
    also=(Rule.MANIFEST_FILE_CHANGED,),
)
PLANTINGS.entry(Rule.MANIFEST_SEQUENCE_NUMBER, "existing without file number", EXISTING, file_sequence_number=None)
PLANTINGS.entry(
    Rule.MANIFEST_SEQUENCE_NUMBER, "existing with another", EXISTING, file_sequence_number=lambda number: number + 1
)
PLANTINGS.entry(
    Rule.MANIFEST_SEQUENCE_NUMBER,
    "data after file",
    EXISTING,
    sequence_number=lambda number: number + 1,
    also=(Rule.MANIFEST_FILE_CHANGED,),
)
PLANTINGS.entry(Rule.MANIFEST_SEQUENCE_NUMBER, "added with another", ADDED, file_sequence_number=1)
PLANTINGS.entry(
    Rule.MANIFEST_CONTENT,
    "deletes among data",
    EXISTING,
    file__content=1,
    also=(Rule.MANIFEST_FILE_CHANGED, Rule.SUMMARY_TOTAL),
)
PLANTINGS.entry(
    Rule.MANIFEST_FILE_CHANGED,
    "another count",
    EXISTING,
    file__record_count=lambda rows: rows + 1,
    also=(Rule.LIST_ROW_COUNTS, Rule.SUMMARY_TOTAL, Rule.MANIFEST_METRICS),
)
PLANTINGS.entry(
    Rule.MANIFEST_PARTITION,
    "no such bucket",
    EXISTING,
    file__partition={"id_bucket": 7},
    also=(Rule.LIST_SUMMARIES, Rule.MANIFEST_FILE_CHANGED),
)
PLANTINGS.entry(
    Rule.MANIFEST_FIELD,
    "no size",
    EXISTING,
    file__file_size_in_bytes=0,
    also=(Rule.MANIFEST_FILE_CHANGED, Rule.SUMMARY_TOTAL),
)
PLANTINGS.entry(Rule.MANIFEST_FIRST_ROW_ID, "another", EXISTING, version=3, file__first_row_id=lambda first: first + 1)
PLANTINGS.described(Rule.MANIFEST_SORT_ORDER, "unknown", sort_order_id=77)
PLANTINGS.described(
    Rule.MANIFEST_METRICS,
    "too many nulls",
    null_value_counts=lambda pairs: [*pairs[1:], {"key": ID, "value": 99}],
    also=(Rule.DATA_NULL_COUNTS,),
)
PLANTINGS.described(
    Rule.MANIFEST_METRICS, "a bound of two bytes", lower_bounds=lambda pairs: [*pairs[1:], {"key": ID, "value": b"ab"}]
)
PLANTINGS.described(
    Rule.MANIFEST_METRICS,
    "a NaN bound",
    lower_bounds=lambda pairs: (
        [one for one in pairs if one["key"] != FLOAT] + [{"key": FLOAT, "value": struct.pack("<d", float("nan"))}]
    ),
)
PLANTINGS.described(
    Rule.MANIFEST_METRICS,
    "too few values",
    value_counts=lambda pairs: [*pairs[1:], {"key": ID, "value": 1}],
    also=(Rule.DATA_VALUE_COUNTS,),
)
PLANTINGS.described(Rule.MANIFEST_EQUALITY_IDS, "on data", equality_ids=[1])
PLANTINGS.described(Rule.MANIFEST_EQUALITY_IDS, "missing", content=2, equality_ids=None)
PLANTINGS.described(
    Rule.MANIFEST_DELETION_VECTOR,
    "no place",
    content=1,
    version=3,
    referenced_data_file=None,
    also=(Rule.DELETE_VECTOR,),
)
PLANTINGS.described(
    Rule.MANIFEST_DELETION_VECTOR,
    "of another file",
    content=1,
    version=3,
    referenced_data_file="file:/nowhere",
    also=(Rule.DELETE_VECTOR,),
)

# Data files

PLANTINGS.described(
    Rule.DATA_SIZE,
    "one byte more",
    file_size_in_bytes=lambda size: size + 1,
    also=(Rule.SUMMARY_CHANGE, Rule.SUMMARY_TOTAL, Rule.PARTITION_STATISTICS_FILE),
)
PLANTINGS.described(
    Rule.DATA_RECORD_COUNT,
    "one more",
    record_count=lambda rows: rows + 1,
    also=(
        Rule.LIST_ROW_COUNTS,
        Rule.SUMMARY_CHANGE,
        Rule.SUMMARY_TOTAL,
        Rule.MANIFEST_METRICS,
        Rule.PARTITION_STATISTICS_FILE,
    ),
)
PLANTINGS.described(Rule.DATA_FORMAT, "unknown", file_format="CSV", also=(Rule.FILE_UNREADABLE,))
PLANTINGS.described(
    Rule.DATA_NULL_COUNTS, "one more", null_value_counts=lambda pairs: [*pairs[1:], {"key": ID, "value": 1}]
)
PLANTINGS.described(
    Rule.DATA_NAN_COUNTS,
    "one more",
    nan_value_counts=lambda pairs: [{"key": FLOAT, "value": one["value"] + 1} for one in pairs],
)
PLANTINGS.described(
    Rule.DATA_BOUNDS,
    "a lower bound above",
    lower_bounds=lambda pairs: [one for one in pairs if one["key"] != NAME] + [{"key": NAME, "value": b"name-zz"}],
    upper_bounds=lambda pairs: [one for one in pairs if one["key"] != NAME],
)
PLANTINGS.described(
    Rule.DATA_BOUNDS,
    "an upper bound below",
    upper_bounds=lambda pairs: [one for one in pairs if one["key"] != ID] + [{"key": ID, "value": bytes(8)}],
    lower_bounds=lambda pairs: [one for one in pairs if one["key"] != ID],
)
PLANTINGS.described(Rule.DATA_COLUMN_SIZES, "larger than the file", column_sizes=[{"key": ID, "value": 10**9}])
PLANTINGS.described(Rule.DATA_SPLIT_OFFSETS, "no row group there", split_offsets=[5])
PLANTINGS.described(Rule.DATA_SPLIT_OFFSETS, "out of order", split_offsets=[9, 4])


def no_ids(table: pa.Table) -> pa.Table:
    return table.cast(pa.schema([one.remove_metadata() for one in table.schema]))


def rewritten(change: Callable[[pa.Table], pa.Table]) -> Callable[[Planted], None]:
    return lambda table: table.rows(table.file()[0], change)


def as_text(table: pa.Table) -> pa.Table:
    place = table.schema.names.index("f")
    changed = table.set_column(place, "f", table["f"].cast(pa.string()))
    return with_ids(changed, table)


def other_rows(table: pa.Table) -> pa.Table:
    """Move every row to other ids, of any bucket, within the bounds."""
    low, high = pc.min(table["id"]).as_py(), pc.max(table["id"]).as_py()
    values = np.linspace(low, high, len(table)).astype(np.int64) + np.arange(len(table)) % 2
    values = np.clip(values, low, high)
    return with_ids(table.set_column(0, "id", pa.array(values)), table)


def without_id(table: pa.Table) -> pa.Table:
    return table.select(["name", "f"])


# A rewritten file has a different size than in summaries and partition statistics.
DELETE_SIZES = (Rule.SUMMARY_CHANGE, Rule.SUMMARY_TOTAL)
SIZES = (*DELETE_SIZES, Rule.PARTITION_STATISTICS_FILE)
PLANTINGS += [
    Planting(
        Rule.DATA_FIELD_IDS,
        "none",
        rewritten(no_ids),
        also=frozenset({Rule.DATA_REQUIRED, Rule.DATA_PARTITION, *SIZES}),
    ),
    Planting(Rule.DATA_TYPES, "text for a number", rewritten(as_text), also=frozenset(SIZES)),
    Planting(Rule.DATA_REQUIRED, "a lost column", rewritten(without_id), also=frozenset({Rule.DATA_PARTITION, *SIZES})),
    Planting(
        Rule.DATA_SORTED,
        "backwards",
        rewritten(lambda rows: rows.take(list(range(len(rows)))[::-1])),
        also=frozenset(SIZES),
    ),
    Planting(Rule.DATA_PARTITION, "rows of other buckets", rewritten(other_rows), also=frozenset(SIZES)),
]


@PLANTINGS.planted(Rule.DATA_VALUE_COUNTS, also=(Rule.MANIFEST_METRICS,))
def value_count_of_a_column(table: Planted) -> None:
    table.described(table.file()[0], lambda file: metric(file["value_counts"], FLOAT, 1))


@PLANTINGS.planted(Rule.DATA_ROW_IDS, version=3, also=SIZES)
def row_id_twice(table: Planted) -> None:
    def change(rows: pa.Table) -> pa.Table:
        identity = pa.field("_row_id", pa.int64(), metadata={b"PARQUET:field_id": b"2147483540"})
        return rows.append_column(identity, pa.array([0] * len(rows), pa.int64()))

    table.rows(table.file()[0], change)


@PLANTINGS.planted(Rule.DATA_STATISTICS, also=SIZES)
def row_group_statistics_exclude_a_value(table: Planted) -> None:
    path = table.file()[0]
    source = pq.read_table(io.BytesIO(table.read(path)), partitioning=None)
    target = io.BytesIO()
    pq.write_table(source, target, store_schema=False, use_dictionary=False, compression="none")
    content = bytearray(target.getvalue())
    high, low = (struct.pack("<q", bound(source["id"]).as_py()) for bound in (pc.max, pc.min))
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[footer:] = content[footer:].replace(high, low)
    table.replace(path, bytes(content))

    def measured(file: dict[str, Any]) -> None:
        file.update(file_size_in_bytes=len(content), split_offsets=[4], column_sizes=None)

    table.described(path, measured)


# Deletes


def delete_rows(change: Callable[[pa.Table], pa.Table], content: int = 1) -> Callable[[Planted], None]:
    return lambda table: table.rows(table.file(content)[0], change)


def beyond(table: pa.Table) -> pa.Table:
    return with_ids(table.set_column(1, "pos", pa.array([10**6] * len(table), pa.int64())), table)


def two_rows(first: int, second: int) -> Callable[[Planted], None]:
    """Write two deleted positions, and keep every stated count in step."""

    def plant(table: Planted) -> None:
        path = table.file(1)[0]

        def change(rows: pa.Table) -> pa.Table:
            target = rows["file_path"][0].as_py()
            changed = pa.table({"file_path": [target] * 2, "pos": pa.array([first, second], pa.int64())})
            return with_ids(changed, rows)

        table.rows(path, change)

    return plant


@PLANTINGS.planted(Rule.DELETE_REFERENCE)
def delete_of_another_file(table: Planted) -> None:
    table.described(table.file(1)[0], lambda file: file.update(referenced_data_file="file:/nowhere"))


PLANTINGS += [
    Planting(Rule.DELETE_COLUMNS, "no positions", delete_rows(no_ids), also=frozenset(DELETE_SIZES)),
    Planting(
        Rule.DELETE_COLUMNS,
        "no delete column",
        delete_rows(no_ids, content=2),
        also=frozenset({Rule.DATA_FIELD_IDS, *DELETE_SIZES}),
    ),
    Planting(Rule.DELETE_POSITION, "beyond the end", delete_rows(beyond), also=frozenset(DELETE_SIZES)),
    Planting(Rule.DELETE_SORTED, "backwards", two_rows(1, 0), also=frozenset({Rule.DATA_RECORD_COUNT, *DELETE_SIZES})),
]


@PLANTINGS.planted(Rule.DELETE_VECTOR, version=3, also=DELETE_SIZES)
def vector_of_another_length(table: Planted) -> None:
    table.described(table.file(1)[0], lambda file: file.update(content_size_in_bytes=file["content_size_in_bytes"] - 1))


@pytest.mark.parametrize("planting", PLANTINGS, ids=lambda one: f"{one.rule}: {one.name}".replace(" ", "-"))
def test_a_planted_breach_is_found_under_its_rule(java_table, planting):
    table = java_table(planting.version)
    planting.change(table)
    report = table.audit()
    assert {breach.rule for breach in report.breaches} == {planting.rule, *planting.also}
    assert all(breach.file and breach.message for breach in report.breaches)


def test_every_rule_has_a_planted_breach():
    groups = {"manifest", "delete-file", "data-file"}
    assert {planting.rule for planting in PLANTINGS} == {one for one in Rule if one.partition(".")[0] in groups}
