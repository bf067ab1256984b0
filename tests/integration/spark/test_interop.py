"""All types that both engines support, written by one engine and read by the other."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from floe_core.dataplane import ReadRequest, WriteKind
from floe_core.errors import CapabilityError

pytestmark = [pytest.mark.spark, pytest.mark.req("FR-018", "FR-014")]

IDENTIFIER = UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
POINT = StructType(NestedField(91, "x", IntegerType()), NestedField(92, "label", StringType()))

# Column: its Iceberg type, and values that survive a round trip.
TYPES = {
    "boolean": (BooleanType(), [True, False]),
    "int": (IntegerType(), [2**31 - 1, -(2**31)]),
    "long": (LongType(), [2**63 - 1, -(2**63)]),
    "float": (FloatType(), [1.5, math.inf]),
    "double": (DoubleType(), [-0.1, -math.inf]),
    "decimal": (DecimalType(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.0000000001")]),
    "small_decimal": (DecimalType(9, 2), [Decimal("1234567.89"), Decimal("0.00")]),
    "date": (DateType(), [date(1, 1, 1), date(9999, 12, 31)]),
    "timestamp": (TimestampType(), [datetime(1969, 7, 20, 20, 17, 40, 123456), datetime(2024, 3, 31, 2, 30)]),  # noqa: DTZ001
    "timestamptz": (
        TimestamptzType(),
        [datetime(1969, 7, 20, 20, 17, 40, 123456, tzinfo=UTC), datetime(2024, 3, 31, 2, 30, tzinfo=UTC)],
    ),
    "string": (StringType(), ["", "größe 日本 🧊"]),
    "binary": (BinaryType(), [b"", b"\x00\xff"]),
    "fixed": (FixedType(4), [b"\x00\x01\x02\x03", b"abcd"]),
    "uuid": (UUIDType(), [IDENTIFIER, UUID(int=0)]),
    "list": (ListType(80, LongType(), element_required=False), [[1, None, 3], []]),
    "list_of_uuids": (ListType(81, UUIDType(), element_required=False), [[IDENTIFIER, None], []]),
    "struct": (POINT, [{"x": 1, "label": "a"}, {"x": None, "label": None}]),
    "map": (MapType(82, StringType(), 83, DoubleType(), value_required=False), [[("a", 1.0), ("b", None)], []]),
    "map_of_structs": (MapType(84, LongType(), 85, POINT), [[(7, {"x": 2, "label": "b"})], []]),
    "list_of_lists": (
        ListType(86, ListType(87, TimestamptzType()), element_required=False),
        [[[datetime(2024, 1, 1, tzinfo=UTC)], None], [[]]],
    ),
}
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    *(NestedField(number, name, kind) for number, (name, (kind, _)) in enumerate(TYPES.items(), start=2)),
)


# PyIceberg 0.12 returns an empty map for a null map of structs.
NOT_NULL = {"map_of_structs": []}


def expected():
    """Two rows of values and one of nulls."""
    values = {name: [*found, NOT_NULL.get(name)] for name, (_, found) in TYPES.items()}
    return [{"n": row, **{name: column[row] for name, column in values.items()}} for row in range(3)]


def arrow_rows(table):
    """The rows as PyIceberg's own schema has them."""
    rows = [{**row, "uuid": row["uuid"] and row["uuid"].bytes} for row in expected()]
    for row in rows:
        row["list_of_uuids"] = row["list_of_uuids"] and [item and item.bytes for item in row["list_of_uuids"]]
    schema = table.schema().as_arrow()
    return pa.table([arrow_array([row[field.name] for row in rows], field.type) for field in schema], schema=schema)


def arrow_array(values, kind):
    """Arrow builds extension values from their storage only."""
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))
    if pa.types.is_large_list(kind) and isinstance(kind.value_type, pa.BaseExtensionType):
        stored = pa.array(values, pa.large_list(kind.value_type.storage_type))
        items = pa.ExtensionArray.from_storage(kind.value_type, stored.values)
        return pa.LargeListArray.from_arrays(stored.offsets, items, type=kind, mask=stored.is_null())
    return pa.array(values, kind)


