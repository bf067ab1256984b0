"""S35: tables that share files, and metadata that names foreign ones: nothing outside a table's places is deleted."""

from __future__ import annotations

import os
import shutil
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetPropertiesUpdate

from floe_core.errors import MaintenanceError, SharedFilesError
from floe_iceberg import IcebergTableManager
from floe_iceberg.maintenance import orphans
from floe_testing.embedded_tables import files_of, local_path

SCHEMA = pa.schema([("id", pa.int64())])
SOURCE, CLONE = "bronze.source", "bronze.clone"
ALL = {"older_than_days": 0, "retain_last": 1}
OLD = time.time() - 30 * 24 * 3600


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def manager(open_manager):
    return open_manager()


def ids(manager, name):
    return sorted(manager.scan(name).column("id").to_pylist())


def everything(root):
    return {path: path.stat().st_size for path in root.rglob("*") if path.is_file()}


def set_properties(manager, name, **properties):
    table = manager.load_table(name)
    update = SetPropertiesUpdate(updates={key.replace("_", "."): value for key, value in properties.items()})
    manager.catalog.commit_table(table, (), (update,))


def sharing_clone(manager, name=CLONE):
    """A clone as Spark's procedures leave it: the files of the source, and a property that says so."""
    manager.create_table(SOURCE, SCHEMA)
    manager.append(SOURCE, rows(1))
    manager.append(SOURCE, rows(2))
    manager.register_table(name, manager.load_table(SOURCE).metadata_location)
    set_properties(manager, name, gc_enabled="false")
    manager.overwrite(name, rows(9))
    return manager.load_table(name)


DELETING = {
    "expire": lambda m, engine: m.expire_snapshots(CLONE, engine=engine, **ALL),
    "expire, dry run": lambda m, engine: m.expire_snapshots(CLONE, engine=engine, dry_run=True, **ALL),
    "sweep": lambda m, engine: m.sweep_orphans(CLONE, engine=engine, dry_run=False),
    "sweep, dry run": lambda m, engine: m.sweep_orphans(CLONE, engine=engine),
    "purge": lambda m, _: m.drop_table(CLONE, purge=True),
}


@pytest.mark.parametrize("operation", DELETING)
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_s35_a_table_that_shares_its_files_is_left_whole(manager, tmp_path, operation, engine):
    clone = sharing_clone(manager)
    before = everything(tmp_path / "warehouse")
    with pytest.raises(SharedFilesError, match=r"gc\.enabled") as refused:
        DELETING[operation](manager, engine)
    assert refused.value.exit_code == 1
    assert refused.value.table == CLONE
    assert everything(tmp_path / "warehouse") == before
    assert manager.load_table(CLONE).metadata_location == clone.metadata_location
    assert ids(manager, SOURCE) == [1, 2]


def test_s35_a_clone_may_still_be_compacted_and_dropped(manager):
    sharing_clone(manager)
    manager.append(CLONE, rows(10))
    manager.compact_table(CLONE)
    assert ids(manager, CLONE) == [9, 10]
    manager.drop_table(CLONE)
    assert ids(manager, SOURCE) == [1, 2]


def test_s35_a_clone_never_deletes_its_sources_old_metadata(manager):
    sharing_clone(manager)
    wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = manager.load_table(CLONE)
    before = {entry.metadata_file for entry in manager.load_table(SOURCE).metadata.metadata_log}
    manager.catalog.commit_table(table, (), (SetPropertiesUpdate(updates=wanted),))
    manager.append(CLONE, rows(10))
    manager.append(CLONE, rows(11))
    assert all(local_path(file).exists() for file in before)
    assert ids(manager, SOURCE) == [1, 2]


def moved_copy(manager, tmp_path, name=CLONE):
    """A table at a place of its own whose history still names the files of another."""
    manager.create_table(SOURCE, SCHEMA)
    manager.append(SOURCE, rows(1))
    manager.append(SOURCE, rows(2))
    place = tmp_path / "warehouse" / "bronze" / "clone"
    manager.create_table(name, SCHEMA, location=f"file://{place}")
    paths = [task.file.file_path for task in manager.load_table(SOURCE).scan().plan_files()]
    manager.load_table(name).add_files(paths)
    return place, paths


def test_s35_expiry_keeps_foreign_files_and_names_them(manager, tmp_path):
    _, paths = moved_copy(manager, tmp_path)
    manager.overwrite(CLONE, rows(9))
    expired = manager.expire_snapshots(CLONE, **ALL)
    assert expired == 1
    assert expired.foreign_files == tuple(sorted(paths))
    assert expired.deleted_data_files == 0
    assert expired.deleted_manifests >= 1
    assert ids(manager, SOURCE) == [1, 2]


