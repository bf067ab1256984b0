"""Off-boarding on the embedded catalog: removed, kept and blocking objects."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe_core.errors import (
    CatalogAuthorizationError,
    ConfigurationError,
    InvalidIdentifierError,
    LegalHoldError,
    NamespaceNotFoundError,
    SharedFilesError,
    StorageError,
)
from floe_storage.local import LocalObjectStore
from floe_tenancy import LEGAL_HOLD, OffboardingStep, TenantOffboarding

EVENTS = pa.schema([pa.field("event_id", pa.string())])


@pytest.fixture
def acme(session):
    session.bootstrap("acme")
    session.manager.append("tenants.acme.events", event("1"))
    session.manager.create_namespace("tenants.acme.bronze")
    session.manager.create_table("tenants.acme.bronze.raw", pa.schema([("a", pa.int64())]))
    return session


@pytest.fixture
def journals(tmp_path):
    return tmp_path / "journals"


@pytest.fixture
def offboarding(acme, journals):
    return TenantOffboarding(acme, journal_folder=journals)


def event(number):
    return pa.Table.from_pylist(
        [{"event_id": number, "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}]
    )


def everything(tenants):
    return sorted(path for path in tenants.folder.rglob("*") if path.is_file() and "catalog.db" not in path.name)


def test_the_plan_is_an_inventory_and_changes_nothing(offboarding, tenants, journals):
    before = everything(tenants)
    plan = offboarding.plan("acme")
    assert plan.namespaces == ("tenants.acme", "tenants.acme.bronze")
    assert {table.name: table.rows for table in plan.tables} == {
        "tenants.acme.bronze.raw": 0,
        "tenants.acme.events": 1,
        "tenants.acme.main": 0,
        "tenants.acme.metrics": 0,
    }
    assert plan.objects == len(tenants.digests("acme"))
    assert plan.bytes > 0
    assert plan.outside == plan.holds == plan.intruders == ()
    assert everything(tenants) == before
    assert not journals.exists()


def test_everything_of_the_tenant_goes(offboarding, acme, tenants, journals):
    steps = []
    result = offboarding.run("acme", on_step=steps.append)
    assert steps == [step for step in OffboardingStep if step not in {OffboardingStep.EXPORT, OffboardingStep.WAIT}]
    assert result.list_again_after is None
    assert result.deleted_objects == result.plan.objects
    assert tenants.digests("acme") == {}
    assert not (tenants.folder / "warehouse/tenants/acme").exists()
    assert acme.tenants() == []
    journal = json.loads(result.journal.read_text())
    assert journal["steps"]["inventory"]["tables"]["tenants.acme.events"] == 1
    assert journal["finished_at"]
    with pytest.raises(NamespaceNotFoundError):
        offboarding.run("acme")
    assert acme.bootstrap("acme").created_tables == ("main", "events", "metrics")


def test_tables_are_exported_first(offboarding, tmp_path):
    result = offboarding.run("acme", export_to=str(tmp_path / "out"))
    rows = pq.read_table(tmp_path / "out/tenants/acme/events.parquet")
    assert rows["event_id"].to_pylist() == ["1"]
    assert pq.read_table(tmp_path / "out/tenants/acme/bronze/raw.parquet").num_rows == 0
    assert result.exported["tenants.acme.events"] == 1
    assert len(result.exported) == 4


def test_an_export_into_the_tenants_own_prefix_is_refused(offboarding, tenants):
    with pytest.raises(ConfigurationError, match="off-boarding deletes this folder"):
        offboarding.run("acme", export_to=str(tenants.folder / "warehouse/tenants/acme/out"))
    assert offboarding.plan("acme").tables


@pytest.mark.parametrize("where", ["tenants.acme", "tenants.acme.bronze", "table"])
def test_a_legal_hold_stops_it(offboarding, acme, tenants, where):
    if where == "table":
        with acme.manager.load_table("tenants.acme.main").transaction() as change:
            change.set_properties({LEGAL_HOLD: "case 42"})
    else:
        acme.manager.namespaces.update_properties(where, updates={LEGAL_HOLD: "case 42"})
    before = everything(tenants)
    with pytest.raises(LegalHoldError, match="case 42"):
        offboarding.run("acme")
    assert everything(tenants) == before
    if where != "table":
        acme.manager.namespaces.update_properties(where, updates={LEGAL_HOLD: "false"})
        assert offboarding.run("acme").deleted_objects


@pytest.mark.parametrize("name", [LEGAL_HOLD, f"{LEGAL_HOLD}.acme"])
def test_a_hold_from_above_outlives_the_tenants_namespace(offboarding, acme, tenants, name):
    """Who may drop everything of its own can drop a hold that is set there; one set above is out of its reach."""
    acme.manager.namespaces.update_properties("tenants", updates={name: "case 42"})
    for namespace in ("tenants.acme.bronze", "tenants.acme"):
        for table in acme.manager.list_tables(namespace):
            acme.manager.drop_table(f"{namespace}.{table}")
        acme.manager.namespaces.delete(namespace)
    before = tenants.digests("acme")
    assert before
    with pytest.raises(LegalHoldError, match="case 42") as caught:
        offboarding.run("acme")
    assert name in caught.value.hint
    assert tenants.digests("acme") == before
    acme.manager.namespaces.update_properties("tenants", removals=[name])
    assert offboarding.run("acme").deleted_objects == len(before)


def test_a_hold_from_above_covers_one_tenant_and_all_that_floe_deletes(acme):
    acme.bootstrap("acme2")
    acme.manager.namespaces.update_properties("tenants", updates={f"{LEGAL_HOLD}.acme": "case 42"})
    for delete in (
        lambda table: acme.manager.expire_snapshots(table, older_than_days=0, retain_last=1),
        lambda table: acme.manager.sweep_orphans(table, dry_run=False),
        lambda table: acme.manager.drop_table(table, purge=True),
    ):
        with pytest.raises(LegalHoldError, match=r"'tenants\.acme' is under legal hold .case 42.") as caught:
            delete("tenants.acme.main")
        assert f"{LEGAL_HOLD}.acme on its parent" in caught.value.hint
        delete("tenants.acme2.main")


def test_a_table_that_shares_its_files_stops_it(offboarding, acme, tenants):
    with acme.manager.load_table("tenants.acme.main").transaction() as change:
        change.set_properties({"gc.enabled": "false"})
    before = everything(tenants)
    assert offboarding.plan("acme").sharing == ("tenants.acme.main",)
    with pytest.raises(SharedFilesError, match=r"tenants\.acme\.main"):
        offboarding.run("acme")
    assert everything(tenants) == before


def test_tables_of_others_in_the_prefix_stop_it(offboarding, acme):
    acme.manager.create_namespace("other")
    schema = pa.schema([("a", pa.int64())])
    acme.manager.create_table("other.hidden", schema, location=acme.config.table_location("acme", "hidden"))
    with pytest.raises(ConfigurationError, match=r"other\.hidden"):
        offboarding.run("acme")
    assert acme.manager.table_exists("tenants.acme.main")


def test_files_beyond_the_prefix_are_left_and_named(offboarding, acme, tmp_path):
    place = f"file://{tmp_path}/elsewhere/wild"
    acme.manager.create_table("tenants.acme.wild", pa.schema([("a", pa.int64())]), location=place)
    result = offboarding.run("acme")
    assert place in result.plan.outside
    assert list((tmp_path / "elsewhere/wild/metadata").iterdir())


@pytest.mark.parametrize(
    "deadly", [OffboardingStep.REVOKE, OffboardingStep.DROP, OffboardingStep.PURGE, OffboardingStep.VERIFY]
)
def test_a_run_that_died_is_taken_up_by_the_next(offboarding, acme, tenants, tmp_path, deadly):
    def die(step):
        if step is deadly:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        offboarding.run("acme", export_to=str(tmp_path / "out"), on_step=die)
    result = offboarding.run("acme", export_to=str(tmp_path / "out"))
    assert result.resumed
    assert result.exported["tenants.acme.events"] == 1
    assert pq.read_table(tmp_path / "out/tenants/acme/events.parquet").num_rows == 1
    assert tenants.digests("acme") == {}
    assert acme.tenants() == []
    first = json.loads(result.journal.read_text())["steps"]["inventory"]
    assert first["tables"]["tenants.acme.events"] == 1


def test_rows_that_came_after_a_dead_run_are_exported_too(offboarding, acme, tmp_path):
    def die(step):
        if step is OffboardingStep.REVOKE:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        offboarding.run("acme", export_to=str(tmp_path / "out"), on_step=die)
    acme.manager.append("tenants.acme.events", event("2"))
    offboarding.run("acme", export_to=str(tmp_path / "out"))
    rows = pq.read_table(tmp_path / "out/tenants/acme/events.parquet")
    assert sorted(rows["event_id"].to_pylist()) == ["1", "2"]


def test_a_listing_that_shows_something_left_is_an_error(offboarding, acme, tenants, monkeypatch):
    def writes_on(step):
        if step is OffboardingStep.VERIFY:
            LocalObjectStore(tenants.folder / "warehouse").create("tenants/acme/late.parquet", b"x")

    with pytest.raises(StorageError, match="is not completely removed"):
        offboarding.run("acme", on_step=writes_on)
    assert offboarding.run("acme").deleted_objects == 1


def test_bad_ids_and_damaged_journals(offboarding, journals):
    with pytest.raises(InvalidIdentifierError):
        offboarding.plan("../acme")
    journals.mkdir()
    (journals / "tenants.acme.json").write_text("{")
    with pytest.raises(ConfigurationError, match="journal"):
        offboarding.run("acme")


@pytest.fixture
def broken(acme, tenants, journals):
    """Give a way to lose a table's metadata file, and to off-board in a session that has not read it."""
    sessions = ExitStack()

    def lose(name):
        location = acme.manager.load_table(name).metadata_location
        Path(location.removeprefix("file://")).unlink()
        session = sessions.enter_context(tenants.bootstrapper.session(tenants.config))
        return TenantOffboarding(session, journal_folder=journals)

    with sessions:
        yield lose


