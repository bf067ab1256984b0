"""Expiry: selection of snapshots, lost replies, and the choice of engine."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.table.statistics import StatisticsFile
from pyiceberg.table.update import SetPropertiesUpdate, SetSnapshotRefUpdate

from floe_core.dataplane import MaintenanceFigures
from floe_core.errors import ConfigurationError, LegalHoldError, SharedFilesError, UnsafeRetentionError
from floe_iceberg import maintenance
from floe_iceberg.maintenance import expiry
from floe_iceberg.table import refs
from floe_iceberg.table.history.keeping import Keeping, time_before
from floe_testing.embedded_tables import age_snapshots, files_of, local_path

pytest_plugins = ["floe_testing.table_fixtures"]

NAME = "bronze.events"
SCHEMA = pa.schema([("id", pa.int64())])
ALL = {"older_than_days": 0, "retain_last": 1}


@pytest.fixture
def events(new_table):
    """Five snapshots, of which the fourth drops what came before it."""
    table = new_table(NAME, SCHEMA)
    for number in range(3):
        table.append(pa.table({"id": [number]}, schema=SCHEMA))
    table.delete("id >= 0")
    table.append(pa.table({"id": [9]}, schema=SCHEMA))
    return table


def there(context):
    return [info.snapshot_id for info in refs.list_snapshots(context, NAME, limit=None)]


def test_the_figures_are_those_of_the_files_that_went(context, events):
    def kept():
        files = {path: path.stat().st_size for path in files_of(events)}
        kinds = {
            "lists": [path for path in files if path.name.startswith("snap-")],
            "manifests": [path for path in files if path.suffix == ".avro" and not path.name.startswith("snap-")],
            "data": [path for path in files if path.suffix == ".parquet"],
        }
        sizes = sum(files[path] for path in (*kinds["manifests"], *kinds["data"]))
        return {kind: len(paths) for kind, paths in kinds.items()} | {"bytes": sizes}

    before = kept()
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    gone = {kind: count - kept()[kind] for kind, count in before.items()}
    assert gone == {
        "lists": expired.deleted_manifest_lists,
        "manifests": expired.deleted_manifests,
        "data": expired.deleted_data_files,
        "bytes": expired.deleted_bytes,
    }
    assert (expired, gone["lists"], gone["data"]) == (4, 4, 3)
    assert (expired.deleted_statistics_files, expired.foreign_files) == (0, ())


def test_statistics_of_expired_snapshots_go_and_are_counted_on_their_own(context, events):
    first, *_, last = events.snapshots()
    with events.update_statistics() as update:
        for snapshot in (first, last):
            path = f"{events.location()}/metadata/{snapshot.snapshot_id}.stats"
            local_path(path).write_bytes(b"PFA1")
            update.set_statistics(
                StatisticsFile(
                    snapshot_id=snapshot.snapshot_id,
                    statistics_path=path,
                    file_size_in_bytes=4,
                    file_footer_size_in_bytes=4,
                    blob_metadata=[],
                )
            )
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    assert (expired.deleted_statistics_files, expired.deleted_manifest_lists) == (1, 4)
    assert [path.stem for path in files_of(events, ".stats")] == [str(last.snapshot_id)]


def test_an_expiry_that_keeps_no_snapshot_is_refused(context, events):
    with pytest.raises(UnsafeRetentionError, match="retain_last must be 1 or more, not 0"):
        maintenance.expire_snapshots(context, NAME, retain_last=0)


def test_chosen_snapshots_go_alone_however_old_the_others_are(context, events):
    with events.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": "1"})
    chosen = there(context)[2]
    assert maintenance.expire_snapshots(context, NAME, snapshot_ids=[chosen]).snapshot_ids == (chosen,)
    assert len(there(context)) == 4
    # Combined with an age, both conditions apply.
    chosen, *_ = there(context)[1:]
    assert maintenance.expire_snapshots(context, NAME, snapshot_ids=[chosen], **ALL) == 3


@pytest.mark.parametrize(
    ("properties", "error"),
    [({"gc.enabled": "false"}, SharedFilesError), ({"floe.legal-hold": "case 12"}, LegalHoldError)],
    ids=["shared files", "legal hold"],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_table_that_may_lose_nothing_is_left_alone(context, events, properties, error, dry_run):
    with events.transaction() as transaction:
        transaction.set_properties(properties)
    with pytest.raises(error, match="Expiry"):
        maintenance.expire_snapshots(context, NAME, dry_run=dry_run, **ALL)
    assert len(there(context)) == 5


def test_manifests_of_old_snapshots_that_are_missing_already_do_not_stop_an_expiry(context, events):
    first = next(iter(events.snapshots()))
    for manifest in first.manifests(events.io):
        local_path(manifest.manifest_path).unlink()
    assert maintenance.expire_snapshots(context, NAME, **ALL) == 4


def test_an_expiry_leaves_its_figures_in_its_span(context, events, spans):
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    [span] = [span for span in spans() if span.name == "iceberg.expire_snapshots"]
    told = {key.removeprefix("iceberg."): value for key, value in span.attributes.items()}
    assert (told["engine"], told["snapshots"], told["data_files"]) == ("arrow", 4, 3)
    assert (told["manifests"], told["bytes"]) == (expired.deleted_manifests, expired.deleted_bytes)


def test_what_another_run_expired_meanwhile_is_not_expired_again(context, events, monkeypatch):
    original, tries = type(context.catalog).commit_table, []

    def commit_table(self, table, requirements, updates):
        if not any(update.action == "remove-snapshots" for update in updates) or tries:
            return original(self, table, requirements, updates)
        tries.append(updates)
        original(self, table, requirements, updates)
        raise CommitFailedException

    monkeypatch.setattr(type(context.catalog), "commit_table", commit_table)
    before = context.load(NAME).metadata_location
    assert maintenance.expire_snapshots(context, NAME, **ALL) == 0
    assert len(tries) == 1
    assert len(there(context)) == 1
    assert context.load(NAME).metadata_location != before


def test_young_snapshots_of_a_declared_retention_cannot_be_chosen_unless_it_is_said(context, events):
    with events.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(90 * 24 * 3600 * 1000)})
    first = there(context)[-1]
    with pytest.raises(UnsafeRetentionError, match="must be kept for 90 days"):
        maintenance.expire_snapshots(context, NAME, snapshot_ids=[first])
    assert maintenance.expire_snapshots(context, NAME, snapshot_ids=[first], allow_below_retention=True) == 1


@pytest.mark.parametrize("age", ["soon", str(2**63)], ids=["no number", "too long for Java"])
def test_an_age_that_is_none_is_refused(context, events, age):
    with events.transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": age})
    with pytest.raises(UnsafeRetentionError, match="which is not an age"):
        maintenance.expire_snapshots(context, NAME)


@pytest.mark.parametrize("name", ["history.expire.min-snapshots-to-keep", "history.expire.max-ref-age-ms"])
def test_a_number_that_is_none_is_refused(context, events, name):
    with events.transaction() as transaction:
        transaction.set_properties({name: "all"})
    with pytest.raises(UnsafeRetentionError, match=f"{name}.*'all'"):
        maintenance.expire_snapshots(context, NAME)


def test_the_longest_age_keeps_everything(context, events):
    age_snapshots(events, *(timedelta(days=10_000) for _ in events.snapshots()))
    with context.load(NAME).transaction() as transaction:
        transaction.set_properties({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert maintenance.expire_snapshots(context, NAME) == 0
    with pytest.raises(UnsafeRetentionError, match="must be kept for 365000 days"):
        maintenance.expire_snapshots(context, NAME, older_than_days=9_000)


def test_the_longest_number_of_days_keeps_everything(context, events):
    age_snapshots(events, *(timedelta(days=10_000) for _ in events.snapshots()))
    assert maintenance.expire_snapshots(context, NAME, older_than_days=365_000) == 0
    assert time_before(timedelta(days=365_000)) == datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("days", [-1, math.nan, math.inf, 365_001])
def test_days_that_cannot_be_are_refused(context, events, days):
    with pytest.raises(UnsafeRetentionError, match="older_than_days must be between 0 and 365000"):
        maintenance.expire_snapshots(context, NAME, older_than_days=days)


@pytest.mark.parametrize("moment", [10**18, datetime.min])  # noqa: DTZ901 - as a caller may give it
def test_a_moment_that_cannot_be_is_refused(context, events, moment):
    with pytest.raises(ConfigurationError, match="outside the supported range of dates"):
        maintenance.expire_snapshots(context, NAME, older_than=moment)


@pytest.mark.parametrize(
    ("hours", "days", "text"), [(24, 1, "1 day"), (48, 2, "2 days"), (36, 1.5, "1.5 days"), (0, 0, "0 days")]
)
def test_an_age_is_told_in_days(hours, days, text):
    keeping = Keeping(timedelta(hours=hours), (), declared=False)
    assert (keeping.days, type(keeping.days), keeping.text) == (days, type(days), text)


@pytest.fixture
def lost_answers(context, monkeypatch):
    """Lose the answers to expiries, as often as is said, after or before they landed; count the tries."""
    tries = []

    def arrange(*landed):
        original, left = type(context.catalog).commit_table, list(landed)

        def commit_table(self, table, requirements, updates):
            # The commits of the lease contain other changes as well.
            if not {update.action for update in updates} <= {"remove-snapshots", "remove-snapshot-ref"}:
                return original(self, table, requirements, updates)
            tries.append(len(updates))
            if not left or left.pop(0):
                answer = original(self, table, requirements, updates)
                if len(tries) > len(landed):
                    return answer
            raise CommitStateUnknownException

        monkeypatch.setattr(type(context.catalog), "commit_table", commit_table)
        return tries

    return arrange


def test_an_expiry_that_landed_unheard_deletes_its_files_and_is_not_done_again(context, events, lost_answers):
    tries = lost_answers(True)
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    assert (expired, expired.deleted_data_files, len(tries)) == (4, 3, 1)
    assert len(files_of(events, ".parquet")) == 1


def test_an_expiry_that_did_not_land_is_done_again(context, events, lost_answers):
    tries = lost_answers(False, False)
    expired = maintenance.expire_snapshots(context, NAME, **ALL)
    assert (expired, expired.deleted_data_files, len(tries)) == (4, 3, 3)
    assert len(there(context)) == 1


def test_a_tag_that_landed_unheard_as_removed_is_not_removed_again(context, events, lost_answers):
    head = there(context)[0]
    refs.create_tag(context, NAME, "short", snapshot_id=head, max_ref_age=1)
    tries = lost_answers(True)
    assert maintenance.expire_snapshots(context, NAME, retain_last=5, older_than_days=0) == 0
    assert len(tries) == 1
    assert [ref.name for ref in refs.list_refs(context, NAME)] == ["main"]


def test_a_tag_that_was_not_removed_is_removed_by_the_next_try(context, events, lost_answers):
    refs.create_tag(context, NAME, "short", snapshot_id=there(context)[0], max_ref_age=1)
    tries = lost_answers(False)
    assert maintenance.expire_snapshots(context, NAME, retain_last=5, older_than_days=0) == 0
    assert len(tries) == 2
    assert [ref.name for ref in refs.list_refs(context, NAME)] == ["main"]


class Engine:
    """Stands for Spark: takes down what it is asked for, and expires by PyIceberg's own means."""

    name = "spark"

    def __init__(self, context, outside=()):
        self.calls = []
        self.outside = outside
        self.looked_for = None
        self._context = context

    def files_outside(self, table, *, prefixes, limit):
        self.looked_for = (table, tuple(prefixes), limit)
        return tuple(self.outside)

    def expire_snapshots(self, table, **asked):
        self.calls.append((table, asked))
        loaded = self._context.load(table)
        old = [snapshot.snapshot_id for snapshot in loaded.snapshots()][:2]
        loaded.maintenance.expire_snapshots().by_ids(old).commit()
        return MaintenanceFigures(
            deleted_data_files=3,
            deleted_delete_files=2,
            deleted_manifests=4,
            deleted_manifest_lists=5,
            deleted_statistics_files=6,
        )


