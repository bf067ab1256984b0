"""Data files without field ids: read by the table's name mapping, or rejected before a write."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from floe_core.errors import CapabilityError
from floe_testing.embedded_tables import files_of

NAME = "bronze.t"
MAPPING = "schema.name-mapping.default"
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("r", pa.struct([("a", pa.int32()), ("b", pa.string())])),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())]))),
    ]
)


def row(number, name="old"):
    return {
        "id": number,
        "name": name,
        "r": {"a": number, "b": None} if number % 2 else None,
        "l": [number, None] if number % 3 else None,
        "m": [("k", {"x": number})] if number % 3 else None,
    }


def table_of(rows, schema=SCHEMA):
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.fixture
def mapped(manager, tmp_path):
    """A table of two taken files with rows 1 to 6, and one of floe's own with row 7."""
    manager.create_table(NAME, SCHEMA)
    paths = []
    for number in (1, 4):
        paths.append(f"{tmp_path}/taken-{number}.parquet")
        # Column order and dictionaries depend on the writer.
        data = table_of([row(n) for n in range(number, number + 3)]).select(["m", "name", "l", "id", "r"])
        data = data.set_column(1, "name", data["name"].dictionary_encode())
        pq.write_table(data, paths[-1])
    manager.load_table(NAME).add_files([f"file://{path}" for path in paths])
    manager.append(NAME, table_of([row(7)]))
    return manager


def scanned(manager, **options):
    return sorted(manager.scan(NAME, **options).to_pylist(), key=lambda found: found["id"])


OLD = [row(n) for n in range(1, 8)]
OPERATIONS = {
    "upsert": (
        lambda m: m.upsert(NAME, table_of([row(2, "new"), row(9, "new")]), keys=["id"]),
        [row(1), row(2, "new"), *OLD[2:], row(9, "new")],
    ),
    "delete": (lambda m: m.delete(NAME, "id in (1, 7) or r.a = 3"), [row(2), *OLD[3:6]]),
    "overwrite": (
        lambda m: m.overwrite(NAME, table_of([row(8)]), overwrite_filter="name = 'old' and id < 6"),
        [*OLD[5:], row(8)],
    ),
    "compact": (lambda m: m.compact_table(NAME), OLD),
    "sort": (lambda m: m.compact_table(NAME, "sort", sort_order=["id desc"]), OLD),
}


def test_columns_are_found_by_the_name_mapping(mapped):
    assert scanned(mapped) == OLD
    assert scanned(mapped, row_filter="r.a > 2 and name = 'old'", columns=["id", "l"]) == [
        {"id": n, "l": row(n)["l"]} for n in (3, 5, 7)
    ]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_operations_take_files_without_ids(mapped, operation):
    act, expected = OPERATIONS[operation]
    act(mapped)
    assert scanned(mapped) == expected


def test_columns_follow_their_names_through_changes_of_the_schema(mapped):
    with mapped.load_table(NAME).update_schema(allow_incompatible_changes=True) as update:
        update.rename_column("name", "title")
        update.delete_column("l")
        update.delete_column("r.b")
        update.add_column("note", StringType())
    expected = [
        {"id": n, "title": "old", "r": {"a": n} if n % 2 else None, "m": row(n)["m"], "note": None} for n in range(1, 8)
    ]
    assert scanned(mapped) == expected
    mapped.compact_table(NAME)
    assert scanned(mapped) == expected


def test_a_column_that_is_not_in_the_mapping_is_passed_over(mapped, tmp_path):
    # Types that Iceberg does not have, and a name that the mapping contains in another struct.
    extra = pa.table({"id": [20], "a": [1], "wait": pa.array([3], pa.duration("s")), "u": pa.array([1], pa.uint64())})
    path = tmp_path / "extra.parquet"
    pq.write_table(extra, path)
    take_in(mapped, path, rows=1)
    assert scanned(mapped, row_filter="id = 20") == [{"id": 20, "name": None, "r": None, "l": None, "m": None}]
    mapped.delete(NAME, "id = 1")
    assert [found["id"] for found in scanned(mapped)] == [*range(2, 8), 20]


def take_in(manager, path, *, rows):
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=path.stat().st_size,
    )
    file.spec_id = 0
    with manager.load_table(NAME).transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def test_elements_of_lists_are_found_whatever_the_writer_called_them(mapped, tmp_path):
    path = tmp_path / "items.parquet"
    pq.write_table(table_of([row(20)]), path, use_compliant_nested_type=False)
    take_in(mapped, path, rows=1)
    assert scanned(mapped, row_filter="id = 20") == [row(20)]


def test_in_a_file_with_ids_a_column_without_one_is_passed_over(mapped, tmp_path):
    # The mapping only applies to files without any ids.
    fields = [
        pa.field("number", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("name", pa.string()),
    ]
    path = tmp_path / "part.parquet"
    pq.write_table(pa.table([[20], ["not a column"]], schema=pa.schema(fields)), path)
    take_in(mapped, path, rows=1)
    assert scanned(mapped, row_filter="id = 20", columns=["id", "name"]) == [{"id": 20, "name": None}]
    # The auditor correctly reports such a file.
    mapped.drop_table(NAME)


REFUSED = {
    "scan": lambda m: m.scan(NAME),
    "filtered scan": lambda m: m.scan(NAME, row_filter="id = 2"),
    "batches": lambda m: m.scan_batches(NAME).read_all(),
    **{name: act for name, (act, _) in OPERATIONS.items()},
}


@pytest.mark.parametrize("operation", REFUSED)
def test_without_a_mapping_nothing_is_read_or_written(mapped, operation):
    table = mapped.load_table(NAME)
    mapped.catalog.commit_table(table, (), (RemovePropertiesUpdate(removals=[MAPPING]),))
    before, files = mapped.load_table(NAME), data_files(mapped)
    with pytest.raises(CapabilityError, match=r"taken-\d\.parquet' has no field ids") as refused:
        REFUSED[operation](mapped)
    assert MAPPING in refused.value.hint
    assert "engine='spark'" in refused.value.hint
    assert mapped.load_table(NAME).metadata.current_snapshot_id == before.metadata.current_snapshot_id
    assert data_files(mapped) == files
    # The auditor correctly reports such files.
    mapped.drop_table(NAME)


def data_files(manager):
    return files_of(manager.load_table(NAME), ".parquet")


@pytest.mark.parametrize(
    "mapping", ["{", json.dumps([{"field-id": 1, "names": ["id"]}, {"field-id": 4, "names": ["l"]}])]
)
def test_a_mapping_that_does_not_tell_is_refused(mapped, mapping):
    table = mapped.load_table(NAME)
    mapped.catalog.commit_table(table, (), (SetPropertiesUpdate(updates={MAPPING: mapping}),))
    with pytest.raises(CapabilityError, match=r"taken-\d\.parquet'"):
        mapped.scan(NAME)
    mapped.catalog.commit_table(table, (), (SetPropertiesUpdate(updates={MAPPING: SCHEMA_MAPPING}),))


SCHEMA_MAPPING = json.dumps([{"field-id": 1, "names": ["id"]}])
