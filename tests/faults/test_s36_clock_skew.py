"""S36: Iceberg's Java accepts the metadata of writers whose clocks differ by minutes."""

from __future__ import annotations

import datetime as dt
import itertools
import time

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import update as pyiceberg_update

from floe_core.errors import ClockSkewError
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig, WriteMode
from floe_iceberg.catalog import clocks
from floe_iceberg.models import SchemaChange, SchemaChangeKind
from floe_iceberg.write import engine
from floe_testing.embedded_tables import local_path

SCHEMA = pa.schema([("id", pa.int64())])
TWO_MINUTES = 120


def rows(*ids):
    return pa.table({"id": list(ids)}, SCHEMA)


def new_name(manager):
    return f"n{len(manager.load_table('bronze.t').metadata.metadata_log)}"


def evolve(manager):
    change = SchemaChange(kind=SchemaChangeKind.ADD, column=new_name(manager), type="long")
    manager.evolve_schema("bronze.t", [change])


def set_property(manager):
    with manager.load_table("bronze.t").transaction() as change:
        change.set_properties({"owner": new_name(manager)})


def publish(manager):
    name = new_name(manager)
    manager.create_branch("bronze.t", name)
    manager.append("bronze.t", rows(8), branch=name)
    manager.publish_branch("bronze.t", name)


def roll_back(manager):
    manager.append("bronze.t", rows(9))
    manager.rollback("bronze.t", manager.load_table("bronze.t").current_snapshot().parent_snapshot_id)


OPERATIONS = {
    "append": lambda m: m.append("bronze.t", rows(1)),
    "append of a new column": lambda m: m.append("bronze.t", pa.table({"id": [2], new_name(m): [1]})),
    "merge append": lambda m: m.append("bronze.t", rows(3), commit_strategy="merge"),
    "upsert": lambda m: m.upsert("bronze.t", rows(1, 4), keys=["id"]),
    "delete": lambda m: m.delete("bronze.t", "id = 4"),
    "overwrite": lambda m: m.overwrite("bronze.t", rows(5, 6)),
    "schema": evolve,
    "property": set_property,
    "tag": lambda m: m.create_tag("bronze.t", new_name(m)),
    "publish": publish,
    "rollback": roll_back,
    "compact": lambda m: m.compact_table("bronze.t"),
    "rewrite manifests": lambda m: m.rewrite_manifests("bronze.t"),
    "expire": lambda m: m.expire_snapshots("bronze.t", older_than=dt.datetime.now(dt.UTC), retain_last=2),
}


@pytest.fixture
def set_clock(monkeypatch):
    """Move this process's clock by seconds, for floe and for PyIceberg."""
    real = time.time

    def move(seconds):
        class Moved(dt.datetime):
            @classmethod
            def now(cls, tz=None):
                return dt.datetime.fromtimestamp(real() + seconds, tz)

        monkeypatch.setattr(clocks.time, "time", lambda: real() + seconds)
        monkeypatch.setattr(pyiceberg_update, "datetime", Moved)

    yield move
    monkeypatch.undo()


@pytest.fixture
def stock_catalog(tmp_path):
    """PyIceberg's own SQL catalog."""
    catalog = SqlCatalog("stock", uri=f"sqlite:///{tmp_path}/stock.db", warehouse=f"file://{tmp_path}/stock")
    catalog.create_namespace("bronze")
    yield catalog
    catalog.close()


def disorder(metadata):
    """Return what Java complains about, without its tolerance of a minute."""
    found = []
    for name, log in (("snapshot log", metadata.snapshot_log), ("metadata log", metadata.metadata_log)):
        moments = [entry.timestamp_ms for entry in log]
        found += [f"{name}: {a} before {b}" for a, b in itertools.pairwise(moments) if a > b]
        found += [f"last update before {name}: {moment}" for moment in moments if moment > metadata.last_updated_ms]
    return found


ORDERS = [(TWO_MINUTES, -TWO_MINUTES), (-TWO_MINUTES, TWO_MINUTES)]


