"""Incremental inputs: the rows added since the asset last succeeded."""

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame

from floe_core.errors import ConcurrencyConflictError, ConfigurationError, ScanError
from floe_iceberg.commit.read_marks import last_read

pytestmark = pytest.mark.spark

SCHEMA = pa.schema([("id", pa.int64())])
NEW = {"raw": dg.AssetIn(["bronze", "raw"], metadata={"incremental": True})}


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def raw(tables):
    tables.create_namespace("bronze")
    tables.create_table("bronze.raw", SCHEMA)
    tables.append("bronze.raw", rows(1, 2))
    return "bronze.raw"


@pytest.fixture
def make(materialize):
    """Materialise an asset that reads a table which nobody here makes."""

    def run(asset, **options):
        return materialize(dg.AssetSpec(["bronze", "raw"]), asset, selection=[asset], **options)

    return run


def copying(kind, *, mode="append", fail=False):
    @dg.asset(key=["silver", "copy"], ins=NEW, metadata={"write_mode": mode, "upsert_keys": ["id"]})
    def copy(raw: kind) -> kind:
        if fail:
            raise ZeroDivisionError
        return raw

    return copy


def ids(tables, table="silver.copy"):
    return sorted(tables.scan(table)["id"].to_pylist())


@pytest.mark.parametrize("kind", [DataFrame, pa.Table, pa.RecordBatchReader, pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_every_row_is_read_once(make, tables, raw, kind, mode):
    copy = copying(kind, mode=mode)
    assert make(copy).success
    assert ids(tables) == [1, 2]
    assert make(copy).success
    assert ids(tables) == [1, 2]
    tables.append(raw, rows(3))
    tables.append(raw, rows(4))
    assert not make(copying(kind, mode=mode, fail=True), raise_on_error=False).success
    assert make(copy).success
    assert ids(tables) == [1, 2, 3, 4]


def test_a_rollback_takes_the_note_back_with_the_rows(make, tables, raw):
    copy = copying(pa.Table)
    make(copy)
    first = tables.get_current_snapshot("silver.copy").snapshot_id
    tables.append(raw, rows(3))
    make(copy)
    tables.rollback("silver.copy", first)
    assert ids(tables) == [1, 2]
    make(copy)
    assert ids(tables) == [1, 2, 3]


def test_the_note_outlives_compaction_and_expiry(make, tables, raw):
    copy = copying(pa.Table)
    for number in (3, 4):
        make(copy)
        tables.append(raw, rows(number))
    noted = last_read(tables.load_table("silver.copy"), raw)
    tables.compact_table("silver.copy")
    tables.expire_snapshots("silver.copy", older_than_days=0, retain_last=1)
    assert len(tables.list_snapshots("silver.copy")) == 1
    assert last_read(tables.load_table("silver.copy"), raw) == noted
    make(copy)
    assert ids(tables) == [1, 2, 3, 4]


@pytest.mark.parametrize("kind", [DataFrame, pa.Table])
def test_rows_that_were_changed_in_between_are_not_left_out_silently(make, tables, raw, kind):
    copy = copying(kind)
    make(copy)
    tables.delete(raw, "id = 1")
    with pytest.raises(ScanError, match="changed or deleted in between"):
        make(copy)
    assert ids(tables) == [1, 2]


def test_a_table_whose_rows_nobody_accounts_for_is_refused(make, tables, raw):
    tables.create_namespace("silver")
    tables.create_table("silver.copy", SCHEMA)
    tables.append("silver.copy", rows(1))
    copy = copying(pa.Table)
    with pytest.raises(ConfigurationError, match="have no record of what was read") as caught:
        make(copy)
    assert "--full-refresh" in caught.value.hint
    assert make(copy, tags={"floe/full_refresh": "true"}).success
    assert ids(tables) == [1, 2]
    tables.append(raw, rows(3))
    make(copy)
    assert ids(tables) == [1, 2, 3]


def test_increments_never_replace_the_rows_before_them(make, tables, raw):
    copy = copying(pa.Table, mode="overwrite")
    make(copy)
    tables.append(raw, rows(3))
    with pytest.raises(ConfigurationError, match="its write mode replaces all existing rows"):
        make(copy)
    assert ids(tables) == [1, 2]


def test_an_asset_with_partitions_has_no_increments(make, tables, raw):
    days = dg.DailyPartitionsDefinition("2026-01-01", end_date="2026-02-01")

    @dg.asset(key=["silver", "days"], ins=NEW, partitions_def=days)
    def copy(raw: pa.Table) -> pa.Table:
        return raw

    with pytest.raises(ConfigurationError, match="not supported for partitioned assets"):
        make(copy, partition_key="2026-01-01")


@pytest.mark.parametrize("kind", [DataFrame, pa.Table])
@pytest.mark.parametrize("first", [True, False], ids=["first run", "later run"])
def test_of_two_runs_that_read_the_same_rows_one_lands(make, tables, raw, kind, first):
    if not first:
        make(copying(pa.Table))
        tables.append(raw, rows(3))

    @dg.asset(key=["silver", "copy"], ins=NEW, metadata={"write_mode": "append"})
    def overtaken(raw: kind) -> kind:
        make(copying(pa.Table))
        return raw

    expected = [1, 2] if first else [1, 2, 3]
    with pytest.raises(ConcurrencyConflictError, match="Another run has already read"):
        make(overtaken)
    assert ids(tables) == expected
    assert make(copying(kind)).success
    assert ids(tables) == expected


@pytest.mark.parametrize("kind", [DataFrame, pa.Table])
def test_a_run_that_was_overtaken_puts_no_older_rows_over_newer_ones(make, tables, kind):
    schema = pa.schema([("id", pa.int64()), ("state", pa.string())])
    tables.create_namespace("bronze")
    tables.create_table("bronze.raw", schema)
    tables.append("bronze.raw", pa.table({"id": [1], "state": ["old"]}, schema=schema))
    by_id = {"write_mode": "upsert", "upsert_keys": ["id"]}

    @dg.asset(key=["silver", "copy"], ins=NEW, metadata=by_id)
    def newest(raw: pa.Table) -> pa.Table:
        return raw.filter(pc.field("state") == "new")

    @dg.asset(key=["silver", "copy"], ins=NEW, metadata=by_id)
    def overtaken(raw: kind) -> kind:
        tables.append("bronze.raw", pa.table({"id": [1], "state": ["new"]}, schema=schema))
        make(newest)
        return raw

    with pytest.raises(ConcurrencyConflictError, match="Another run has already read"):
        make(overtaken)
    assert tables.scan("silver.copy").to_pylist() == [{"id": 1, "state": "new"}]