@pytest.fixture
def by_engine(context, events):
    """Expire with an engine that finds files of some names."""

    def expire(*outside, **options):
        engine = Engine(context, outside)
        expired = maintenance.expire_snapshots(replace(context, plane=lambda: engine), NAME, engine="spark", **options)
        return engine, expired

    return expire


def test_an_engine_is_asked_what_the_caller_asked_and_its_figures_are_told(by_engine, events):
    moment = datetime(2020, 1, 1, tzinfo=UTC)
    # No snapshot is that old; an explicitly selected one is still expired.
    ids = [snapshot.snapshot_id for snapshot in events.snapshots()]
    engine, expired = by_engine(older_than=moment, retain_last=2, snapshot_ids=ids[:2])
    asked = {"older_than": moment, "retain_last": 2, "snapshot_ids": tuple(ids[:2])}
    assert engine.calls == [(NAME, asked)]
    table, prefixes, limit = engine.looked_for
    assert (table, limit) == (NAME, 1000)
    assert any(events.location().startswith(prefix.rstrip("/")) for prefix in prefixes)
    assert expired.snapshot_ids == tuple(ids[:2])
    assert (expired, expired.deleted_data_files, expired.deleted_manifests) == (2, 5, 4)
    assert (expired.deleted_manifest_lists, expired.deleted_statistics_files) == (5, 6)


