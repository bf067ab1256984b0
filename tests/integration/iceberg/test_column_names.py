"""Column names that Avro schemas, SQL parsers or dotted paths cannot represent directly."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe_iceberg import CommitStrategy

NAMES = ["a b", "a-b", "a.b", "1a", "größe", "a/b", "x=1", "日"]


def rows_of(name: str, keys: list[str], values: list[int]) -> pa.Table:
    inner = pa.struct([(name, pa.int32()), ("l", pa.list_(pa.struct([(name, pa.string())])))])
    return pa.table(
        {
            name: keys,
            "v": values,
            "s": pa.array([{name: v, "l": [{name: "x"}, None]} for v in values], inner),
        }
    )


def found(manager) -> list[dict]:
    return sorted(manager.scan("bronze.t").to_pylist(), key=repr)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("transform", ["{}", "truncate(1, {})", "bucket(4, {})"])
def test_any_name_may_be_a_partition_sort_and_upsert_key(manager, name, transform):
    first = rows_of(name, ["a", "b", "c"], [1, 2, 3])
    manager.create_table("bronze.t", first.schema, partition_spec=[transform.format(name)], sort_order=[f"{name} desc"])
    manager.append("bronze.t", first)
    manager.append("bronze.t", first.slice(0, 0))
    manager.append("bronze.t", rows_of(name, ["d"], [4]), commit_strategy=CommitStrategy.MERGE)
    manager.upsert("bronze.t", rows_of(name, ["c", "e"], [30, 5]), keys=[name])
    expected = rows_of(name, ["a", "b", "c", "d", "e"], [1, 2, 30, 4, 5]).to_pylist()
    assert found(manager) == expected
    manager.overwrite_partitions("bronze.t", rows_of(name, ["a"], [100]))
    manager.upsert("bronze.t", rows_of(name, ["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5]), keys=[name])
    manager.delete("bronze.t", "v = 1")
    manager.compact_table("bronze.t")
    manager.compact_table("bronze.t", "sort", sort_order=[f"{name} asc nulls last"])
    assert found(manager) == rows_of(name, ["b", "c", "d", "e"], [2, 3, 4, 5]).to_pylist()
    assert manager.scan("bronze.t", columns=[name]).num_rows == 4


def test_names_in_files_are_those_that_avro_and_java_take(manager):
    rows = pa.table({name: [1] for name in NAMES})
    manager.create_table("bronze.t", rows.schema)
    manager.append("bronze.t", rows)
    (task,) = manager.load_table("bronze.t").scan().plan_files()
    names = pq.read_schema(task.file.file_path.removeprefix("file://")).names
    assert names == ["a_x20b", "a_x2Db", "a_x2Eb", "_1a", "größe", "a_x2Fb", "x_x3D1", "日"]


def test_a_name_with_a_dot_is_told_from_a_field_of_a_struct(manager):
    rows = pa.table(
        {"a.b": [1, 2], "a": pa.array([{"c": 5, "d.e": 6}, None], pa.struct([("c", pa.int64()), ("d.e", pa.int64())]))}
    )
    manager.create_table("bronze.t", rows.schema, partition_spec=["a.b", "a.c", "bucket(2, a.d.e)"])
    manager.append("bronze.t", rows)
    manager.upsert("bronze.t", rows.slice(0, 1), keys=["a.b", "a.d.e"])
    assert found(manager) == sorted(rows.to_pylist(), key=repr)
