"""Data files follow the table's properties: codec, sort order, location."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe_core.errors import CapabilityError, ConfigurationError


def data_files(manager):
    return [task.file for task in manager.load_table("bronze.t").scan().plan_files()]


def stored(file) -> pa.Table:
    return pq.ParquetFile(file.file_path.removeprefix("file://")).read()


@pytest.mark.parametrize(
    ("codec", "level", "found"),
    [
        ("UNCOMPRESSED", None, "UNCOMPRESSED"),
        ("uncompressed", "3", "UNCOMPRESSED"),
        ("Snappy", "3", "SNAPPY"),
        ("GZIP", "5", "GZIP"),
        ("gzip", "BEST_COMPRESSION", "GZIP"),
        ("lz4", "1", "LZ4"),
        ("LZ4_RAW", None, "LZ4"),
        ("brotli", "4", "BROTLI"),
        ("ZSTD", "19", "ZSTD"),
    ],
)
def test_codecs_are_read_as_java_spells_them(manager, codec, level, found):
    properties = {"write.parquet.compression-codec": codec}
    if level:
        properties["write.parquet.compression-level"] = level
    manager.create_table("bronze.t", pa.schema([("s", pa.string())]), properties=properties)
    manager.append("bronze.t", pa.table({"s": ["a" * 1000] * 100}))
    (file,) = data_files(manager)
    assert pq.read_metadata(file.file_path.removeprefix("file://")).row_group(0).column(0).compression == found
    assert manager.scan("bronze.t").num_rows == 100


@pytest.mark.parametrize(("codec", "level"), [("lzo", None), ("zip", None), ("zstd", "23"), ("gzip", "fast")])
def test_codecs_that_cannot_be_written_are_refused_before_any_file(manager, tmp_path, codec, level):
    properties = {
        "write.parquet.compression-codec": codec,
        **({"write.parquet.compression-level": level} if level else {}),
    }
    manager.create_table("bronze.t", pa.schema([("s", pa.string())]), properties=properties)
    with pytest.raises(ConfigurationError, match=level or codec):
        manager.append("bronze.t", pa.table({"s": ["a"]}))
    assert not list(tmp_path.glob("warehouse/**/data/**/*.parquet"))


@pytest.mark.parametrize("kind", ["avro", "orc"])
def test_other_formats_are_left_to_spark(manager, kind):
    manager.create_table("bronze.t", pa.schema([("s", pa.string())]), properties={"write.format.default": kind})
    with pytest.raises(CapabilityError, match="spark"):
        manager.append("bronze.t", pa.table({"s": ["a"]}))


FLOATS = [1.0, math.nan, None, -0.0, 0.0, -math.inf, math.inf, 2.0, None, math.nan]


@pytest.mark.parametrize("how", ["append", "compact"])
@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("f asc", "n n -inf -0.0 0.0 1.0 2.0 inf nan nan"),
        ("f desc", "nan nan inf 2.0 1.0 0.0 -0.0 -inf n n"),
        ("f asc nulls last", "-inf -0.0 0.0 1.0 2.0 inf nan nan n n"),
        ("f desc nulls first", "n n nan nan inf 2.0 1.0 0.0 -0.0 -inf"),
    ],
)
@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_above_all_and_nulls_lie_where_the_order_says(manager, how, order, expected, kind):
    rows = pa.table({"f": pa.array(FLOATS, kind)})
    if how == "append":
        manager.create_table("bronze.t", rows.schema, sort_order=[order])
        manager.append("bronze.t", rows)
    else:
        manager.create_table("bronze.t", rows.schema)
        manager.append("bronze.t", rows)
        manager.compact_table("bronze.t", "sort", sort_order=[order])
    (file,) = data_files(manager)
    assert ["n" if value is None else str(value) for value in stored(file)["f"].to_pylist()] == expected.split()
    assert file.sort_order_id == (1 if how == "append" else None)


SORTED = {
    "bool": pa.array([True, None, False]),
    "uuid": pa.array([uuid.UUID(int=number).bytes for number in (2**127, 5, 1)], pa.uuid()),
    "fixed": pa.array([b"\xff\x00", b"\x00\xff", b"\x7f\x00"], pa.binary(2)),
    "binary": pa.array([b"\xff", b"", None]),
    "text": pa.array(["é", "z", "🧊"]),
    "decimal": pa.array([Decimal("1.5"), Decimal("-9" + "9" * 36), None], pa.decimal128(38, 1)),
    "date": pa.array([5_000_000, -5_000_000, 0], pa.date32()),
    "time": pa.array([5, 3, 4], pa.time64("us")),
    "timestamptz": pa.array([2**62, -(2**62), None], pa.timestamp("us", tz="UTC")),
}


@pytest.mark.parametrize("kind", SORTED)
def test_a_sort_order_of_any_type_is_kept_and_claimed(manager, kind):
    rows = pa.table({"k": SORTED[kind]})
    manager.create_table("bronze.t", rows.schema, sort_order=["k desc"])
    manager.append("bronze.t", rows)
    (file,) = data_files(manager)
    assert file.sort_order_id == 1
    found, given = comparable(stored(file)["k"]), comparable(rows["k"])
    known = sorted((value for value in given if value is not None), reverse=True)
    assert found == [*known, *[None] * (len(given) - len(known))]


def comparable(values: pa.ChunkedArray) -> list:
    """Python's values, numbers where Python's dates end too soon."""
    if isinstance(values.type, pa.UuidType):
        values = values.cast(values.type.storage_type)
    if pa.types.is_temporal(values.type):
        values = values.cast(pa.int32() if pa.types.is_date(values.type) else pa.int64())
    return values.to_pylist()


def test_rows_are_sorted_by_transforms_too(manager):
    rows = pa.table({"t": pa.array([5 * 86_400_000_000, 1, -1, None], pa.timestamp("us")), "s": ["b", "bz", "ba", "a"]})
    manager.create_table("bronze.t", rows.schema, sort_order=["truncate(1, s)", "day(t) desc nulls first"])
    manager.append("bronze.t", rows)
    (file,) = data_files(manager)
    assert file.sort_order_id == 1
    assert stored(file)["s"].to_pylist() == ["a", "b", "bz", "ba"]


def test_a_stream_claims_no_order(manager):
    rows = pa.table({"k": [3, 1, 2, 0]})
    manager.create_table("bronze.t", rows.schema, sort_order=["k"])
    manager.append("bronze.t", rows.to_reader(max_chunksize=2))
    assert {file.sort_order_id for file in data_files(manager)} == {None}


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("paths", [None, "false"])
def test_files_go_where_the_properties_say(manager, tmp_path, partitioned, paths):
    properties = {
        "write.object-storage.enabled": "true",
        "write.data.path": f"file://{tmp_path}/elsewhere/data",
        "write.metadata.path": f"file://{tmp_path}/elsewhere/meta",
        **({"write.object-storage.partitioned-paths": paths} if paths else {}),
    }
    rows = pa.table({"p": ["a", "b"], "n": [1, 2]})
    manager.create_table("bronze.t", rows.schema, properties=properties, partition_spec=["p"] if partitioned else None)
    manager.append("bronze.t", rows)
    manager.upsert("bronze.t", pa.table({"p": ["c"], "n": [2]}), keys=["n"])
    manager.append("bronze.t", rows.to_reader(max_chunksize=1))
    manager.compact_table("bronze.t")
    manager.delete("bronze.t", "p = 'a'")
    files = data_files(manager)
    assert all(file.file_path.startswith(f"file://{tmp_path}/elsewhere/data/") for file in files)
    assert sorted(manager.scan("bronze.t")["n"].to_pylist()) == [2, 2]
    assert any("p=c" in file.file_path for file in files) == (partitioned and paths is None)
    written = {path.parent for path in Path(tmp_path).glob("**/*.avro")}
    assert written == {tmp_path / "elsewhere" / "meta"}


def test_a_stream_over_more_partitions_than_open_files(manager):
    count = 700
    rows = pa.table({"p": [number % count for number in range(3 * count)], "n": range(3 * count)})
    manager.create_table("bronze.t", rows.schema, partition_spec=["p"])
    manager.append("bronze.t", rows.to_reader(max_chunksize=count))
    files = data_files(manager)
    assert {file.partition[0] for file in files} == set(range(count))
    assert sorted(manager.scan("bronze.t")["n"].to_pylist()) == list(range(3 * count))
    bounds = {struct.unpack("<q", file.lower_bounds[1])[0] == file.partition[0] for file in files}
    assert bounds == {True}
