"""Nested rows: nulls stay null in all reads and writes, also after nested fields are added, renamed or moved."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import ArrowProjectionVisitor, ArrowScan
from pyiceberg.types import IntegerType, LongType, StringType

from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_testing.audit import assert_audited

POINT = pa.struct([("x", pa.int32()), ("y", pa.string())])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("ls", pa.list_(POINT)),
        pa.field("ms", pa.map_(pa.string(), POINT)),
        pa.field("ll", pa.list_(pa.list_(POINT))),
        pa.field("sl", pa.struct([("p", pa.list_(POINT)), ("q", pa.map_(pa.string(), pa.list_(POINT)))])),
        pa.field("ml", pa.map_(pa.string(), pa.list_(POINT))),
        pa.field("plain", pa.list_(pa.int32())),
        pa.field("mp", pa.map_(pa.string(), pa.int32())),
    ]
)
P, Q = {"x": 1, "y": "a"}, {"x": None, "y": None}


def some_rows(start: int, count: int) -> list[dict]:
    kinds = [
        dict.fromkeys(SCHEMA.names[1:]),
        {"ls": [], "ms": [], "ll": [], "sl": {"p": [], "q": []}, "ml": [], "plain": [], "mp": []},
        {
            "ls": [P, None, Q],
            "ms": [("k", P), ("n", None)],
            "ll": [None, [], [P, None]],
            "sl": {"p": None, "q": None},
            "ml": [("a", None), ("b", []), ("c", [P, None])],
            "plain": [1, None],
            "mp": [("k", None)],
        },
        {
            "ls": [None],
            "ms": [("n", Q)],
            "ll": [[Q]],
            "sl": {"p": [None, P], "q": [("k", None), ("l", [None, P])]},
            "ml": [("c", [])],
            "plain": [None],
            "mp": [("k", 1)],
        },
    ]
    return [{"id": start + i, **kinds[i % len(kinds)]} for i in range(count)]


def written(manager: IcebergTableManager, count: int = 8, files: int = 2) -> list[dict]:
    manager.create_table("bronze.t", SCHEMA)
    rows = []
    for number in range(files):
        part = some_rows(number * count, count)
        manager.append("bronze.t", pa.Table.from_pylist(part, SCHEMA))
        rows += part
    return rows


def found(manager: IcebergTableManager, **options) -> list[dict]:
    return manager.scan("bronze.t", **options).sort_by("id").to_pylist()


def test_a_scan_tells_null_from_empty(manager):
    rows = written(manager)
    assert found(manager) == rows
    assert found(manager, columns=["id", "ms"]) == [{"id": row["id"], "ms": row["ms"]} for row in rows]
    assert sorted(manager.scan_batches("bronze.t").read_all().to_pylist(), key=lambda row: row["id"]) == rows
    # A filter slices batches, so their offsets do not start at 0.
    assert found(manager, row_filter="id > 5") == [row for row in rows if row["id"] > 5]


def test_compaction_keeps_null_and_empty_apart(manager):
    rows = written(manager)
    manager.compact_table("bronze.t")
    assert len(list(manager.load_table("bronze.t").scan().plan_files())) == 1
    assert found(manager) == rows


def test_sorting_keeps_null_and_empty_apart(manager):
    rows = written(manager)
    manager.compact_table("bronze.t", "sort", sort_order=["id desc"])
    assert found(manager) == rows


def test_a_delete_keeps_null_and_empty_apart(manager):
    rows = written(manager)
    manager.delete("bronze.t", "id = 3")
    assert found(manager) == [row for row in rows if row["id"] != 3]


def test_an_upsert_keeps_null_and_empty_apart(manager):
    rows = written(manager)
    manager.upsert("bronze.t", pa.table({"id": [3, 100], "plain": pa.array([[9], None], pa.list_(pa.int32()))}), ["id"])
    rows[3]["plain"] = [9]
    assert found(manager) == [*rows, {"id": 100, **dict.fromkeys(SCHEMA.names[1:])}]


def evolve(manager: IcebergTableManager) -> None:
    """Add, rename, widen and move fields inside lists and maps."""
    with manager.load_table("bronze.t").update_schema() as update:
        update.add_column(("ls", "element", "z"), StringType())
        update.rename_column(("ms", "value", "x"), "renamed")
        update.update_column(("ms", "value", "x"), LongType())
        update.move_first(("ll", "element", "element", "y"))
        update.delete_column(("sl", "p", "element", "x"))
        update.delete_column(("sl", "p", "element", "y"))
        update.add_column(("sl", "p", "element", "w"), IntegerType())
        update.update_column(("plain", "element"), LongType())
        update.update_column(("mp", "value"), LongType())


def evolved(row: dict) -> dict:
    def each(values, change):
        return None if values is None else [None if value is None else change(value) for value in values]

    def items(values, change):
        return None if values is None else [(key, None if value is None else change(value)) for key, value in values]

    return {
        **row,
        "ls": each(row["ls"], lambda p: {**p, "z": None}),
        "ms": items(row["ms"], lambda p: {"renamed": p["x"], "y": p["y"]}),
        "ll": each(row["ll"], lambda inner: each(inner, lambda p: {"y": p["y"], "x": p["x"]})),
        "sl": row["sl"] and {**row["sl"], "p": each(row["sl"]["p"], lambda _: {"w": None})},
    }


@pytest.mark.parametrize("rewrite", ["none", "compact", "delete", "upsert"])
def test_fields_inside_may_be_added_renamed_moved_and_widened(manager, rewrite):
    rows = [evolved(row) for row in written(manager)]
    evolve(manager)
    match rewrite:
        case "compact":
            manager.compact_table("bronze.t")
        case "delete":
            manager.delete("bronze.t", "id = 8")
            del rows[8]
        case "upsert":
            nothing = pa.array([None], pa.map_(pa.string(), pa.int64()))
            manager.upsert("bronze.t", pa.table({"id": [8], "mp": nothing}), ["id"])
            rows[8]["mp"] = None
    assert found(manager) == rows


def test_sliced_and_chunked_rows_are_written_as_they_are(manager):
    manager.create_table("bronze.t", SCHEMA)
    whole = pa.Table.from_pylist(some_rows(0, 40), SCHEMA)
    chunked = pa.concat_tables([whole.slice(0, 7), whole.slice(7, 1), whole.slice(8, 13), whole.slice(21)])
    manager.append("bronze.t", chunked.slice(3, 30))
    assert found(manager) == some_rows(0, 40)[3:33]


@pytest.mark.parametrize("rewrite", ["compact", "sort", "delete", "upsert"])
def test_columns_that_some_files_lack_are_written_with_every_field_id(manager, rewrite):
    rows = [{"id": 0}, {"id": 1}, *some_rows(2, 6)]
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": [0, 1]}))
    manager.append("bronze.t", pa.Table.from_pylist(rows[2:], SCHEMA))
    rows = [{**dict.fromkeys(SCHEMA.names), **row} for row in rows]
    match rewrite:
        case "compact":
            manager.compact_table("bronze.t")
        case "sort":
            manager.compact_table("bronze.t", "sort", sort_order=["id"])
        case "delete":
            manager.delete("bronze.t", "id in (0, 2)")
            rows = [row for row in rows if row["id"] not in {0, 2}]
        case "upsert":
            manager.upsert("bronze.t", pa.table({"id": [1, 99], "plain": pa.array([[1], None])}), ["id"])
            rows[1]["plain"] = [1]
            rows.append({**dict.fromkeys(SCHEMA.names), "id": 99})
    table = manager.load_table("bronze.t")
    for task in table.scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        assert field_ids(pq.read_schema(path)) == table.schema().field_ids
    assert found(manager) == rows


def test_files_that_lack_columns_are_compacted_piece_by_piece(tmp_path):
    """Each piece is a chunk of its own, some with text that is large because a file lacks it, some without."""
    catalog = SqlCatalog("test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    manager = IcebergTableManager(catalog, config=IcebergTableManagerConfig(stream_chunk_bytes=1024**2))
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", pa.schema([("id", pa.int64())]))
    manager.append("bronze.t", pa.table({"id": range(100_000)}))
    manager.append("bronze.t", pa.table({"id": range(100_000, 200_000), "s": ["some text"] * 100_000}))
    manager.append("bronze.t", pa.table({"id": range(200_000, 300_000)}))
    manager.compact_table("bronze.t")
    rows = manager.scan("bronze.t")
    assert (rows.num_rows, rows["s"].null_count) == (300_000, 200_000)
    assert_audited(manager, "bronze.t")
    catalog.close()


def field_ids(schema: pa.Schema) -> set[int]:
    ids: set[int] = set()

    def visit(field: pa.Field) -> None:
        ids.add(int((field.metadata or {})[b"PARQUET:field_id"]))
        if isinstance(field.type, pa.MapType):
            visit(field.type.key_field)
            visit(field.type.item_field)
        elif isinstance(field.type, pa.StructType):
            for child in field.type:
                visit(child)
        elif isinstance(field.type, pa.ListType | pa.LargeListType):
            visit(field.type.value_field)

    for field in schema:
        visit(field)
    return ids


def test_pyiceberg_still_reads_null_lists_of_structs_as_empty(manager):
    """When this fails, PyIceberg has caught up: ``row_scan.Projection`` can go."""
    written(manager, files=1)
    table = manager.load_table("bronze.t")
    tasks = list(table.scan().plan_files())
    stock = ArrowScan(table.metadata, table.io, table.schema(), table.scan().row_filter).to_table(tasks)
    assert stock["ls"].to_pylist()[0] == []
    assert ArrowProjectionVisitor.map is not None