def test_broken_tables_of_the_tenant_are_named_and_dropped_unread(broken, tenants, tmp_path):
    offboarding = broken("tenants.acme.events")
    plan = offboarding.plan("acme")
    assert [table.name for table in plan.broken] == ["tenants.acme.events"]
    result = offboarding.run("acme", export_to=str(tmp_path / "out"))
    assert list(result.not_exported) == ["tenants.acme.events"]
    assert "cannot read it" in result.not_exported["tenants.acme.events"]
    assert len(result.exported) == 3
    assert tenants.digests("acme") == {}


def test_a_broken_table_of_somebody_else_blocks_nobody(broken, acme, tenants):
    acme.bootstrap("beta")
    offboarding = broken("tenants.beta.main")
    plan = offboarding.plan("acme")
    assert not plan.is_blocked
    assert plan.unreadable == ("tenants.beta.main",)
    before = tenants.digests("beta")
    assert offboarding.run("acme").deleted_objects
    assert tenants.digests("beta") == before


def test_a_broken_table_of_somebody_else_in_the_prefix_stops_it(broken, acme):
    acme.manager.create_namespace("other")
    schema = pa.schema([("a", pa.int64())])
    acme.manager.create_table("other.hidden", schema, location=acme.config.table_location("acme", "hidden"))
    offboarding = broken("other.hidden")
    assert offboarding.plan("acme").unreadable == ("other.hidden",)
    with pytest.raises(ConfigurationError, match=r"other\.hidden"):
        offboarding.run("acme")


