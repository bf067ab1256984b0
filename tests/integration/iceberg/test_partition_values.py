"""Partition values of all types: rows are in the right partition, and partitions are found when replaced."""

from __future__ import annotations

import datetime as dt
import math
import struct
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform

from floe_core.errors import CapabilityError, ConfigurationError, InvalidDataError
from floe_iceberg import CommitStrategy
from floe_iceberg.formats.partitioning import partition_codes, record_values
from floe_iceberg.table.schema import iceberg_schema
from floe_iceberg.table.specs import partition_spec

VALUES = {
    "uuid": pa.array([uuid.UUID(int=1).bytes, uuid.UUID(int=2**127).bytes, None], pa.uuid()),
    "binary": pa.array([b"", b"\xff" * 300, None], pa.binary()),
    "string": pa.array(["", "a/b c=%", None]),
    "long_text": pa.array(["x" * 5000, "x" * 5000 + "y", None]),
    "boolean": pa.array([True, False, None]),
    "float": pa.array([0.0, -0.0, math.nan, None, math.inf, -1.5], pa.float32()),
    "double": pa.array([0.0, -0.0, math.nan, None, -math.inf, 1e300, 0.1]),
    "decimal": pa.array([Decimal("-1.50"), Decimal("9" * 36 + ".99"), None], pa.decimal128(38, 2)),
    "date": pa.array([-719_893, 3_000_000, -1, 0, None], pa.date32()),
    "time": pa.array([0, 86_399_999_999, None], pa.time64("us")),
    "timestamp": pa.array([-(2**62), 2**62, -1, 0, None], pa.timestamp("us")),
    "timestamptz": pa.array([-(2**62), 2**62, -1, 0, None], pa.timestamp("us", tz="UTC")),
    "long": pa.array([-(2**63), 2**63 - 1, None]),
}


def numbered(values: pa.Array, start: int = 0) -> pa.Table:
    return pa.table({"p": values, "n": pa.array(range(start, start + len(values)), pa.int64())})


def numbers(manager) -> list[int]:
    return sorted(manager.scan("bronze.t", columns=["n"])["n"].to_pylist())


@pytest.mark.parametrize("kind", VALUES)
def test_a_partition_of_any_type_is_found_again(manager, kind):
    values = VALUES[kind]
    count = len(values)
    manager.create_table("bronze.t", numbered(values).schema, partition_spec=["p"])
    manager.append("bronze.t", numbered(values))
    manager.append("bronze.t", numbered(values, count), commit_strategy=CommitStrategy.MERGE)
    assert numbers(manager) == list(range(2 * count))
    files = [task.file for task in manager.load_table("bronze.t").scan().plan_files()]
    assert len(files) == 2 * count
    for file in files:
        assert file.record_count == 1
    manager.compact_table("bronze.t")
    assert len(list(manager.load_table("bronze.t").scan().plan_files())) == count
    for position in range(count):
        manager.overwrite_partitions("bronze.t", numbered(values.slice(position, 1), 100 + position))
        assert numbers(manager) == sorted([
            *range(100, 101 + position),
            *(n for n in range(2 * count) if n % count > position),
        ])  # fmt: skip
    manager.append("bronze.t", numbered(values, 200).to_reader(max_chunksize=1))
    manager.overwrite_partitions("bronze.t", numbered(values, 300).to_reader(max_chunksize=1))
    assert numbers(manager) == list(range(300, 300 + count))


BEFORE = [-1, -86_400_000_000, -86_400_000_001, -3_600_000_000, -62_135_596_800_000_001, 253_402_300_800_000_000]