def plain(value):
    """Both engines' Python values in one form."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


def in_order(table):
    return [plain(row) for row in table.sort_by("n").to_pylist()]


@pytest.fixture
def both(spark_tables):
    spark_tables.create("ns.types", SCHEMA)
    return spark_tables


def read_by_spark(tables):
    return in_order(tables.plane.read_arrow(_request()))


def _request():
    return ReadRequest("ns.types")


def test_pyiceberg_writes_and_spark_reads(both):
    table = both.catalog.load_table("ns.types")
    table.append(arrow_rows(table))
    assert read_by_spark(both) == [plain(row) for row in expected()]


@pytest.mark.parametrize("shape", ["table", "reader"])
def test_spark_writes_arrow_and_pyiceberg_reads(both, shape):
    data = arrow_rows(both.catalog.load_table("ns.types"))
    both.write(WriteKind.APPEND, "ns.types", data if shape == "table" else data.to_reader(max_chunksize=1))
    assert in_order(both.catalog.load_table("ns.types").scan().to_arrow()) == [plain(row) for row in expected()]
    assert read_by_spark(both) == [plain(row) for row in expected()]


def test_spark_writes_its_own_frames_and_pyiceberg_reads(both):
    table = both.catalog.load_table("ns.types")
    table.append(arrow_rows(table))
    frame = both.plane.frame(ReadRequest("ns.types"))
    both.create("ns.copy", SCHEMA)
    both.write(WriteKind.APPEND, "ns.copy", frame)
    both.write(WriteKind.UPSERT, "ns.copy", frame, keys=("n",))
    assert in_order(both.catalog.load_table("ns.copy").scan().to_arrow()) == [plain(row) for row in expected()]


def test_not_a_number_stays_one_and_null_stays_null(spark_tables):
    spark_tables.create("ns.t", pa.schema([("n", pa.int64()), ("x", pa.float64())]))
    spark_tables.write(WriteKind.APPEND, "ns.t", pa.table({"n": [1, 2, 3], "x": [math.nan, None, 0.0]}))
    spark_tables.catalog.load_table("ns.t").append(pa.table({"n": [4], "x": [math.nan]}))
    by_spark = spark_tables.read("ns.t", row_filter="isnan(x)")
    assert [row["n"] for row in by_spark] == [1, 4]
    by_pyiceberg = spark_tables.catalog.load_table("ns.t").scan(row_filter="x is nan").to_arrow()
    assert sorted(by_pyiceberg.column("n").to_pylist()) == [1, 4]
    assert [row["n"] for row in spark_tables.read("ns.t", row_filter="x IS NULL")] == [2]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None], pa.string_view()),
        pa.array(["a", None], pa.large_string()),
        pa.array(["a", None]).dictionary_encode(),
    ],
    ids=["string_view", "large_string", "dictionary"],
)
def test_other_forms_of_text_are_text(spark_tables, column):
    spark_tables.create("ns.t", pa.schema([("s", pa.string())]))
    spark_tables.write(WriteKind.APPEND, "ns.t", pa.table({"s": column}))
    assert spark_tables.read("ns.t") == [{"s": "a"}, {"s": None}]


def test_unsigned_and_view_types_inside_lists_are_converted(spark_tables):
    spark_tables.create("ns.t", pa.schema([("l", pa.list_(pa.string())), ("u", pa.int64())]))
    column = pa.array([["a", None], None, []], pa.large_list(pa.string_view()))
    spark_tables.write(WriteKind.APPEND, "ns.t", pa.table({"l": column, "u": pa.array([1, 2, 3], pa.uint64())}))
    assert spark_tables.plane.read_arrow(_named("ns.t")).sort_by("u").column("l").to_pylist() == [["a", None], None, []]


def _named(table):
    return ReadRequest(table)


def test_a_time_of_day_is_refused_by_name(spark_tables):
    spark_tables.create("ns.t", Schema(NestedField(1, "at", TimeType())))
    with pytest.raises(CapabilityError, match="time"):
        spark_tables.read("ns.t")
    with pytest.raises(CapabilityError, match="time"):
        spark_tables.write(WriteKind.APPEND, "ns.t", pa.table({"at": pa.array([1], pa.time64("us"))}))


def test_a_stream_becomes_one_snapshot(spark_tables):
    spark_tables.create("ns.t", pa.schema([("n", pa.int64())]))
    batches = (pa.record_batch({"n": pa.array(range(start, start + 1000))}) for start in range(0, 20_000, 1000))
    reader = pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), batches)
    spark_tables.write(WriteKind.APPEND, "ns.t", reader)
    table = spark_tables.catalog.load_table("ns.t")
    assert len(table.snapshots()) == 1
    assert sorted(table.scan().to_arrow().column("n").to_pylist()) == list(range(20_000))


def test_a_large_table_goes_through_files(spark_tables, monkeypatch):
    monkeypatch.setattr("floe_spark.plane.arrow_input._STAGED_BYTES", 1)
    spark_tables.create("ns.t", pa.schema([("n", pa.int64()), ("at", pa.timestamp("us"))]))
    data = pa.table({"n": [1, 2], "at": pa.array([0, None], pa.timestamp("us"))})
    spark_tables.write(WriteKind.APPEND, "ns.t", data)
    assert spark_tables.catalog.load_table("ns.t").scan().to_arrow().sort_by("n").to_pylist() == data.to_pylist()