def test_an_engine_that_expires_chosen_snapshots_takes_none_by_age(by_engine, events):
    first = next(iter(events.snapshots())).snapshot_id
    engine, _ = by_engine(snapshot_ids=[first])
    [(_, asked)] = engine.calls
    assert asked["older_than"] == datetime(1970, 1, 1, tzinfo=UTC)


def test_an_engine_gets_no_table_with_files_of_others(by_engine, context):
    engine, expired = by_engine("file:///elsewhere/data/a.parquet", **ALL)
    assert engine.calls == []
    assert (expired, len(there(context))) == (4, 1)


def test_an_engine_gets_no_table_with_links_to_elsewhere_in_its_folder(by_engine, context, events, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (local_path(events.location()) / "data" / "link").symlink_to(tmp_path / "elsewhere")
    engine, expired = by_engine(**ALL)
    assert (engine.looked_for, engine.calls, expired) == (None, [], 4)


@pytest.mark.parametrize(("count", "engine_does_it"), [(999, True), (1000, False)])
def test_an_engine_gets_no_table_with_more_strange_names_than_were_looked_at(by_engine, events, count, engine_does_it):
    own = [f"{events.location()}/data/strange-{number}.parquet" for number in range(count)]
    engine, _ = by_engine(*own, **ALL)
    assert bool(engine.calls) is engine_does_it


def test_a_table_that_only_an_engine_can_change_is_left_alone_with_files_of_others(
    by_engine, context, events, monkeypatch
):
    monkeypatch.setattr(expiry, "commits_by_engine", lambda *_: True)
    with pytest.raises(SharedFilesError, match=r"outside its location, such as 'file:///elsewhere/a.parquet'"):
        by_engine("file:///elsewhere/a.parquet", **ALL)
    assert len(there(context)) == 5
    engine, _ = by_engine(**ALL)
    assert engine.calls


@pytest.fixture
def undercut(context, events):
    """The table asks for 90 days, main for a moment; one snapshot is older than both, and three than main's."""
    update = SetSnapshotRefUpdate(
        ref_name="main",
        type="branch",
        snapshot_id=events.current_snapshot().snapshot_id,
        max_snapshot_age_ms=1,
        min_snapshots_to_keep=1,
        max_ref_age_ms=None,
    )
    asked = SetPropertiesUpdate(updates={"history.expire.max-snapshot-age-ms": str(90 * 24 * 3600 * 1000)})
    context.catalog.commit_table(context.load(NAME), (), (update, asked))
    return age_snapshots(context.load(NAME), *(timedelta(days=days) for days in (100, 80, 20, 10, 0)))


@pytest.mark.parametrize("chosen", [False, True], ids=["by age", "chosen"])
def test_an_engine_gets_no_table_of_which_it_would_expire_more_than_it_may(by_engine, undercut, chosen):
    engine, expired = by_engine(snapshot_ids=undercut[:1] if chosen else ())
    assert (engine.calls, expired.snapshot_ids) == ([], undercut[:1])
    with pytest.raises(UnsafeRetentionError, match="must be kept for 90 days"):
        by_engine(snapshot_ids=undercut[1:2])
    engine, _ = by_engine(allow_below_retention=True)
    assert engine.calls


def test_a_table_that_only_an_engine_can_change_is_not_expired_further_than_it_may(
    by_engine, context, undercut, monkeypatch
):
    monkeypatch.setattr(expiry, "commits_by_engine", lambda *_: True)
    with pytest.raises(UnsafeRetentionError, match=f"that must be kept, such as {min(undercut[1:4])}"):
        by_engine()
    assert len(there(context)) == 5
