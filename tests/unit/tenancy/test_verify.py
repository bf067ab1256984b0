"""Verification detects every deviation from the layout."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from floe_core.errors import InvalidIdentifierError
from floe_core.schemas import ColumnConfig
from floe_tenancy import DEFAULT_TABLES, CheckState, verify_tenant, verify_tenants

EVENT = pa.Table.from_pylist(
    [{"event_id": "1", "event_type": "click", "occurred_at": datetime(2026, 1, 1, tzinfo=UTC)}]
)


@pytest.fixture
def acme(session):
    session.bootstrap("acme")
    return session


def failures(session, tenant="acme", tables=DEFAULT_TABLES):
    report = verify_tenant(session, tenant, tables)
    return {check.name: check.detail for check in report.checks if check.state is CheckState.FAILED}


@pytest.mark.req("TN-01")
def test_a_fresh_tenant_passes(acme):
    assert failures(acme) == {}
    acme.bootstrap("beta")
    assert [report.ok for report in verify_tenants(acme, ["acme", "beta"])] == [True, True]


def test_an_unknown_tenant_fails(acme):
    assert {"namespace", "location", "markers", "tables"} <= failures(acme, "beta").keys()
    with pytest.raises(InvalidIdentifierError):
        verify_tenant(acme, "../acme")


def test_a_foreign_file_is_found(acme, tenants):
    stray = tenants.folder / "warehouse/tenants/acme/notes.txt"
    stray.write_text("whose?")
    assert failures(acme) == {"foreign files": f"file://{stray}"}


def test_a_file_beside_a_table_of_a_similar_name_is_found(acme, tenants):
    stray = tenants.folder / "warehouse/tenants/acme/events2/data.parquet"
    stray.parent.mkdir()
    stray.write_text("x")
    assert list(failures(acme)) == ["foreign files"]


def test_a_missing_or_foreign_marker_is_found(acme, tenants):
    marker = tenants.folder / "warehouse/tenants/acme/.catalog-bootstrap"
    marker.write_text('{"tenant": "beta"}')
    assert "belongs to tenant 'beta'" in failures(acme)["markers"]
    marker.unlink()
    assert "missing" in failures(acme)["markers"]


def test_a_location_that_was_changed_is_found(acme):
    acme.manager.namespaces.update_properties("tenants.acme", updates={"location": "file:///elsewhere"})
    assert "file:///elsewhere" in failures(acme)["location"]


def test_a_missing_table_or_column_is_found(acme):
    acme.manager.drop_table("tenants.acme.metrics")
    [main, events, metrics] = DEFAULT_TABLES
    wider = events.model_copy(update={"columns": (*events.columns, ColumnConfig(name="device", type="string"))})
    detail = failures(acme, tables=(main, wider, metrics))["tables"]
    assert "metrics is missing" in detail
    assert "events is missing columns: device" in detail


def test_a_table_elsewhere_is_found(acme, tmp_path):
    columns = pa.schema([("a", pa.int64())])
    acme.manager.create_table("tenants.acme.wild", columns, location=f"file://{tmp_path}/elsewhere/wild")
    assert "wild" in failures(acme)["table locations"]


def test_a_data_file_elsewhere_is_found(acme, tmp_path):
    rows = pa.table({"a": pa.array([1], pa.int64())})
    acme.manager.create_table(
        "tenants.acme.borrowed", rows.schema, location=acme.config.table_location("acme", "borrowed")
    )
    pq.write_table(rows, tmp_path / "outside.parquet")
    acme.manager.load_table("tenants.acme.borrowed").add_files([f"file://{tmp_path}/outside.parquet"])
    assert "outside.parquet" in failures(acme)["data files"]


def test_a_table_of_others_in_the_prefix_is_found(acme):
    location = acme.config.table_location("acme", "hidden")
    acme.manager.create_namespace("other")
    acme.manager.create_table("other.hidden", pa.schema([("a", pa.int64())]), location=location)
    found = failures(acme)
    assert "other.hidden" in found["tables of others"]
    assert "hidden" in found["foreign files"]


def test_tables_in_namespaces_below_are_the_tenants_own(acme):
    acme.manager.create_namespace("tenants.acme.bronze")
    rows = pa.table({"at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)])})
    acme.manager.create_table("tenants.acme.bronze.orders", rows.schema)
    acme.manager.append("tenants.acme.bronze.orders", rows)
    assert failures(acme) == {}


def test_one_broken_table_keeps_nobody_else_from_being_verified(acme, tenants):
    acme.bootstrap("beta")
    acme.manager.append("tenants.beta.events", EVENT)
    manifest_list = acme.manager.load_table("tenants.beta.events").current_snapshot().manifest_list
    Path(manifest_list.removeprefix("file://")).unlink()
    Path(acme.manager.load_table("tenants.beta.main").metadata_location.removeprefix("file://")).unlink()
    with tenants.bootstrapper.session(tenants.config) as fresh:
        reports = {report.tenant: report for report in verify_tenants(fresh, ["acme", "beta"])}
    assert reports["acme"].ok
    [others] = [check for check in reports["acme"].checks if check.name == "tables of others"]
    assert others.detail == "none below the tenant's prefixes; cannot read: tenants.beta.main"
    wrong = {check.name: check.detail for check in reports["beta"].checks if check.state is CheckState.FAILED}
    assert "cannot read tenants.beta.main" in wrong["tables"]
    assert "cannot read tenants.beta.events" in wrong["data files"]


def test_on_the_embedded_catalog_tenants_are_told_apart_by_name_only(acme, tenants):
    """What SQLite and a folder cannot protect: who opens them reaches everybody. Verification tells it afterwards."""
    acme.bootstrap("beta")
    with tenants.bootstrapper.session(tenants.config) as anybody:
        anybody.manager.append("tenants.beta.events", EVENT)
        anybody.manager.namespaces.update_properties("tenants.beta", updates={"floe.legal-hold": "false"})
        spy = anybody.config.table_location("beta", "spy")
        anybody.manager.create_table("tenants.acme.spy", EVENT.schema, location=spy)
    assert acme.manager.scan("tenants.beta.events").num_rows == 1
    assert "tenants.acme.spy is located below the tenant's prefixes" in failures(acme, "beta")["tables of others"]
    assert spy in failures(acme, "acme")["table locations"]