def plant_view(tenants, namespace, name):
    """Make a view as Spark does: a row beside those of the tables."""
    with sqlite3.connect(next(tenants.folder.rglob("catalog.db"))) as database:
        database.execute(
            "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type)"
            " VALUES ('floe', ?, ?, 'file:/x', 'VIEW')",
            (namespace, name),
        )


def test_views_are_listed_and_dropped(offboarding, acme, tenants):
    plant_view(tenants, "tenants.acme.bronze", "daily")
    plan = offboarding.plan("acme")
    assert [str(content) for content in plan.contents] == ["view tenants.acme.bronze.daily"]
    result = offboarding.run("acme")
    assert '"view tenants.acme.bronze.daily"' in result.journal.read_text()
    assert acme.tenants() == []


def test_what_cannot_be_dropped_is_named_and_nothing_is_deleted(offboarding, acme, tenants, monkeypatch):
    plant_view(tenants, "tenants.acme.bronze", "daily")
    inner = acme.manager.catalog.inner if hasattr(acme.manager.catalog, "inner") else acme.manager.catalog

    def refuse(identifier):
        msg = f"No drop of {'.'.join(identifier)}."
        raise CatalogAuthorizationError(msg)

    before = tenants.digests("acme")
    with monkeypatch.context() as patch:
        patch.setattr(inner, "drop_view", refuse)
        with pytest.raises(StorageError, match=r"view tenants\.acme\.bronze\.daily .No drop of") as caught:
            offboarding.run("acme")
    assert "No files were deleted" in caught.value.hint
    assert tenants.digests("acme") == before
    result = offboarding.run("acme")
    assert result.resumed
    assert tenants.digests("acme") == {}


