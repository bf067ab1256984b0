"""Expiry respects the retention that a table and its project declare, unless the caller overrides it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from floe_core.compile import compile_project
from floe_core.errors import UnsafeRetentionError
from floe_core.governance import PolicyEnforcer
from floe_core.schemas import TableConfig
from floe_dagster.definitions import create_definitions
from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_iceberg.catalog.connection import open_project
from floe_testing.embedded_tables import age_snapshots

AGE = "history.expire.max-snapshot-age-ms"
TABLE = "bronze.orders"
COLUMNS = [{"name": "id", "type": "long"}]
# Without a declared retention, everything except the current snapshot expires.
EAGER = IcebergTableManagerConfig(default_retention_days=0, default_properties={})


def project(root, *, governance="", retention=""):
    (root / "floe.yaml").write_text(
        f"schema_version: 1\nname: shop\n{governance}\n"
        f"tables:\n  {TABLE}:\n    columns: [{{name: id, type: long}}]\n{retention}\n"
    )
    return compile_project(root)


def written(manager, rows=3, **design):
    manager.create_namespace("bronze")
    manager.create_from_config(TABLE, TableConfig(columns=COLUMNS, **design))
    for number in range(rows):
        manager.append(TABLE, pa.table({"id": [number]}))
    return manager


@pytest.fixture
def manager(tmp_path):
    with IcebergTableManager.from_artifacts(project(tmp_path), config=EAGER) as manager:
        yield manager


@pytest.mark.req("TM-11")
def test_without_any_ask_the_managers_default_holds(manager):
    written(manager)
    assert manager.snapshot_retention(TABLE).days == 0
    assert manager.expire_snapshots(TABLE) == 2


MOMENT = timedelta(minutes=10)
NOW = timedelta()


@pytest.mark.req("TM-11")
@pytest.mark.parametrize(
    "config",
    [IcebergTableManagerConfig(), IcebergTableManagerConfig(default_properties={})],
    ids=["the age that new tables get", "the manager's default"],
)
def test_snapshots_older_than_seven_days_expire_by_default_and_younger_ones_stay(tmp_path, config):
    with IcebergTableManager.from_artifacts(project(tmp_path), config=config) as manager:
        written(manager, rows=4)
        week = timedelta(days=7)
        ages = (timedelta(days=30), week + MOMENT, week - MOMENT, NOW)
        month, past, within, current = age_snapshots(manager.load_table(TABLE), *ages)
        expired = manager.expire_snapshots(TABLE, retain_last=1)
        assert expired.snapshot_ids == (month, past)
        assert [snapshot.snapshot_id for snapshot in manager.list_snapshots(TABLE)] == [current, within]


@pytest.mark.req("TM-11")
def test_the_tables_own_age_comes_before_the_managers_default(manager):
    written(manager, properties={AGE: str(90 * 86_400_000)})
    assert manager.expire_snapshots(TABLE) == 0
    manager.set_properties(TABLE, {AGE: "1"})
    assert manager.expire_snapshots(TABLE) == 2


@pytest.mark.req("TM-11")
def test_a_declared_retention_needs_no_project_to_hold(manager):
    written(manager, retention={"snapshot_days": 90})
    assert manager.expire_snapshots(TABLE) == 0
    with pytest.raises(UnsafeRetentionError, match=r"90 days: .*max-snapshot-age-ms is 90 days"):
        manager.expire_snapshots(TABLE, older_than_days=7)
    assert manager.expire_snapshots(TABLE, older_than_days=0, allow_below_retention=True) == 2


@pytest.mark.req("TM-11", "RD-06")
@pytest.mark.parametrize(
    ("governance", "retention", "says"),
    [
        ("governance: {enterprise: {snapshot_retention_days: 90, reason: audit}}", "", r"enterprise requires 90 days"),
        ("governance: {domain: {legal_hold_days: 90}}", "", r"the legal hold of domain requires 90 days"),
        ("", "    retention: {snapshot_days: 90}", r"table requires 90 days"),
        (
            "governance: {product: {snapshot_retention_days: 30}}",
            "    retention: {snapshot_days: 90}",
            r"product requires 30 days; table requires 90 days",
        ),
    ],
    ids=["enterprise", "legal hold", "table", "strictest of two"],
)
def test_what_a_project_asks_for_holds_in_python(tmp_path, governance, retention, says):
    compiled = project(tmp_path, governance=governance, retention=retention)
    with IcebergTableManager.from_artifacts(compiled, config=EAGER) as manager:
        written(manager)
        assert manager.snapshot_retention(TABLE).days == 90
        assert manager.expire_snapshots(TABLE) == 0
        first = manager.list_snapshots(TABLE)[-1].snapshot_id
        for choice in ({"older_than_days": 89}, {"older_than": datetime.now(UTC)}, {"snapshot_ids": [first]}):
            with pytest.raises(UnsafeRetentionError, match=says):
                manager.expire_snapshots(TABLE, **choice)
        assert len(manager.list_snapshots(TABLE)) == 3
        assert manager.expire_snapshots(TABLE, older_than_days=90) == 0
        assert manager.expire_snapshots(TABLE, snapshot_ids=[first], allow_below_retention=True) == 1


def test_the_longest_of_the_projects_and_the_tables_own_holds(tmp_path):
    compiled = project(tmp_path, governance="governance: {product: {snapshot_retention_days: 30}}")
    with IcebergTableManager.from_artifacts(compiled, config=EAGER) as manager:
        written(manager, properties={AGE: str(365 * 86_400_000)})
        assert manager.snapshot_retention(TABLE).days == 365
        manager.set_properties(TABLE, {AGE: "1"})
        assert manager.snapshot_retention(TABLE).days == 30


def test_the_age_that_every_new_table_gets_is_no_ask(tmp_path):
    with IcebergTableManager.from_artifacts(project(tmp_path)) as manager:
        written(manager)
        assert manager.load_table(TABLE).properties[AGE] == str(7 * 86_400_000)
        line = f"no retention is declared: the table's {AGE} is 7 days"
        assert manager.snapshot_retention(TABLE).derivation == (line,)
        assert manager.expire_snapshots(TABLE, older_than_days=0, retain_last=1) == 2


def test_the_age_of_another_managers_new_tables_is_no_ask_either(tmp_path):
    with IcebergTableManager.from_artifacts(project(tmp_path)) as manager:
        written(manager)
        assert IcebergTableManager(manager.catalog, config=EAGER).snapshot_retention(TABLE).declared is False


def test_an_age_that_is_none_is_refused(manager):
    written(manager, properties={AGE: "a week"})
    with pytest.raises(UnsafeRetentionError, match="'a week', which is not an age"):
        manager.expire_snapshots(TABLE)


@pytest.mark.req("TM-11")
def test_a_validated_retention_is_taken_as_it_is(manager):
    written(manager)
    validated = PolicyEnforcer.get_snapshot_retention(90, 30, 7)
    assert manager.expire_snapshots(TABLE, older_than_days=validated) == 0


def expire_by_job(artifacts, **config):
    job = create_definitions(artifacts).resolve_job_def("maintain_bronze_orders")
    run = {"ops": {"expire_bronze_orders": {"config": config}}} if config else None
    return job.execute_in_process(run_config=run, raise_on_error=False)


def snapshots(artifacts):
    with open_project(artifacts) as connection:
        return len(IcebergTableManager.from_project(connection).list_snapshots(TABLE))


@pytest.mark.req("RD-06")
def test_what_a_project_asks_for_holds_in_dagster(tmp_path):
    compiled = project(tmp_path, governance="governance: {enterprise: {snapshot_retention_days: 90}}")
    with IcebergTableManager.from_artifacts(compiled, config=EAGER) as manager:
        written(manager)
    assert expire_by_job(compiled).success
    refused = expire_by_job(compiled, older_than_days=0.0)
    assert not refused.success
    errors = [event.step_failure_data.error.to_string() for event in refused.get_step_failure_events()]
    assert "enterprise requires 90 days" in errors[0]
    before = snapshots(compiled)
    assert before >= 3
    assert expire_by_job(compiled, older_than_days=0.0, allow_below_retention=True).success
    assert snapshots(compiled) == 1
