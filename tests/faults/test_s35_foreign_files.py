"""S35: tables that share files, and metadata with foreign files: floe only deletes a table's own files."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetPropertiesUpdate

from floe_core.errors import MaintenanceError, SharedFilesError
from floe_iceberg.maintenance import orphans
from floe_testing.embedded_tables import local_path
from floe_testing.faults.sites import EmbeddedSite

SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}
A_MONTH = 30 * 24
on_embedded = pytest.mark.parametrize("site", ["embedded"], indirect=True)
# A server's own purge deletes all files in the metadata, so these tests always run over REST too.
on_both = pytest.mark.parametrize("site", ["embedded", "rest"], indirect=True)


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


@pytest.fixture
def source(site):
    return site.name("source")


@pytest.fixture
def clone(site):
    return site.name("clone")


def ids(manager, name):
    return sorted(manager.scan(name).column("id").to_pylist())


def set_properties(manager, name, **properties):
    table = manager.load_table(name)
    update = SetPropertiesUpdate(updates={key.replace("_", "."): value for key, value in properties.items()})
    manager.catalog.commit_table(table, (), (update,))


def sharing_clone(manager, source, clone):
    """A clone as Spark's procedures leave it: the files of the source, and a property that says so."""
    manager.create_table(source, SCHEMA)
    manager.append(source, rows(1))
    manager.append(source, rows(2))
    manager.register_table(clone, manager.load_table(source).metadata_location)
    set_properties(manager, clone, gc_enabled="false")
    manager.overwrite(clone, rows(9))
    return manager.load_table(clone)


DELETING = {
    "expire": lambda m, t, engine: m.expire_snapshots(t, engine=engine, **ALL),
    "expire, dry run": lambda m, t, engine: m.expire_snapshots(t, engine=engine, dry_run=True, **ALL),
    "sweep": lambda m, t, engine: m.sweep_orphans(t, engine=engine, dry_run=False),
    "sweep, dry run": lambda m, t, engine: m.sweep_orphans(t, engine=engine),
    "purge": lambda m, t, _: m.drop_table(t, purge=True),
}


@pytest.mark.parametrize("operation", DELETING)
@pytest.mark.parametrize("engine", ["arrow", "spark"])
def test_s35_a_table_that_shares_its_files_is_left_whole(site, manager, operation, engine):
    source, clone = site.name("source"), site.name("clone")
    table = sharing_clone(manager, source, clone)
    before = site.sizes(site.folder(""))
    with pytest.raises(SharedFilesError, match=r"gc\.enabled") as refused:
        DELETING[operation](manager, clone, engine)
    assert refused.value.exit_code == 1
    assert refused.value.table == clone
    assert before
    assert site.sizes(site.folder("")) == before
    assert manager.load_table(clone).metadata_location == table.metadata_location
    assert ids(manager, source) == [1, 2]


def test_s35_a_clone_may_still_be_compacted_and_dropped(manager, source, clone):
    sharing_clone(manager, source, clone)
    manager.append(clone, rows(10))
    manager.compact_table(clone)
    assert ids(manager, clone) == [9, 10]
    manager.drop_table(clone)
    assert ids(manager, source) == [1, 2]


# Over REST, the server writes the metadata and deletes old metadata files.
@on_embedded
def test_s35_a_clone_never_deletes_its_sources_old_metadata(site, manager, source, clone):
    sharing_clone(manager, source, clone)
    wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    table = manager.load_table(clone)
    before = {entry.metadata_file for entry in manager.load_table(source).metadata.metadata_log}
    manager.catalog.commit_table(table, (), (SetPropertiesUpdate(updates=wanted),))
    manager.append(clone, rows(10))
    manager.append(clone, rows(11))
    assert all(site.exists(file) for file in before)
    assert ids(manager, source) == [1, 2]


def moved_copy(site, manager, source, clone):
    """A table at a place of its own whose history still names the files of another."""
    manager.create_table(source, SCHEMA)
    manager.append(source, rows(1))
    manager.append(source, rows(2))
    place = site.folder("copied")
    manager.create_table(clone, SCHEMA, location=place)
    paths = [task.file.file_path for task in manager.load_table(source).scan().plan_files()]
    manager.load_table(clone).add_files(paths)
    return place, paths


@on_both
def test_s35_expiry_keeps_foreign_files_and_names_them(site, manager, source, clone):
    _, paths = moved_copy(site, manager, source, clone)
    manager.overwrite(clone, rows(9))
    expired = manager.expire_snapshots(clone, **ALL)
    assert expired == 1
    assert expired.foreign_files == tuple(sorted(paths))
    assert expired.deleted_data_files == 0
    assert expired.deleted_manifests >= 1
    assert ids(manager, source) == [1, 2]


