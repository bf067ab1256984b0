"""S17: orphan removal during a write, or with too short a retention, is rejected; the default is a dry run."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pydantic import ValidationError
from pyiceberg.io.pyarrow import _dataframe_to_data_files

from floe_core.errors import UnsafeRetentionError
from floe_iceberg import maintenance
from floe_iceberg.maintenance import orphans
from floe_iceberg.models import IcebergTableManagerConfig
from floe_iceberg.read import scan

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def events(new_table, name):
    table = new_table(name, SCHEMA)
    table.append(pa.table({"id": [1]}, schema=SCHEMA))
    return table


def staged(table):
    """Write a data file and do not commit it yet."""
    rows = pa.table({"id": [2]}, schema=SCHEMA)
    return next(iter(_dataframe_to_data_files(table.metadata, rows, table.io)))


def commit(table, file):
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(file)


def test_s17_a_dry_run_is_the_default():
    assert inspect.signature(maintenance.sweep_orphans).parameters["dry_run"].default is True


@pytest.mark.parametrize(
    "limit",
    [
        {"older_than_hours": 0},
        {"older_than_hours": 23.5},
        {"older_than_hours": -5},
        {"older_than": datetime.now(UTC) + timedelta(days=1)},
        {"older_than": datetime.now()},  # noqa: DTZ005 - local time
    ],
    ids=["now", "almost-a-day", "future-hours", "tomorrow", "local-now"],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_s17_a_limit_that_could_hit_a_running_write_is_refused(site, context, events, limit, dry_run):
    name = site.name("events")
    before = site.files_of(events)
    with pytest.raises(UnsafeRetentionError, match=r"24 hours|still running"):
        maintenance.sweep_orphans(context, name, dry_run=dry_run, **limit)
    assert site.files_of(events) == before


def test_s17_no_setting_switches_the_limit_off():
    with pytest.raises(ValidationError):
        IcebergTableManagerConfig(min_orphan_age_hours=0)


def test_s17_a_lower_limit_is_a_matter_of_configuration(site, events, name):
    context = site.open_context(min_orphan_age_hours=1)
    stray = staged(events)
    site.age(stray.file_path, 2)
    assert maintenance.sweep_orphans(context, name, older_than_hours=1).files == (stray.file_path,)


def test_s17_the_files_of_a_running_write_survive(context, events, name):
    running = staged(events)
    assert maintenance.sweep_orphans(context, name, older_than_hours=24, dry_run=False).files == ()
    commit(events.refresh(), running)
    assert scan.scan(context, name).num_rows == 2


def test_s17_a_file_that_is_committed_while_the_folder_is_listed_survives(site, context, events, name, monkeypatch):
    slow = staged(events)
    site.age(slow.file_path, 200)
    original = orphans._list_files

    def listed_then_committed(table):
        found = original(table)
        commit(events.refresh(), slow)
        return found

    monkeypatch.setattr(orphans, "_list_files", listed_then_committed)
    assert maintenance.sweep_orphans(context, name, dry_run=False).files == ()
    assert scan.scan(context, name).num_rows == 2


def test_s17_a_file_that_is_committed_while_manifests_are_read_survives(site, context, events, name, monkeypatch):
    slow = staged(events)
    site.age(slow.file_path, 200)
    original = orphans._unreferenced
    looks = []

    def looked_then_committed(table, files):
        found = original(table, files)
        if not looks:
            commit(events.refresh(), slow)
        looks.append(len(found))
        return found

    monkeypatch.setattr(orphans, "_unreferenced", looked_then_committed)
    assert maintenance.sweep_orphans(context, name, dry_run=False).files == ()
    assert looks == [1, 0]
    assert scan.scan(context, name).num_rows == 2
