from __future__ import annotations

import datetime as dt
import decimal
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, MonthTransform, TruncateTransform
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    UUIDType,
)

from floe_core.errors import CapabilityError, ConfigurationError, InvalidScanError, MissingDependencyError
from floe_iceberg import IcebergTableManager, maintenance
from floe_iceberg.models import CompactionStrategy, Engine
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import files_of, local_path

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("amount", pa.float64())])


def rows(start, stop):
    numbers = list(range(start, stop))
    return pa.table(
        {
            "id": numbers,
            "city": [(None, "Oslo", "Rome")[n % 3] for n in numbers],
            "amount": [float("nan") if n % 5 == 0 else n / 2 for n in numbers],
        },
        schema=SCHEMA,
    )


@pytest.fixture
def events(new_table):
    table = new_table(NAME, SCHEMA)
    for start in range(0, 60, 10):
        table.append(rows(start, start + 10))
    yield table
    assert_audited(table.refresh())


def content(context, **version):
    return sorted(map(str, scan.scan(context, NAME, **version).to_pylist()))


@pytest.mark.req("TM-12")
def test_two_hundred_small_files_become_one_and_expiry_frees_the_disk(context, new_table):
    table = new_table(NAME, SCHEMA)
    manager = IcebergTableManager(context.catalog)
    for number in range(200):
        manager.append(NAME, rows(number * 3, number * 3 + 3))
        if number == 49:
            manager.create_tag(NAME, "early")
    before = content(context)
    result = maintenance.compact_table(context, NAME)
    assert (result.files_before, result.files_after, result.rewritten_files, result.added_files) == (200, 1, 200, 1)
    assert result.bytes_after < result.bytes_before
    assert content(context) == before
    on_disk = len(files_of(table, ".parquet"))
    expired = maintenance.expire_snapshots(context, NAME, older_than_days=0, retain_last=1)
    assert expired == 199
    assert on_disk - len(files_of(table, ".parquet")) == expired.deleted_data_files == 150
    assert content(context) == before
    assert scan.scan(context, NAME, ref="early").num_rows == 150


def test_the_snapshot_says_replace_and_keeps_the_totals(context, events):
    result = maintenance.compact_table(context, NAME)
    current = refs.current_snapshot(context, NAME)
    assert current.snapshot_id == result.snapshot_id
    assert current.operation == "replace"
    assert current.summary["total-records"] == "60"
    assert current.summary["total-data-files"] == "1"


def test_compacting_again_does_nothing(context, events):
    maintenance.compact_table(context, NAME)
    result = maintenance.compact_table(context, NAME)
    assert (result.rewritten_files, result.snapshot_id) == (0, None)
    assert len(refs.list_snapshots(context, NAME)) == 7


def test_an_empty_table_has_nothing_to_compact(context, new_table):
    new_table(NAME, SCHEMA)
    result = maintenance.compact_table(context, NAME)
    assert (result.files_before, result.files_after, result.snapshot_id) == (0, 0, None)


def test_a_large_file_is_split_to_the_target_size(context, new_table):
    table = new_table(NAME, SCHEMA)
    table.append(rows(0, 50_000))
    before = content(context)
    size = files_of(table, ".parquet")[0].stat().st_size
    result = maintenance.compact_table(context, NAME, target_file_size=size // 4)
    assert result.added_files == 3
    assert content(context) == before


def test_only_files_that_may_match_the_filter_are_rewritten(context, events):
    result = maintenance.compact_table(context, NAME, row_filter="id < 25")
    assert (result.rewritten_files, result.added_files, result.files_after) == (3, 1, 4)
    assert scan.scan(context, NAME).num_rows == 60


def test_a_filter_on_an_unknown_column_is_refused(context, events):
    with pytest.raises(InvalidScanError):
        maintenance.compact_table(context, NAME, row_filter="nothing = 1")


def test_sorting_orders_the_rows_of_each_file(context, events):
    result = maintenance.compact_table(
        context, NAME, CompactionStrategy.SORT, sort_order=["city desc nulls first", "id desc"]
    )
    assert result.added_files == 1
    (task,) = list(context.load(NAME).scan().plan_files())
    stored = pq.read_table(local_path(task.file.file_path))
    cities = stored.column("city").to_pylist()
    assert cities == [None] * 20 + ["Rome"] * 20 + ["Oslo"] * 20
    assert stored.column("id").to_pylist()[:3] == [57, 54, 51]


def test_sorting_takes_the_tables_own_order(context, new_table):
    order = SortOrder(
        SortField(
            source_id=1, transform=IdentityTransform(), direction=SortDirection.DESC, null_order=NullOrder.NULLS_LAST
        )
    )
    columns = [NestedField(1, "id", LongType()), NestedField(2, "city", StringType())]
    table = new_table(NAME, Schema(*columns, NestedField(3, "amount", DoubleType())), sort_order=order)
    for start in range(0, 30, 10):
        table.append(rows(start, start + 10))
    maintenance.compact_table(context, NAME, CompactionStrategy.SORT)
    assert scan.scan(context, NAME).column("id").to_pylist() == list(reversed(range(30)))


def test_sorting_by_nothing_is_refused(context, events):
    with pytest.raises(ConfigurationError, match="has no sort order"):
        maintenance.compact_table(context, NAME, CompactionStrategy.SORT)


def test_z_order_needs_columns_and_spark(context, events):
    with pytest.raises(ConfigurationError, match="columns to cluster by"):
        maintenance.compact_table(context, NAME, CompactionStrategy.ZORDER)
    with pytest.raises(CapabilityError, match="needs the Spark engine"):
        maintenance.compact_table(
            context, NAME, CompactionStrategy.ZORDER, sort_order=["id", "city"], engine=Engine.ARROW
        )
    with pytest.raises(MissingDependencyError):
        maintenance.compact_table(context, NAME, CompactionStrategy.ZORDER, sort_order=["id", "city"])


PARTITIONED = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "day", DateType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "city", StringType()),
    NestedField(5, "price", DecimalType(9, 2)),
    NestedField(6, "ratio", DoubleType()),
    NestedField(7, "key", UUIDType()),
    NestedField(8, "blob", BinaryType()),
)
SPECS = {
    "identity-string": (4, IdentityTransform()),
    "identity-date": (2, IdentityTransform()),
    "identity-decimal": (5, IdentityTransform()),
    "identity-timestamp": (3, IdentityTransform()),
    "identity-uuid": (7, IdentityTransform()),
    "identity-double": (6, IdentityTransform()),
    "day": (3, DayTransform()),
    "month": (3, MonthTransform()),
    "bucket": (1, BucketTransform(3)),
    "truncate": (4, TruncateTransform(2)),
}