@pytest.mark.parametrize("trick", ["location", "data path", "dots", "manifest"])
def test_an_export_never_reads_beyond_the_tenants_prefix(offboarding, acme, tenants, tmp_path, trick):
    """A tenant writes its own metadata; an export reads with the administrator's keys."""
    acme.bootstrap("beta")
    acme.manager.append("tenants.beta.events", event("secret"))
    victim = acme.config.table_location("beta", "events")
    own = acme.config.table_location("acme", "spy")
    schema = acme.manager.load_table("tenants.beta.events").schema().as_arrow()
    places = {"location": victim, "dots": f"{own}/../../beta/events"}
    properties = {"write.data.path": f"{victim}/data"} if trick == "data path" else {}
    spy = acme.manager.create_table("tenants.acme.spy", schema, location=places.get(trick, own), properties=properties)
    if trick == "manifest":
        theirs = next(iter(acme.manager.files("tenants.beta.events"))).path
        with spy.transaction() as change:
            change.add_files([theirs])
    result = offboarding.run("acme", export_to=str(tmp_path / "out"))
    assert "outside the tenant's prefixes" in result.not_exported["tenants.acme.spy"]
    assert "tenants.acme.spy" not in result.exported
    assert not (tmp_path / "out/tenants/acme/spy.parquet").exists()
    assert acme.manager.scan("tenants.beta.events").num_rows == 1


def late_writer(tenants, key="tenants/acme/late.parquet"):
    LocalObjectStore(tenants.folder / "warehouse").create(key, b"x")


def test_what_old_keys_write_is_deleted_until_they_end(offboarding, acme, tenants, monkeypatch):
    monkeypatch.setattr("floe_tenancy.offboarding.offboard._POLL_SECONDS", 0.1)
    steps = []

    def write(step):
        steps.append(step)
        if step is OffboardingStep.WAIT:
            late_writer(tenants)

    result = offboarding.run("acme", grace=timedelta(seconds=0.5), on_step=write)
    assert OffboardingStep.WAIT in steps
    assert result.list_again_after is None
    assert result.deleted_objects == result.plan.objects + 1
    assert tenants.digests("acme") == {}


def test_without_waiting_the_journal_remembers_to_list_again(offboarding, acme, tenants, journals):
    grace = timedelta(seconds=2)
    first = offboarding.run("acme", grace=grace, wait=False)
    assert first.list_again_after > datetime.now(UTC)
    assert first.journal == journals / "tenants.acme.json"
    assert "finished_at" not in json.loads(first.journal.read_text())
    late_writer(tenants)
    # Before that time, it deletes new files and keeps waiting.
    again = offboarding.run("acme", wait=False)
    assert (again.resumed, again.deleted_objects) == (True, 1)
    assert again.list_again_after == first.list_again_after
    late_writer(tenants)
    time.sleep(max(0.0, (first.list_again_after - datetime.now(UTC)).total_seconds()))
    last = offboarding.run("acme", wait=False)
    assert (last.list_again_after, last.deleted_objects) == (None, 1)
    assert tenants.digests("acme") == {}
    assert json.loads(last.journal.read_text())["steps"]["purge"]["deleted"] == first.deleted_objects + 2


def test_a_tenant_that_was_made_again_meanwhile_loses_nothing(offboarding, acme, tenants):
    offboarding.run("acme", grace=timedelta(hours=1), wait=False)
    acme.bootstrap("acme")
    before = tenants.digests("acme")
    with pytest.raises(ConfigurationError, match="created again"):
        offboarding.run("acme", wait=False)
    assert tenants.digests("acme") == before


def test_generic_tables_are_listed_and_dropped(offboarding, acme, monkeypatch):
    catalog = acme.manager.catalog.inner
    held = {("tenants", "acme", "bronze"): ["deltas"]}
    monkeypatch.setattr(catalog, "list_generic_tables", lambda parts: held.get(tuple(parts), []), raising=False)
    monkeypatch.setattr(
        catalog, "drop_generic_table", lambda parts, name: held[tuple(parts)].remove(name), raising=False
    )
    plan = offboarding.plan("acme")
    assert [str(content) for content in plan.contents] == ["generic table tenants.acme.bronze.deltas"]
    offboarding.run("acme")
    assert held == {("tenants", "acme", "bronze"): []}


def test_strange_names_stand_in_nobodys_way(offboarding, acme, tenants):
    """A server may accept names that floe does not: whoever makes one must not stop everybody else's work."""
    acme.bootstrap("beta")
    acme.manager.catalog.inner.create_table(("tenants", "acme", "a/b"), EVENTS)
    acme.manager.catalog.inner.create_table(("tenants", "beta", "x#y"), EVENTS)
    assert acme.manager.list_tables("tenants.acme") == ["events", "main", "metrics"]
    plan = offboarding.plan("acme")
    assert [str(content) for content in plan.contents] == ["table tenants.acme.'a/b'"]
    before = tenants.digests("beta")
    offboarding.run("acme")
    assert acme.tenants() == ["beta"]
    assert tenants.digests("acme") == {}
    assert tenants.digests("beta") == before