@pytest.mark.parametrize(
    ("kind", "transform"),
    [
        (kind, transform)
        for kind in ("date", "timestamp", "timestamptz")
        for transform in ("year", "month", "day", "hour")
        if (kind, transform) != ("date", "hour")
    ],
)
def test_moments_before_1970_and_beyond_pythons_years_have_their_partitions(transform, kind):
    moments = [*BEFORE, 0, 1, None]
    types = {"date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", tz="UTC")}
    values = [None if micros is None else micros // 86_400_000_000 for micros in moments] if kind == "date" else moments
    table = pa.table({"t": pa.array(values, types[kind])})
    schema = iceberg_schema(table.schema)
    codes, records = partition_codes(table, partition_spec([f"{transform}(t)"], schema), schema)
    unit = {"year": "Y", "month": "M", "day": "D", "hour": "h"}[transform]
    found = [record_values(records[code])[0] for code in codes]
    expected = [
        None if micros is None else int(np.datetime64(micros, "us").astype(f"M8[{unit}]").astype(int))
        for micros in moments
    ]
    assert found == expected


def test_rows_of_any_year_are_partitioned_and_read_back(manager):
    rows = pa.table(
        {
            "d": pa.array([-1_000_000, 5_000_000, -1], pa.date32()),
            "t": pa.array([-(2**61), 2**61, -1], pa.timestamp("us")),
            "n": [1, 2, 3],
        }
    )
    manager.create_table("bronze.t", rows.schema, partition_spec=["year(d)", "hour(t)", "bucket(4, d)"])
    manager.append("bronze.t", rows)
    manager.upsert("bronze.t", rows, keys=["d", "t"])
    manager.compact_table("bronze.t", "sort", sort_order=["month(t) desc"])
    manager.delete("bronze.t", "n = 2")
    found = manager.scan("bronze.t").sort_by("n")
    assert found["t"].cast(pa.int64()).to_pylist() == [-(2**61), -1]
    assert found["d"].cast(pa.int32()).to_pylist() == [-1_000_000, -1]


def test_hours_that_no_integer_counts_are_refused_before_anything_is_written(manager, tmp_path):
    rows = pa.table({"t": pa.array([2**63 - 1], pa.timestamp("us"))})
    manager.create_table("bronze.t", rows.schema, partition_spec=["hour(t)"])
    with pytest.raises(InvalidDataError, match="'t'"):
        manager.append("bronze.t", rows)
    assert not list(tmp_path.glob("warehouse/**/*.parquet"))


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ("truncate(10, p)", pa.array([0, -(2**31)], pa.int32())),
        ("truncate(3, p)", pa.array([0, -(2**63)], pa.int64())),
        ("truncate(10, p)", pa.array([Decimal("-9999999.99")], pa.decimal128(9, 2))),
        ("truncate(50, p)", pa.array([None, Decimal("-9999999.99")], pa.decimal128(9, 2))),
        ("truncate(7, p)", pa.array([Decimal("-" + "9" * 38)], pa.decimal128(38, 0))),
    ],
)
def test_numbers_that_truncate_below_their_type_are_refused_before_anything_is_written(manager, tmp_path, term, values):
    manager.create_table("bronze.t", numbered(values).schema, partition_spec=[term])
    with pytest.raises(InvalidDataError, match="'p'"):
        manager.append("bronze.t", numbered(values))
    assert not list(tmp_path.glob("warehouse/**/*.parquet"))


@pytest.mark.parametrize(
    ("term", "values"),
    [
        ("truncate(10, p)", pa.array([-(2**31) + 8, 2**31 - 1, -1, None], pa.int32())),
        ("truncate(10, p)", pa.array([-(2**63) + 8, 2**63 - 1, -1, None], pa.int64())),
        ("truncate(50, p)", pa.array([Decimal("-9999999.50"), Decimal("9999999.99"), None], pa.decimal128(9, 2))),
        ("truncate(10, p)", pa.array([Decimal("9" * 38), Decimal("-" + "9" * 37 + "0")], pa.decimal128(38, 0))),
        ("truncate(1, p)", pa.array([b"", b"\xff" * 300, b"\x00\x01", None], pa.binary())),
        ("truncate(1, p)", pa.array([b"", b"\xff" * 300, b"\x00\x01", None], pa.large_binary())),
        ("truncate(2, p)", pa.array(["", "x" * 300, "\N{FISH}" * 3, None])),
    ],
)
def test_truncated_values_at_the_limits_of_their_type_have_their_partitions(manager, term, values):
    manager.create_table("bronze.t", numbered(values).schema, partition_spec=[term], sort_order=[f"{term} desc"])
    manager.append("bronze.t", numbered(values))
    manager.overwrite_partitions("bronze.t", numbered(values, 100))
    manager.compact_table("bronze.t", "sort", sort_order=[f"{term} desc"])
    assert numbers(manager) == list(range(100, 100 + len(values)))


def test_a_partition_of_fixed_values_is_refused_because_java_reads_no_such_manifest(manager):
    schema = pa.schema([("p", pa.binary(4))])
    with pytest.raises(ConfigurationError, match="'p'"):
        manager.create_table("bronze.t", schema, partition_spec=["p"])
    manager.create_table("bronze.t", schema, partition_spec=["bucket(4, p)"], sort_order=["p"])
    manager.append("bronze.t", pa.table({"p": pa.array([b"abcd", None], pa.binary(4))}))


def test_nothing_is_written_to_a_table_that_another_engine_partitioned_by_fixed_values(manager, tmp_path):
    schema = iceberg_schema(pa.schema([("p", pa.binary(4))]))
    manager.create_table("bronze.t", schema)
    with manager.load_table("bronze.t").update_spec() as update:
        update.add_identity("p")
    with pytest.raises(CapabilityError, match="'p'"):
        manager.append("bronze.t", pa.table({"p": pa.array([b"abcd"], pa.binary(4))}))
    assert not list(tmp_path.glob("warehouse/**/*.parquet"))


def test_more_combinations_than_a_long_counts_are_told_apart(manager):
    count = 3000
    columns = {f"c{number}": pa.array(np.roll(np.arange(count), number * 7)) for number in range(6)}
    table = pa.table(columns)
    schema = iceberg_schema(table.schema)
    spec = partition_spec([f"truncate(1, c{number})" for number in range(6)], schema)
    codes, records = partition_codes(table, spec, schema)
    found = [record_values(records[code]) for code in codes]
    assert found == list(zip(*(column.to_pylist() for column in columns.values()), strict=True))