@pytest.mark.parametrize("spelling", ["/wh/bronze/clone/../source", "prefix"])
def test_s35_tricks_with_paths_do_not_make_a_file_ones_own(manager, tmp_path, spelling):
    manager.create_table(SOURCE, SCHEMA, location=f"file://{tmp_path}/warehouse/bronze/clone-10")
    manager.append(SOURCE, rows(1))
    (path,) = [task.file.file_path for task in manager.load_table(SOURCE).scan().plan_files()]
    if spelling != "prefix":
        path = path.replace("/bronze/clone-10", "/bronze/clone/../clone-10")
    manager.create_table(CLONE, SCHEMA, location=f"file://{tmp_path}/warehouse/bronze/clone")
    manager.append(CLONE, rows(0))
    manager.load_table(CLONE).add_files([path])
    manager.overwrite(CLONE, rows(9))
    assert manager.expire_snapshots(CLONE, **ALL).foreign_files == (path,)
    assert manager.drop_table(CLONE, purge=True).deleted_files > 0
    assert ids(manager, SOURCE) == [1]


def test_s35_statistics_elsewhere_are_kept(manager, tmp_path):
    manager.create_table(CLONE, SCHEMA)
    manager.append(CLONE, rows(1))
    other = tmp_path / "shared.puffin"
    other.write_bytes(b"x")
    table = manager.load_table(CLONE)
    statistics = StatisticsFile(
        snapshot_id=table.metadata.current_snapshot_id,
        statistics_path=f"file://{other}",
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    with table.update_statistics() as update:
        update.set_statistics(statistics)
    manager.overwrite(CLONE, rows(2))
    assert manager.expire_snapshots(CLONE, **ALL).foreign_files == (f"file://{other}",)
    assert other.exists()


def test_s35_purge_keeps_foreign_files_and_names_them(manager, tmp_path):
    place, paths = moved_copy(manager, tmp_path)
    purged = manager.drop_table(CLONE, purge=True)
    assert set(purged.foreign_files) == set(paths)
    assert purged.deleted_files > 0
    assert not place.exists()
    assert ids(manager, SOURCE) == [1, 2]


@pytest.mark.parametrize("below", ["data", "data/inner", "metadata/inner", "inner", "data/metadata"])
def test_s35_purge_spares_a_table_below_its_own_folder(manager, tmp_path, below):
    outer = tmp_path / "warehouse" / "bronze" / "outer"
    manager.create_table("bronze.outer", SCHEMA, location=f"file://{outer}")
    manager.append("bronze.outer", rows(1))
    manager.create_table("bronze.inner", SCHEMA, location=f"file://{outer}/{below}")
    manager.append("bronze.inner", rows(5, 6))
    manager.drop_table("bronze.outer", purge=True)
    assert ids(manager, "bronze.inner") == [5, 6]
    manager.append("bronze.inner", rows(7))
    manager.drop_table("bronze.inner", purge=True)
    assert not list(outer.rglob("*.metadata.json"))


def test_s35_purge_clears_leftovers_and_empty_folders(manager, tmp_path):
    place = local_path(manager.create_table(CLONE, SCHEMA, ["id"]).location())
    manager.append(CLONE, rows(1, 2))
    pq.write_table(rows(3), place / "data" / "leftover.parquet")
    manager.drop_table(CLONE, purge=True)
    assert not place.exists()


def test_s35_a_registered_tables_foreign_log_is_kept(manager, tmp_path):
    """The log of a table that was moved by hand still leads to the old place."""
    manager.create_table(SOURCE, SCHEMA)
    for number in range(3):
        manager.append(SOURCE, rows(number))
    source = manager.load_table(SOURCE)
    old = {local_path(entry.metadata_file) for entry in source.metadata.metadata_log}
    copy = tmp_path / "warehouse" / "bronze" / "clone" / "metadata"
    copy.mkdir(parents=True)
    text = local_path(source.metadata_location).read_text()
    text = text.replace(f'"location":"{source.location()}"', f'"location":"file://{copy.parent}"', 1)
    (copy / "00003-moved.metadata.json").write_text(text)
    manager.register_table(CLONE, f"file://{copy}/00003-moved.metadata.json")
    assert local_path(manager.load_table(CLONE).location()) == copy.parent
    wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    manager.catalog.commit_table(manager.load_table(CLONE), (), (SetPropertiesUpdate(updates=wanted),))
    manager.append(CLONE, rows(8))
    purged = manager.drop_table(CLONE, purge=True)
    assert purged.foreign_files
    assert all(path.exists() for path in old)
    assert ids(manager, SOURCE) == [0, 1, 2]


def aged(path):
    os.utime(path, (OLD, OLD))
    return path


def test_s35_a_sweep_leaves_hidden_files_and_links_alone(manager, tmp_path):
    place = local_path(manager.create_table(CLONE, SCHEMA).location())
    manager.append(CLONE, rows(1))
    (place / "data" / "_temporary").mkdir()
    hidden = [
        place / "metadata" / ".00000.metadata.json.crc",
        place / "metadata" / "version-hint.text",
        place / "data" / "_temporary" / "part.parquet",
    ]
    for path in hidden:
        path.write_bytes(b"x")
    foreign = tmp_path / "elsewhere"
    foreign.mkdir()
    (foreign / "precious.parquet").write_bytes(b"x")
    (place / "data" / "link").symlink_to(foreign)
    orphan = place / "data" / "orphan.parquet"
    orphan.write_bytes(b"x")
    for path in (*hidden, orphan, foreign / "precious.parquet"):
        aged(path)
    swept = manager.sweep_orphans(CLONE, dry_run=False)
    assert [local_path(path) for path in swept.files] == [orphan]
    assert all(path.exists() for path in (*hidden, foreign / "precious.parquet"))
    assert all("precious" in path for path in swept.foreign_files)


def test_s35_a_partition_that_looks_hidden_is_swept_like_any_other(manager):
    schema = pa.schema([("_day", pa.int64())])
    place = local_path(manager.create_table(CLONE, schema, ["_day"]).location())
    manager.append(CLONE, pa.table({"_day": [1]}, schema=schema))
    orphan = place / "data" / "_day=1" / "orphan.parquet"
    orphan.write_bytes(b"x")
    aged(orphan)
    assert [local_path(path) for path in manager.sweep_orphans(CLONE).files] == [orphan]


def test_s35_a_sweep_stops_when_the_store_goes_by_another_name(manager):
    """A file that the metadata names with another scheme may be the very one on disk."""
    table = manager.create_table(CLONE, SCHEMA)
    manager.append(CLONE, rows(1))
    table = manager.load_table(CLONE)
    log = table.metadata.metadata_log
    stray = local_path(table.location()) / "metadata" / "stray.metadata.json"
    aged(shutil.copy(local_path(table.metadata_location), stray))
    entry = log[0].model_copy(update={"metadata_file": f"hdfs://name{stray}"})
    table.metadata = table.metadata.model_copy(update={"metadata_log": [entry]})
    with pytest.raises(MaintenanceError, match="another scheme or store"):
        orphans._unreferenced(table, orphans._list_files(table))


@pytest.mark.spark
def test_s35_spark_never_expires_foreign_files(spark_tables, tmp_path):
    """Spark's procedure would delete them, so floe does it itself and says so."""
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    _, paths = moved_copy(manager, tmp_path)
    manager.overwrite(CLONE, rows(9))
    expired = manager.expire_snapshots(CLONE, engine="spark", **ALL)
    assert expired.foreign_files == tuple(sorted(paths))
    assert ids(manager, SOURCE) == [1, 2]
    manager.append(SOURCE, rows(3))
    assert manager.expire_snapshots(SOURCE, engine="spark", **ALL) == 2
    assert ids(manager, SOURCE) == [1, 2, 3]


@pytest.mark.spark
def test_s35_a_snapshot_made_by_spark_shares_nothing_it_could_delete(spark_tables):
    """The procedure's own clone: expiry is refused; with gc.enabled=true the source's files still stay."""
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    manager.create_namespace("bronze")
    manager.create_table(SOURCE, SCHEMA)
    manager.append(SOURCE, rows(1, 2))
    files = files_of(manager.load_table(SOURCE), ".parquet")
    clone = manager.create_table(CLONE, SCHEMA)
    clone.add_files([f"file://{path}" for path in files])
    set_properties(manager, CLONE, gc_enabled="false")
    for sql in (
        f"CALL floe.system.expire_snapshots(table => '{CLONE}')",
        f"CALL floe.system.remove_orphan_files(table => '{CLONE}')",
    ):
        with pytest.raises(Exception, match="GC is disabled"):
            spark_tables.plane.session.sql(sql).collect()
    with pytest.raises(SharedFilesError):
        manager.expire_snapshots(CLONE, **ALL)
    set_properties(manager, CLONE, gc_enabled="true")
    manager.overwrite(CLONE, rows(9))
    manager.expire_snapshots(CLONE, **ALL)
    assert ids(manager, SOURCE) == [1, 2]


def test_s35_over_rest_the_same_rules_hold(connect, namespace):
    """The server's own purge deletes whatever the metadata names."""
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    source, clone = f"{namespace}.source", f"{namespace}.clone"
    for name in (source, clone):
        manager.create_table(name, SCHEMA)
    manager.append(source, rows(1, 2))
    paths = [task.file.file_path for task in manager.load_table(source).scan().plan_files()]
    manager.load_table(clone).add_files(paths)
    set_properties(manager, clone, gc_enabled="false")
    for act in (
        lambda: manager.expire_snapshots(clone, **ALL),
        lambda: manager.sweep_orphans(clone),
        lambda: manager.drop_table(clone, purge=True),
    ):
        with pytest.raises(SharedFilesError):
            act()
    set_properties(manager, clone, gc_enabled="true")
    manager.overwrite(clone, rows(9))
    assert manager.expire_snapshots(clone, **ALL).foreign_files == tuple(paths)
    manager.load_table(clone).add_files(paths)
    assert manager.drop_table(clone, purge=True).foreign_files == tuple(paths)
    assert not manager.table_exists(clone)
    assert ids(manager, source) == [1, 2]
    manager.drop_table(source, purge=True)
    assert not manager.table_exists(source)