@pytest.mark.parametrize("own", [True, False], ids=["embedded", "as Hive and Glue commit"])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_s36_no_operation_sets_the_tables_clock_back(open_manager, stock_catalog, set_clock, operation, own):
    # PyIceberg's own SQL catalog commits like PyIceberg's Hive and Glue catalogs.
    manager = open_manager() if own else IcebergTableManager(stock_catalog)
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows(1))
    manager.append("bronze.t", rows(2))
    newest = 0
    for skew in (-TWO_MINUTES, TWO_MINUTES, -TWO_MINUTES):
        set_clock(skew)
        operation(manager)
        metadata = manager.load_table("bronze.t").metadata
        assert disorder(metadata) == []
        assert metadata.last_updated_ms >= newest
        newest = metadata.last_updated_ms


def test_s36_a_change_of_metadata_by_a_fast_clock_beside_a_commit_is_no_step_back(open_manager, set_clock, monkeypatch):
    manager, rival = open_manager(), open_manager()
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows(1))
    catalog = manager.catalog.inner
    commit = catalog.commit_table

    def after_the_rival(*arguments):
        monkeypatch.delattr(catalog, "commit_table")
        set_clock(TWO_MINUTES)
        set_property(rival)
        set_clock(0)
        return commit(*arguments)

    # The branch has not changed, so the snapshot is committed with its original timestamp.
    monkeypatch.setattr(catalog, "commit_table", after_the_rival)
    made = manager.append("bronze.t", rows(2))
    table = manager.load_table("bronze.t")
    assert disorder(table.metadata) == []
    assert table.metadata.last_updated_ms > (time.time() + 60) * 1000 > made.timestamp_ms


@pytest.mark.spark
@pytest.mark.parametrize("skews", ORDERS, ids=["ahead first", "behind first"])
def test_s36_java_accepts_the_metadata_of_every_operation(spark_tables, spark_session, set_clock, skews):
    manager = IcebergTableManager(spark_tables.catalog)
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", SCHEMA)
    parser = spark_session._jvm.org.apache.iceberg.TableMetadataParser
    for (name, operate), skew in zip(OPERATIONS.items(), itertools.cycle(skews), strict=False):
        set_clock(skew)
        operate(manager)
        set_clock(-skew)
        set_property(manager)
        location = manager.load_table("bronze.t").metadata_location
        parsed = parser.fromJson(location, local_path(location).read_text())
        assert parsed.currentSnapshot() is not None, name
    set_clock(0)
    read = sorted(row.id for row in spark_session.sql("SELECT id FROM floe.bronze.t").collect())
    assert read == sorted(manager.scan("bronze.t")["id"].to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.UPSERT])
def test_s36_spark_waits_for_a_clock_that_is_ahead(spark_tables, set_clock, mode):
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", SCHEMA)
    # Java tolerates a minute, which leaves two seconds to wait for.
    set_clock(62)
    manager.append("bronze.t", rows(1))
    set_clock(0)
    manager.write_data("bronze.t", rows(2), mode, keys=["id"] if mode is WriteMode.UPSERT else None, engine="spark")
    assert sorted(manager.scan("bronze.t")["id"].to_pylist()) == [1, 2]


@pytest.mark.spark
@pytest.mark.parametrize("waits", [True, False], ids=["before Spark works", "told by Spark"])
def test_s36_a_clock_too_far_ahead_for_spark_is_told_and_nothing_is_written(
    spark_tables, set_clock, monkeypatch, waits
):
    config = IcebergTableManagerConfig(commit_timeout_seconds=5)
    manager = IcebergTableManager(spark_tables.catalog, config=config, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    manager.create_table("bronze.t", SCHEMA)
    set_clock(TWO_MINUTES)
    manager.append("bronze.t", rows(1))
    set_clock(0)
    if not waits:
        # Like a server with a slow clock.
        monkeypatch.setattr(engine, "seconds_until_java_writes", lambda _: 0.0)
    before = manager.load_table("bronze.t").metadata_location
    with pytest.raises(ClockSkewError, match=r"clock (that )?is"):
        manager.append("bronze.t", rows(2), engine="spark")
    assert manager.load_table("bronze.t").metadata_location == before