@pytest.mark.parametrize(("source", "transform"), SPECS.values(), ids=SPECS)
def test_files_stay_within_their_partition(context, new_table, source, transform):
    spec = PartitionSpec(PartitionField(source_id=source, field_id=1000, transform=transform, name="part"))
    table = new_table(NAME, PARTITIONED, partition_spec=spec)
    keys = [uuid.UUID(int=n).bytes for n in range(2)]
    for number in range(3):
        table.append(
            pa.table(
                {
                    "id": [number, number + 100, number + 200],
                    "day": [dt.date(2024, 1, 1), dt.date(9999, 12, 31), None],
                    "at": [dt.datetime(2024, 1, 1, 5), dt.datetime(2024, 3, 1, 5), None],  # noqa: DTZ001 - no zone
                    "city": ["Oslo/ß", "Rome", None],
                    "price": [decimal.Decimal("1.50"), decimal.Decimal("-2.25"), None],
                    "ratio": [0.5, 1.5, None],
                    "key": pa.array([*keys, None], pa.binary(16)),
                    "blob": [b"a", b"\x00", None],
                }
            ).cast(scan.plain_arrow_schema(table.schema()).set(6, pa.field("key", pa.binary(16))))
        )
    before = content(context)
    files = len(list(table.scan().plan_files()))
    partitions = {str(task.file.partition) for task in table.scan().plan_files()}
    result = maintenance.compact_table(context, NAME)
    table.refresh()
    assert result.files_after == len(partitions) < files
    assert {str(task.file.partition) for task in table.scan().plan_files()} == partitions
    assert content(context) == before


def test_files_of_an_old_partitioning_move_to_the_new_one(context, events):
    with events.update_spec() as update:
        update.add_identity("city")
    before = content(context)
    maintenance.compact_table(context, NAME)
    tasks = list(events.refresh().scan().plan_files())
    assert {task.file.spec_id for task in tasks} == {events.spec().spec_id}
    assert len(tasks) == 3
    assert content(context) == before


def test_evolved_columns_survive(context, events):
    with events.update_schema() as update:
        update.rename_column("city", "town")
        update.add_column("note", StringType())
        update.delete_column("amount")
    events.append(pa.table({"id": [99], "town": ["Bern"], "note": ["new"]}))
    before = content(context)
    maintenance.compact_table(context, NAME)
    assert content(context) == before


def test_manifests_are_put_together(context, events):
    before = content(context)
    result = maintenance.rewrite_manifests(context, NAME)
    assert (result.manifests_before, result.manifests_after) == (6, 1)
    assert refs.current_snapshot(context, NAME).operation == "replace"
    assert content(context) == before
    again = maintenance.rewrite_manifests(context, NAME)
    assert (again.manifests_after, again.snapshot_id) == (1, None)


def test_compaction_is_one_span_with_its_figures(context, events, spans):
    maintenance.compact_table(context, NAME)
    (span,) = [span for span in spans() if span.name == "iceberg.compact_table"]
    assert span.attributes["iceberg.rewritten_files"] == 6
    assert span.attributes["iceberg.engine"] == "arrow"
