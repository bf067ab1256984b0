"""Schema evolution, for one table and for all tenants."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from floe_core.errors import SchemaEvolutionError, TableNotFoundError
from floe_core.schemas import ColumnConfig
from floe_tenancy import DEFAULT_TABLES, SchemaEvolutionManager, TenantState, bootstrap_many, evolve_all

EVENTS = DEFAULT_TABLES[1]
DEVICE = ColumnConfig(name="device", type="string", doc="What it happened on")


def wider(*columns):
    return EVENTS.model_copy(update={"columns": (*EVENTS.columns, *columns)})


@pytest.fixture
def acme(session):
    session.bootstrap("acme")
    return session


@pytest.fixture
def evolution(acme):
    return SchemaEvolutionManager(acme.manager.catalog)


def columns(session, table="tenants.acme.events"):
    return [field.name for field in session.manager.load_table(table).schema().fields]


@pytest.mark.req("TN-06")
def test_missing_optional_columns_are_added_and_seen_at_once(acme, evolution):
    plan = evolution.plan(("tenants", "acme", "events"), wider(DEVICE).columns)
    assert [change.column for change in plan.changes] == ["device"]
    assert "device" not in columns(acme)
    table = evolution.apply(plan)
    assert table.schema().find_field("device").doc == "What it happened on"
    assert columns(acme)[-1] == "device"
    assert evolution.plan("tenants.acme.events", wider(DEVICE).columns).in_step


@pytest.mark.req("TN-06")
def test_old_rows_read_null_in_a_new_column(acme, evolution):
    row = {"event_id": "1", "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}
    acme.manager.append("tenants.acme.events", pa.Table.from_pylist([row]))
    evolution.evolve("tenants.acme.events", wider(DEVICE).columns)
    acme.manager.append("tenants.acme.events", pa.Table.from_pylist([row | {"event_id": "2", "device": "phone"}]))
    rows = acme.manager.scan("tenants.acme.events").sort_by("event_id")
    assert rows["device"].to_pylist() == [None, "phone"]


@pytest.mark.req("TN-06")
def test_required_columns_are_refused_with_the_reason(acme, evolution):
    required = ColumnConfig(name="device", type="string", required=True)
    with pytest.raises(SchemaEvolutionError, match="existing rows have no value") as refused:
        evolution.plan("tenants.acme.events", wider(required, ColumnConfig(name="other", type="long")).columns)
    assert [mismatch.column for mismatch in refused.value.mismatches] == ["device"]
    assert "device" not in columns(acme)


@pytest.mark.req("TN-08")
def test_columns_are_renamed_and_reordered_on_request(acme, evolution):
    wanted = [ColumnConfig(name=name, type="string") for name in ("origin", "event_type", "device")]
    plan = evolution.plan("tenants.acme.events", wanted, renames={"source": "origin"}, reorder=True)
    evolution.apply(plan)
    assert columns(acme)[:3] == ["origin", "event_type", "device"]
    assert set(columns(acme)[3:]) == {"event_id", "occurred_at", "ingested_at", "payload"}
    again = evolution.plan("tenants.acme.events", wanted, renames={"source": "origin"}, reorder=True)
    assert again.in_step


def test_columns_that_are_not_named_stay(acme, evolution):
    before = columns(acme)
    evolution.evolve("tenants.acme.events", [DEVICE])
    assert columns(acme) == [*before, "device"]


def test_an_unknown_table_is_an_error(evolution):
    with pytest.raises(TableNotFoundError):
        evolution.plan("tenants.acme.nope", [DEVICE])


@pytest.mark.req("TN-06")
def test_a_change_is_rolled_over_all_tenants_with_a_report(tenants, session):
    seen = []
    made = bootstrap_many(tenants.bootstrapper, ["a", "b", "c", "d"], tenants.config, on_progress=seen.append)
    assert made.ok
    assert {outcome.tenant for outcome in seen} == {"a", "b", "c", "d"}
    session.manager.drop_table("tenants.b.events")
    SchemaEvolutionManager(session.manager).evolve("tenants.c.events", [DEVICE])
    planned = evolve_all(tenants.bootstrapper, wider(DEVICE), tenants.config, dry_run=True)
    assert planned.outcomes[0].detail == "would add device"
    assert "device" not in columns(session, "tenants.a.events")
    report = evolve_all(tenants.bootstrapper, wider(DEVICE), tenants.config)
    assert [outcome.state.value for outcome in report.outcomes] == ["done", "skipped", "skipped", "done"]
    assert [outcome.detail for outcome in report.outcomes] == [
        "added device",
        "no table events",
        "up to date",
        "added device",
    ]


def test_one_tenants_failure_stops_nobody_else(tenants, session):
    bootstrap_many(tenants.bootstrapper, ["a", "b", "c"], tenants.config)
    metadata = session.manager.load_table("tenants.b.events").metadata_location.removeprefix("file://")
    with open(metadata, "w") as broken:  # noqa: PTH123 - a location, not a path of ours
        broken.write("{")
    report = evolve_all(tenants.bootstrapper, wider(DEVICE), tenants.config)
    assert [outcome.state for outcome in report.outcomes] == [TenantState.DONE, TenantState.FAILED, TenantState.DONE]
    assert not report.ok
    again = bootstrap_many(tenants.bootstrapper, ["a", "a", "c"], tenants.config)
    assert [(outcome.tenant, outcome.state) for outcome in again.outcomes] == [
        ("a", TenantState.SKIPPED),
        ("c", TenantState.SKIPPED),
    ]
