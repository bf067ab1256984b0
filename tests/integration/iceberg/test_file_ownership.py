"""A table's own locations for deletion, if tables are moved, renamed, recreated or share a folder."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pytest

from floe_core.errors import MaintenanceError
from floe_iceberg.commit.file_ownership import own_files

SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}


def rows(*ids):
    return pa.table({"id": list(ids)}, schema=SCHEMA)


def ids(manager, name):
    return sorted(manager.scan(name).column("id").to_pylist())


def folder(location):
    return Path(location.removeprefix("file://"))


def age(place):
    moment = time.time() - 30 * 86_400
    for path in folder(place).rglob("*"):
        os.utime(path, (moment, moment))


def overwritten(manager, name, **options):
    """Create a table with one snapshot that can expire, and its one data file."""
    manager.create_table(name, SCHEMA, **options)
    manager.append(name, rows(1))
    (file,) = [task.file.file_path for task in manager.load_table(name).scan().plan_files()]
    manager.overwrite(name, rows(2))
    return folder(file)


def test_a_declared_path_that_nobody_else_uses_is_the_tables_own(manager, tmp_path):
    file = overwritten(manager, "bronze.t", properties={"write.data.path": f"file://{tmp_path}/bulk"})
    manager.create_table("bronze.other", SCHEMA)
    assert file.is_relative_to(tmp_path / "bulk")
    expired = manager.expire_snapshots("bronze.t", **ALL)
    assert (expired.deleted_data_files, expired.foreign_files) == (1, ())
    assert not file.exists()


def test_tables_of_one_namespace_may_share_a_data_folder(manager, tmp_path):
    properties = {"write.data.path": f"file://{tmp_path}/bulk"}
    one = overwritten(manager, "bronze.one", properties=properties)
    other = overwritten(manager, "bronze.other", properties=properties)
    assert manager.expire_snapshots("bronze.one", **ALL).foreign_files == ()
    assert not one.exists()
    assert other.exists()


def test_tables_of_different_namespaces_do_not_share_a_data_folder(manager, tmp_path):
    manager.create_namespace("silver")
    properties = {"write.data.path": f"file://{tmp_path}/bulk"}
    overwritten(manager, "silver.other", properties=properties)
    file = overwritten(manager, "bronze.one", properties=properties)
    expired = manager.expire_snapshots("bronze.one", **ALL)
    assert expired.foreign_files == (f"file://{file}",)
    assert file.exists()


def test_a_path_in_the_room_of_another_namespace_is_not_the_tables_own(manager, tmp_path):
    manager.create_namespace("silver", {"location": f"file://{tmp_path}/room"})
    file = overwritten(manager, "bronze.t", properties={"write.data.path": f"file://{tmp_path}/room/landing"})
    assert manager.expire_snapshots("bronze.t", **ALL).foreign_files == (f"file://{file}",)


def test_a_table_that_moved_to_another_namespace_keeps_its_own_files(manager):
    manager.create_namespace("silver")
    file = overwritten(manager, "bronze.t")
    manager.catalog.rename_table("bronze.t", "silver.t")
    assert manager.expire_snapshots("silver.t", **ALL).deleted_data_files == 1
    assert not file.exists()


def test_a_new_table_in_the_folder_of_a_renamed_one_deletes_nothing_there(manager):
    """The new table gets the folder of its name, where the renamed one still lies."""
    place = manager.create_table("bronze.t", SCHEMA).location()
    manager.append("bronze.t", rows(1))
    manager.catalog.rename_table("bronze.t", "bronze.renamed")
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows(2))
    age(place)
    for name in ("bronze.t", "bronze.renamed"):
        with pytest.raises(MaintenanceError, match="belongs to 'bronze"):
            manager.sweep_orphans(name, dry_run=False)
    assert manager.drop_table("bronze.t", purge=True).foreign_files
    assert ids(manager, "bronze.renamed") == [1]


def test_what_a_dropped_table_left_in_the_folder_is_swept(manager):
    place = manager.create_table("bronze.t", SCHEMA).location()
    manager.append("bronze.t", rows(1))
    manager.drop_table("bronze.t")
    age(place)
    manager.create_table("bronze.t", SCHEMA)
    manager.append("bronze.t", rows(2))
    swept = manager.sweep_orphans("bronze.t", dry_run=False)
    assert len([file for file in swept.files if file.endswith(".parquet")]) == 1
    assert ids(manager, "bronze.t") == [2]


def test_a_broken_neighbor_keeps_its_folder_and_stops_nobody(manager, tmp_path):
    place = manager.create_table("bronze.broken", SCHEMA).location()
    for file in (folder(place) / "metadata").glob("*.json"):
        file.unlink()
    file = overwritten(manager, "bronze.t", properties={"write.data.path": f"file://{tmp_path}/bulk"})
    into = overwritten(manager, "bronze.into", properties={"write.data.path": f"{place}/data"})
    assert manager.expire_snapshots("bronze.t", **ALL).deleted_data_files == 1
    assert manager.expire_snapshots("bronze.into", **ALL).foreign_files == (f"file://{into}",)
    assert not file.exists()
    manager.drop_table("bronze.broken")


def test_a_namespace_cannot_give_itself_a_place_outside_of_its_parents(manager, tmp_path):
    manager.create_namespace("tenants.acme", {"location": f"file://{tmp_path}/acme"})
    manager.create_namespace("tenants.beta", {"location": f"file://{tmp_path}/beta"})
    manager.create_namespace("tenants.acme.sly", {"location": f"file://{tmp_path}/beta"})
    victim = overwritten(manager, "tenants.beta.t")
    manager.create_table("tenants.acme.sly.t", SCHEMA)
    assert f"file://{victim}" not in own_files(manager.context, manager.load_table("tenants.acme.sly.t"))
    assert f"file://{victim}" in own_files(manager.context, manager.load_table("tenants.beta.t"))


def test_a_table_in_its_own_folder_asks_nobody_else(manager, monkeypatch):
    file = overwritten(manager, "bronze.t")
    manager.create_table("bronze.other", SCHEMA)
    inner = manager.catalog.inner

    def refused(*_):
        pytest.fail("other tables were looked for")

    monkeypatch.setattr(inner, "list_tables", refused)
    assert manager.expire_snapshots("bronze.t", **ALL).deleted_data_files == 1
    assert not file.exists()