# A purge by the server would delete the foreign file, because the manifests list it as removed.
@pytest.mark.parametrize(
    ("site", "beside"),
    [
        ("embedded", "clone/../clone-10"),
        ("embedded", "clone-10"),
        # Dots have no special meaning in an object store.
        pytest.param("rest", "clone-10", marks=pytest.mark.live),
    ],
    indirect=["site"],
)
def test_s35_tricks_with_paths_do_not_make_a_file_ones_own(site, manager, source, clone, beside):
    manager.create_table(source, SCHEMA, location=site.folder("clone-10"))
    manager.append(source, rows(1))
    (path,) = [task.file.file_path for task in manager.load_table(source).scan().plan_files()]
    path = path.replace("clone-10", beside)
    manager.create_table(clone, SCHEMA, location=site.folder("clone"))
    manager.append(clone, rows(0))
    manager.load_table(clone).add_files([path])
    manager.overwrite(clone, rows(9))
    assert manager.expire_snapshots(clone, **ALL).foreign_files == (path,)
    manager.drop_table(clone, purge=True)
    assert site.files_below(site.folder("clone")) == []
    assert ids(manager, source) == [1]


def test_s35_statistics_elsewhere_are_kept(site, manager, clone):
    manager.create_table(clone, SCHEMA)
    manager.append(clone, rows(1))
    other = site.write(site.folder("shared.puffin"), b"x")
    table = manager.load_table(clone)
    statistics = StatisticsFile(
        snapshot_id=table.metadata.current_snapshot_id,
        statistics_path=other,
        file_size_in_bytes=1,
        file_footer_size_in_bytes=1,
        blob_metadata=[],
    )
    with table.update_statistics() as update:
        update.set_statistics(statistics)
    manager.overwrite(clone, rows(2))
    assert manager.expire_snapshots(clone, **ALL).foreign_files == (other,)
    assert site.exists(other)


@on_both
def test_s35_purge_keeps_foreign_files_and_names_them(site, manager, source, clone):
    place, paths = moved_copy(site, manager, source, clone)
    purged = manager.drop_table(clone, purge=True)
    assert set(purged.foreign_files) == set(paths)
    assert purged.deleted_files > 0
    assert not manager.table_exists(clone)
    assert site.files_below(place) == []
    assert ids(manager, source) == [1, 2]


@pytest.mark.parametrize("below", ["data", "data/inner", "metadata/inner", "inner", "data/metadata"])
def test_s35_purge_spares_a_table_below_its_own_folder(site, manager, below):
    outer, inner = site.name("outer"), site.name("inner")
    place = site.folder("outer")
    manager.create_table(outer, SCHEMA, location=place)
    manager.append(outer, rows(1))
    manager.create_table(inner, SCHEMA, location=f"{place}/{below}")
    manager.append(inner, rows(5, 6))
    manager.drop_table(outer, purge=True)
    assert ids(manager, inner) == [5, 6]
    manager.append(inner, rows(7))
    manager.drop_table(inner, purge=True)
    assert site.files_below(place, ".metadata.json") == []


def test_s35_purge_clears_leftovers_and_empty_folders(site, manager, clone):
    place = manager.create_table(clone, SCHEMA, ["id"]).location()
    manager.append(clone, rows(1, 2))
    leftover = io.BytesIO()
    pq.write_table(rows(3), leftover)
    site.write(f"{place}/data/leftover.parquet", leftover.getvalue())
    manager.drop_table(clone, purge=True)
    assert site.files_below(place) == []
    assert not local_path(place).exists()


@on_both
def test_s35_a_table_made_anew_during_a_purge_keeps_its_files(site, manager, clone):
    """The new table gets the old one's name, and so its folder."""
    place = manager.create_table(clone, SCHEMA).location()
    manager.append(clone, rows(1))
    other, inner = site.open_manager(), manager.catalog.inner

    def followed(drop):
        def dropped(*arguments, **options):
            drop(*arguments, **options)
            other.create_table(clone, SCHEMA)
            other.append(clone, rows(7))

        return dropped

    inner.drop_table, inner.purge_table = followed(inner.drop_table), followed(inner.purge_table)
    manager.drop_table(clone, purge=True)
    assert other.load_table(clone).location() == place
    assert ids(other, clone) == [7]


def test_s35_a_registered_tables_foreign_log_is_kept(site, manager, source, clone):
    """The log of a table that was moved by hand still leads to the old place."""
    manager.create_table(source, SCHEMA)
    for number in range(3):
        manager.append(source, rows(number))
    table = manager.load_table(source)
    old = {entry.metadata_file for entry in table.metadata.metadata_log}
    place = site.folder("moved")
    text = site.read(table.metadata_location).decode()
    text = text.replace(f'"location":"{table.location()}"', f'"location":"{place}"', 1)
    copy = site.write(f"{place}/metadata/00003-moved.metadata.json", text.encode())
    manager.register_table(clone, copy)
    assert manager.load_table(clone).location() == place
    if isinstance(site, EmbeddedSite):
        # Over REST, the server deletes old metadata files, also in the old location.
        wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
        manager.catalog.commit_table(manager.load_table(clone), (), (SetPropertiesUpdate(updates=wanted),))
    manager.append(clone, rows(8))
    purged = manager.drop_table(clone, purge=True)
    assert purged.foreign_files
    assert all(site.exists(file) for file in old)
    assert ids(manager, source) == [0, 1, 2]


