from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from floe_core.errors import MaintenanceError, MissingDependencyError, SnapshotNotFoundError, UnsafeRetentionError
from floe_iceberg import maintenance
from floe_iceberg.models import Engine
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import files_of, local_path, make_context

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}


def row(number):
    return pa.table({"id": [number]}, schema=SCHEMA)


@pytest.fixture
def events(new_table):
    """Six snapshots; the fourth drops what came before it."""
    table = new_table(NAME, SCHEMA)
    for number in range(3):
        table.append(row(number))
    table.delete("id >= 0")
    table.append(row(10))
    table.append(row(11))
    yield table
    assert_audited(table.refresh())


def ids(context, **version):
    return sorted(scan.scan(context, NAME, **version).column("id").to_pylist())


@pytest.mark.req("FR-032", "API-11")
def test_expiry_deletes_the_files_only_old_snapshots_needed_and_says_how_many(context, events):
    before = {suffix: len(files_of(events, suffix)) for suffix in (".parquet", ".avro")}
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    assert expired == 5
    assert isinstance(expired, int)
    assert len(expired.snapshot_ids) == 5
    assert before[".parquet"] - len(files_of(events, ".parquet")) == expired.deleted_data_files == 3
    gone = expired.deleted_manifests + expired.deleted_manifest_lists
    assert before[".avro"] - len(files_of(events, ".avro")) == gone
    assert expired.deleted_bytes > 0
    assert ids(context) == [10, 11]
    assert len(refs.list_snapshots(context, NAME)) == 1


def test_a_dry_run_tells_which_snapshots_would_go(context, events):
    metadata = context.load(NAME).metadata_location
    planned = maintenance.expire_snapshots(context, NAME, dry_run=True, **ALL)
    assert planned == 5
    assert context.load(NAME).metadata_location == metadata
    assert maintenance.expire_snapshots(context, NAME, **ALL).snapshot_ids == planned.snapshot_ids


@pytest.mark.req("TM-11")
def test_nothing_old_enough_expires_nothing(context, events):
    metadata = context.load(NAME).metadata_location
    assert maintenance.expire_snapshots(context, NAME) == 0
    assert context.load(NAME).metadata_location == metadata


def test_a_local_datetime_is_the_limit(context, events):
    third = refs.list_snapshots(context, NAME)[2]
    assert maintenance.expire_snapshots(context, NAME, older_than=third.timestamp, retain_last=1) == 3
    assert len(refs.list_snapshots(context, NAME)) == 3


def test_the_table_says_how_many_snapshots_stay(context, events):
    with events.transaction() as transaction:
        transaction.set_properties({"history.expire.min-snapshots-to-keep": "4"})
    assert maintenance.expire_snapshots(context, NAME, older_than=datetime.now()) == 2  # noqa: DTZ005 - local time
    assert len(refs.list_snapshots(context, NAME)) == 4


def test_chosen_snapshots_expire_whatever_their_age(context, events):
    chosen = refs.list_snapshots(context, NAME)[1]
    expired = maintenance.expire_snapshots(context, NAME, snapshot_ids=[chosen.snapshot_id])
    assert expired.snapshot_ids == (chosen.snapshot_id,)
    assert ids(context) == [10, 11]
    with pytest.raises(SnapshotNotFoundError):
        scan.scan(context, NAME, snapshot_id=chosen.snapshot_id)


def test_the_current_snapshot_cannot_be_chosen(context, events):
    current = refs.current_snapshot(context, NAME)
    with pytest.raises(MaintenanceError, match="it is referenced by main"):
        maintenance.expire_snapshots(context, NAME, snapshot_ids=[current.snapshot_id])


def test_an_unknown_snapshot_cannot_be_chosen(context, events):
    with pytest.raises(SnapshotNotFoundError):
        maintenance.expire_snapshots(context, NAME, snapshot_ids=[5])


@pytest.mark.parametrize(
    "rule",
    [
        {"retain_last": 0},
        {"older_than_days": -1},
        {"older_than_days": 1, "older_than": datetime(2024, 1, 1)},  # noqa: DTZ001 - local time
    ],
    ids=["retain-none", "future", "two-limits"],
)
def test_a_rule_that_makes_no_sense_is_refused(context, events, rule):
    with pytest.raises(UnsafeRetentionError):
        maintenance.expire_snapshots(context, NAME, **rule)


def test_a_ref_that_outlived_its_age_goes_with_its_snapshot(context, events):
    first = refs.list_snapshots(context, NAME)[-1]
    refs.create_tag(context, NAME, "short", snapshot_id=first.snapshot_id, max_ref_age=1)
    refs.create_tag(context, NAME, "long", snapshot_id=first.snapshot_id, max_ref_age=timedelta(days=9))
    maintenance.expire_snapshots(context, NAME, **ALL)
    assert [ref.name for ref in refs.list_refs(context, NAME)] == ["main", "long"]
    assert ids(context, ref="long") == [0]


def test_a_branch_keeps_as_many_snapshots_as_it_says(context, events):
    refs.create_branch(context, NAME, "audit", min_snapshots_to_keep=3)
    assert maintenance.expire_snapshots(context, NAME, **ALL) == 3
    assert len(refs.list_snapshots(context, NAME)) == 3


def test_expiry_that_loses_a_race_plans_anew(context, events, monkeypatch):
    original = type(context.catalog).commit_table
    losses = [CommitFailedException("another writer"), CommitFailedException("another writer")]

    def losing(self, table, requirements, updates):
        if losses and any(update.action == "remove-snapshots" for update in updates):
            raise losses.pop()
        return original(self, table, requirements, updates)

    monkeypatch.setattr(type(context.catalog), "commit_table", losing)
    assert maintenance.expire_snapshots(context, NAME, **ALL) == 5
    assert ids(context) == [10, 11]


def test_files_that_are_missing_already_do_not_stop_expiry(context, events):
    oldest = next(iter(events.snapshots()))
    local_path(oldest.manifest_list).unlink()
    assert maintenance.expire_snapshots(context, NAME, **ALL) == 5
    assert ids(context) == [10, 11]


def test_an_empty_table_has_nothing_to_expire(context, new_table):
    new_table("bronze.none", SCHEMA)
    assert maintenance.expire_snapshots(context, "bronze.none", **ALL) == 0


def test_without_spark_its_engine_names_the_extra(context, events):
    with pytest.raises(MissingDependencyError, match=r"floe-lakehouse\[spark\]"):
        maintenance.expire_snapshots(context, NAME, engine=Engine.SPARK, **ALL)


def test_an_open_manager_goes_on_after_another_one_expired(context, events, tmp_path):
    assert ids(context) == [10, 11]
    other = make_context(tmp_path)
    maintenance.compact_table(other, NAME)
    maintenance.expire_snapshots(other, NAME, **ALL)
    assert ids(context) == [10, 11]
    assert len(refs.list_snapshots(context, NAME)) == 1