@pytest.mark.parametrize("term", ["bucket(0, id)", "truncate(0, id)", "bucket(-1, id)", "truncate(-2, id)"])
def test_transforms_of_no_width_are_refused(manager, term):
    schema = pa.schema([("id", pa.int64())])
    with pytest.raises(ConfigurationError):
        manager.create_table("bronze.t", schema, partition_spec=[term])
    with pytest.raises(ConfigurationError):
        manager.create_table("bronze.t", schema, sort_order=[term])


@pytest.mark.parametrize(
    "fields",
    [
        [("x", BucketTransform(0))],
        [("x", TruncateTransform(0))],
        [("x", IdentityTransform()), ("x", BucketTransform(4))],
        [("ts_day", DayTransform()), ("ts_day", BucketTransform(4))],
        [("other", BucketTransform(4))],
    ],
)
def test_specs_that_no_engine_can_use_are_refused(manager, fields):
    schema = iceberg_schema(pa.schema([("ts", pa.timestamp("us")), ("other", pa.int64())]))
    spec = PartitionSpec(
        *(
            PartitionField(source_id=1 if isinstance(t, DayTransform) else 2, field_id=1000 + i, transform=t, name=name)
            for i, (name, t) in enumerate(fields)
        )
    )
    with pytest.raises(ConfigurationError):
        manager.create_table("bronze.t", schema, partition_spec=spec)
    assert not manager.table_exists("bronze.t")


def test_two_terms_of_one_name_are_refused(manager):
    with pytest.raises(ConfigurationError, match="id"):
        manager.create_table("bronze.t", pa.schema([("id", pa.int64())]), partition_spec=["id", "identity(id)"])


@pytest.mark.parametrize("rewrite", ["scan", "append", "delete", "upsert", "overwrite_partitions", "compact", "sort"])
def test_a_partition_column_may_be_dropped_once_no_new_file_uses_it(manager, rewrite):
    rows = pa.table({"p": ["a", "b", "a"], "day": [dt.date(2024, 1, 1)] * 3, "n": [1, 2, 3]})
    manager.create_table("bronze.t", rows.schema, partition_spec=["p", "day(day)"])
    manager.append("bronze.t", rows)
    table = manager.load_table("bronze.t")
    with table.update_spec() as update:
        update.remove_field("p")
        update.remove_field("day_day")
        update.add_identity("n")
    with table.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("p")
        update.delete_column("day")
    left = [1, 2, 3]
    match rewrite:
        case "append":
            manager.append("bronze.t", pa.table({"n": [4]}), commit_strategy=CommitStrategy.MERGE)
            left.append(4)
        case "delete":
            manager.delete("bronze.t", "n = 3")
            left.remove(3)
        case "upsert":
            manager.upsert("bronze.t", pa.table({"n": [3, 4]}), keys=["n"])
            manager.overwrite("bronze.t", pa.table({"n": [4]}), overwrite_filter="n > 2")
            left = [1, 2, 4]
        case "overwrite_partitions":
            manager.overwrite_partitions("bronze.t", pa.table({"n": [3]}))
        case "compact":
            manager.compact_table("bronze.t")
        case "sort":
            manager.compact_table("bronze.t", "sort", sort_order=["n desc"])
    assert numbers(manager) == left
    assert pc.sum(manager.scan("bronze.t", row_filter="n > 1")["n"]).as_py() == sum(n for n in left if n > 1)


def test_pyiceberg_still_reads_doubles_as_floats():
    """When this fails, PyIceberg has caught up: ``avro_doubles`` can go."""
    assert new_decoder(struct.pack("<d", 0.1)).read_double() != 0.1


@pytest.mark.live
@pytest.mark.spark
def test_spark_is_no_way_out_for_a_number_that_truncates_below_its_type(spark_session, spark_tables, manager):
    spark_tables.catalog.create_namespace_if_not_exists("bronze")
    for name, kind in (("i", "int"), ("d", "decimal(9,2)")):
        spark_session.sql(
            f"CREATE TABLE floe.bronze.{name} (p {kind}) USING iceberg PARTITIONED BY (truncate(10, p))"
        ).collect()
    spark_session.sql("INSERT INTO floe.bronze.i VALUES (-2147483648)").collect()
    assert spark_session.sql("SELECT * FROM floe.bronze.i").count() == 1
    assert spark_session.sql("SELECT * FROM floe.bronze.i WHERE p < 0").count() == 0
    with pytest.raises(Exception, match=r"too large|too many|precision|requires"):
        spark_session.sql("INSERT INTO floe.bronze.d VALUES (-9999999.99)").collect()
    for number, values in enumerate([pa.array([-(2**31)], pa.int32()), pa.array([Decimal("-9999999.99")])]):
        manager.create_table(f"bronze.t{number}", numbered(values).schema, partition_spec=["truncate(10, p)"])
        with pytest.raises(InvalidDataError) as refused:
            manager.append(f"bronze.t{number}", numbered(values))
        assert "engine='spark' does not help" in refused.value.hint