def swept_files(site, manager, clone, *orphans):
    """Place old files in a table's folder and sweep; return what is gone."""
    place = manager.load_table(clone).location()
    files = {name: site.age(site.write(f"{place}/{name}", b"x"), A_MONTH) for name in orphans}
    swept = manager.sweep_orphans(clone, dry_run=False)
    assert swept.files == tuple(sorted(file for file in files.values() if not site.exists(file)))
    return {name for name, file in files.items() if file in swept.files}


def test_s35_a_sweep_leaves_hidden_files_alone(site, manager, clone):
    manager.create_table(clone, SCHEMA)
    manager.append(clone, rows(1))
    hidden = ["metadata/.00000.metadata.json.crc", "metadata/version-hint.text", "data/_temporary/part.parquet"]
    assert swept_files(site, manager, clone, "data/orphan.parquet", *hidden) == {"data/orphan.parquet"}


@on_embedded
def test_s35_a_sweep_leaves_links_alone(site, manager, clone, tmp_path):
    place = manager.create_table(clone, SCHEMA).location()
    manager.append(clone, rows(1))
    precious = site.age(site.write(f"file://{tmp_path}/elsewhere/precious.parquet", b"x"), A_MONTH)
    (local_path(place) / "data" / "link").symlink_to(tmp_path / "elsewhere")
    assert swept_files(site, manager, clone, "data/orphan.parquet") == {"data/orphan.parquet"}
    assert site.exists(precious)


def test_s35_a_partition_that_looks_hidden_is_swept_like_any_other(site, manager, clone):
    schema = pa.schema([("_day", pa.int64())])
    manager.create_table(clone, schema, ["_day"])
    manager.append(clone, pa.table({"_day": [1]}, schema=schema))
    assert swept_files(site, manager, clone, "data/_day=1/orphan.parquet") == {"data/_day=1/orphan.parquet"}


def test_s35_a_sweep_stops_when_the_store_goes_by_another_name(site, manager, clone):
    """A file that the metadata names with another scheme may be the very one in the store."""
    manager.create_table(clone, SCHEMA)
    manager.append(clone, rows(1))
    table = manager.load_table(clone)
    log = table.metadata.metadata_log
    stray = f"{table.location()}/metadata/stray.metadata.json"
    site.age(site.write(stray, site.read(table.metadata_location)), A_MONTH)
    entry = log[0].model_copy(update={"metadata_file": f"hdfs://name/{stray.partition('://')[2].partition('/')[2]}"})
    table.metadata = table.metadata.model_copy(update={"metadata_log": [entry]})
    with pytest.raises(MaintenanceError, match="another scheme or store"):
        orphans._unreferenced(table, orphans._list_files(table))


@pytest.mark.spark
def test_s35_spark_never_expires_foreign_files(site, plane, source, clone):
    """Spark's procedure would delete them, so floe does it itself and says so."""
    manager = site.open_manager(compute=plane)
    _, paths = moved_copy(site, manager, source, clone)
    manager.overwrite(clone, rows(9))
    expired = manager.expire_snapshots(clone, engine="spark", **ALL)
    assert expired.foreign_files == tuple(sorted(paths))
    assert ids(manager, source) == [1, 2]
    manager.append(source, rows(3))
    assert manager.expire_snapshots(source, engine="spark", **ALL) == 2
    assert ids(manager, source) == [1, 2, 3]


@pytest.mark.spark
def test_s35_a_snapshot_made_by_spark_shares_nothing_it_could_delete(site, plane, source, clone):
    """The procedure's own clone: expiry is refused; with gc.enabled=true the source's files still stay."""
    manager = site.open_manager(compute=plane)
    manager.create_table(source, SCHEMA)
    manager.append(source, rows(1, 2))
    manager.create_table(clone, SCHEMA).add_files(site.files_of(manager.load_table(source), ".parquet"))
    set_properties(manager, clone, gc_enabled="false")
    for procedure in ("expire_snapshots", "remove_orphan_files"):
        sql = f"CALL {site.address.catalog_name}.system.{procedure}(table => '{clone}')"
        with pytest.raises(Exception, match="GC is disabled"):
            plane.session.sql(sql).collect()
    with pytest.raises(SharedFilesError):
        manager.expire_snapshots(clone, **ALL)
    set_properties(manager, clone, gc_enabled="true")
    manager.overwrite(clone, rows(9))
    manager.expire_snapshots(clone, **ALL)
    assert ids(manager, source) == [1, 2]
