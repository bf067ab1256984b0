"""Launch configuration changes only the IO manager settings that it contains."""

from __future__ import annotations

from datetime import datetime

import dagster as dg
import pyarrow as pa
import pytest
from pydantic import SecretStr

from floe_dagster import IcebergIOManager
from floe_iceberg import WriteMode

REGIONS = dg.StaticPartitionsDefinition(["north", "south"])
DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")


@pytest.fixture
def launched(monkeypatch):
    """Give the IO manager that a run gets, whose own settings some configuration changes."""

    def run(io, config):
        seen = []
        monkeypatch.setattr(IcebergIOManager, "handle_output", lambda own, _context, _rows: seen.append(own))

        @dg.asset
        def orders() -> pa.Table:
            return pa.table({"id": [1]})

        given = {"resources": {"io_manager": {"config": config}}}
        assert dg.materialize([orders], resources={"io_manager": io}, run_config=given).success
        return seen[0]

    return run


@pytest.mark.req("API-02", "FR-030")
@pytest.mark.parametrize(
    "config",
    [{}, {"write_mode": "OVERWRITE"}, {"default_write_mode": "APPEND"}, {"auto_create_tables": False}],
    ids=["nothing", "write_mode", "default_write_mode", "another field"],
)
def test_what_a_launch_leaves_out_stays_as_it_was_given(launched, monkeypatch, config):
    monkeypatch.setenv("TOKEN_OF_THE_TEST", "from-the-environment")
    settings = {
        "catalog_uri": "http://127.0.0.1:1/",
        "warehouse": "lake",
        "default_namespace": "bronze",
        "schema_evolution_enabled": False,
        "partition_column": "region",
    }
    secrets = {"s3.secret-access-key": SecretStr("hidden"), "s3.region": "x"}
    io = IcebergIOManager(**settings, token=dg.EnvVar("TOKEN_OF_THE_TEST"), catalog_properties=secrets)
    own = launched(io, config)
    assert {name: getattr(own, name) for name in settings} == settings
    assert own.catalog_connection["token"].get_secret_value() == "from-the-environment"
    assert own.catalog_connection["properties"] == {"s3.secret-access-key": "hidden", "s3.region": "x"}
    assert own.auto_create_tables is config.get("auto_create_tables", True)


@pytest.mark.req("FR-030")
@pytest.mark.parametrize(
    ("given", "config", "chosen"),
    [
        ({}, {}, None),
        ({}, {"default_namespace": "gold"}, None),
        ({}, {"write_mode": "APPEND"}, WriteMode.APPEND),
        ({"write_mode": WriteMode.OVERWRITE}, {"default_namespace": "gold"}, WriteMode.OVERWRITE),
        ({"write_mode": WriteMode.OVERWRITE}, {"write_mode": "APPEND"}, WriteMode.APPEND),
        ({"default_write_mode": WriteMode.OVERWRITE}, {"write_mode": "APPEND"}, WriteMode.APPEND),
        ({"default_write_mode": WriteMode.APPEND}, {"default_namespace": "gold"}, WriteMode.APPEND),
        ({"write_mode": WriteMode.APPEND}, {"default_write_mode": "OVERWRITE"}, WriteMode.OVERWRITE),
        ({}, {"write_mode": "OVERWRITE", "default_write_mode": "APPEND"}, WriteMode.APPEND),
    ],
    ids=str,
)
def test_a_write_mode_is_a_choice_when_the_launch_or_the_definition_names_it(launched, given, config, chosen):
    assert launched(IcebergIOManager(**given), config).chosen_write_mode is chosen


@pytest.mark.req("FR-030")
def test_append_at_launch_adds_to_a_partition(materialize, tables):
    @dg.asset(partitions_def=DAILY)
    def events() -> pa.Table:
        return pa.table({"ts": [datetime.fromisoformat("2024-01-01")]})

    launch = {"resources": {"io_manager": {"config": {"write_mode": "APPEND"}}}}
    io = IcebergIOManager(table_manager=tables, write_mode=WriteMode.OVERWRITE)
    for _ in range(2):
        materialize(events, partition_key="2024-01-01", io=io, run_config=launch)
    assert tables.scan("public.events").num_rows == 2


@pytest.mark.req("FR-026", "FR-028")
def test_a_launch_that_changes_the_mode_writes_the_same_table_by_the_same_column(materialize, tables):
    @dg.asset(partitions_def=REGIONS)
    def orders(context) -> pa.Table:
        return pa.table({"region": [context.partition_key]})

    io = IcebergIOManager(table_manager=tables, default_namespace="bronze", partition_column="region")
    launch = {"resources": {"io_manager": {"config": {"write_mode": "OVERWRITE"}}}}
    for key in ("north", "south", "south"):
        materialize(orders, partition_key=key, io=io, run_config=launch)
    assert sorted(tables.scan("bronze.orders")["region"].to_pylist()) == ["north", "south"]
