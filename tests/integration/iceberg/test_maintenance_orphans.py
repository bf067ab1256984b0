from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.declaration.locations import normal
from floe_core.errors import MaintenanceError, UnsafeRetentionError
from floe_iceberg import maintenance
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import files_of, local_path

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])


def age(path, hours):
    when = time.time() - hours * 3600
    os.utime(path, (when, when))


@pytest.fixture
def events(context, new_table):
    """A table whose every file is five days old, with a deleted row, a tag and a branch."""
    table = new_table(NAME, SCHEMA)
    for number in range(3):
        table.append(pa.table({"id": [number]}, schema=SCHEMA))
    refs.create_tag(context, NAME, "v1")
    refs.create_branch(context, NAME, "trial")
    table.refresh().append(pa.table({"id": [7]}, schema=SCHEMA), branch="trial")
    table.delete("id = 1")
    for path in files_of(table):
        age(path, 120)
    yield table
    assert_audited(table.refresh())


def stray(table, name="stray.parquet", hours=100.0):
    path = local_path(table.location()) / "data" / name
    path.write_bytes(b"left by a killed writer")
    age(path, hours)
    return path


def test_a_dry_run_is_the_default_and_deletes_nothing(context, events):
    path = stray(events)
    result = maintenance.sweep_orphans(context, NAME)
    assert result.dry_run
    assert [local_path(file) for file in result.files] == [path]
    assert result.total_bytes == 23
    assert path.exists()


@pytest.mark.req("TM-16")
def test_orphans_go_and_everything_else_stays(context, events):
    path = stray(events)
    before = set(files_of(events)) - {path}
    result = maintenance.sweep_orphans(context, NAME, dry_run=False)
    assert len(result.files) == 1
    # The lease leaves new metadata files behind.
    assert before <= set(files_of(events))
    assert not path.exists()
    assert scan.scan(context, NAME).num_rows == 2
    assert scan.scan(context, NAME, ref="v1").num_rows == 3
    assert scan.scan(context, NAME, ref="trial").num_rows == 4


def test_young_files_are_left_alone(context, events):
    path = stray(events, hours=30)
    assert maintenance.sweep_orphans(context, NAME, older_than_hours=48).files == ()
    assert [local_path(file) for file in maintenance.sweep_orphans(context, NAME, older_than_hours=24).files] == [path]
    limit = datetime.now(UTC) - timedelta(hours=25)
    assert len(maintenance.sweep_orphans(context, NAME, older_than=limit).files) == 1


def test_two_limits_are_refused(context, events):
    with pytest.raises(UnsafeRetentionError):
        maintenance.sweep_orphans(context, NAME, older_than_hours=48, older_than=datetime.now(UTC))


def test_a_table_in_the_folder_of_another_is_noticed(context, events, new_table):
    inner = new_table("bronze.inner", SCHEMA, location=f"{events.location()}/inner")
    inner.append(pa.table({"id": [1]}, schema=SCHEMA))
    with pytest.raises(MaintenanceError, match="Another table is in the folder"):
        maintenance.sweep_orphans(context, NAME)


def test_a_table_whose_location_is_spelled_otherwise_keeps_its_files(context, events):
    from pyiceberg.table.update import SetLocationUpdate

    plain = str(local_path(events.location()))
    for spelling in (plain, f"file:{plain}", f"file://{plain}/"):
        table = context.load(NAME)
        context.catalog.commit_table(table, (), (SetLocationUpdate(location=spelling),))
        assert maintenance.sweep_orphans(context, NAME).files == ()


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("file:///a/b", "/a/b"),
        ("file:/a//b", "file:///a/b"),
        ("s3a://bucket/k", "s3://bucket/k"),
        ("s3n://bucket/k", "s3://bucket/k"),
        ("abfss://c@account/k", "abfs://c@account/k"),
    ],
)
def test_spellings_of_one_location_are_one(left, right):
    assert normal(left) == normal(right)


@pytest.mark.parametrize(("left", "right"), [("s3://b/k//x", "s3://b/k/x"), ("s3://b/K", "s3://b/k")])
def test_object_keys_stay_apart(left, right):
    assert normal(left) != normal(right)


def test_an_empty_table_is_swept_too(context, new_table):
    table = new_table("bronze.none", SCHEMA)
    path = local_path(table.location()) / "data" / "x.parquet"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    age(path, 100)
    assert len(maintenance.sweep_orphans(context, "bronze.none", dry_run=False).files) == 1
    assert not path.exists()


def test_a_table_whose_location_is_a_link_keeps_its_files(context, events, tmp_path):
    from pyiceberg.table.update import SetLocationUpdate

    folder = local_path(events.location())
    (tmp_path / "link").symlink_to(folder)
    for path in folder.rglob("*"):
        age(path, 100)
    context.catalog.commit_table(context.load(NAME), (), (SetLocationUpdate(location=f"file://{tmp_path}/link"),))
    assert maintenance.sweep_orphans(context, NAME, dry_run=False).files == ()
