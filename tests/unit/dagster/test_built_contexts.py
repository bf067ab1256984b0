"""The IO manager in users' unit tests, with contexts built by Dagster."""

from __future__ import annotations

from datetime import date, datetime

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, InvalidDataError, InvalidIdentifierError, TableNotFoundError

ROWS = pa.table({"id": [1, 2], "name": ["a", "b"]})
DAILY = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
MONTHLY = dg.MonthlyPartitionsDefinition("2024-01-01", end_date="2025-01-01")
REGIONS = dg.StaticPartitionsDefinition(["north", "south"])
BOTH = dg.MultiPartitionsDefinition({"day": DAILY, "region": REGIONS})


def events(*days, region="north"):
    moments = [datetime.fromisoformat(f"{day}T12:00") for day in days]
    return pa.table({"ts": pa.array(moments, pa.timestamp("us")), "region": [region] * len(days)})


def days_of(rows):
    return sorted(value.date().isoformat() for value in rows["ts"].to_pylist())


@pytest.mark.req("SC-007", "API-03", "FR-024", "FR-025")
def test_an_output_is_written_and_read_back(io_manager):
    output = dg.build_output_context(asset_key=["bronze", "orders"])
    io_manager.handle_output(output, ROWS)
    loaded = io_manager.load_input(dg.build_input_context(asset_key=["bronze", "orders"]))
    assert loaded.equals(ROWS)
    said = {key: value.value for key, value in output.get_logged_metadata().items()}
    assert (said["table"], said["num_rows"], said["dagster/row_count"]) == ("bronze.orders", 2, 2)


@pytest.mark.req("SC-007")
def test_an_input_is_handed_over_as_its_type_says(io_manager):
    io_manager.handle_output(dg.build_output_context(asset_key="orders"), ROWS.to_pandas())
    context = dg.build_input_context(asset_key="orders", dagster_type=dg.PythonObjectDagsterType(pd.DataFrame))
    assert io_manager.load_input(context).equals(ROWS.to_pandas())


def test_settings_come_from_the_metadata_that_the_context_has(io_manager):
    for _ in range(2):
        context = dg.build_output_context(asset_key="orders", definition_metadata={"write_mode": "overwrite"})
        io_manager.handle_output(context, ROWS)
    asked = {"columns": ["name"], "row_filter": "id = 2"}
    loaded = io_manager.load_input(dg.build_input_context(asset_key="orders", definition_metadata=asked))
    assert loaded.to_pylist() == [{"name": "b"}]


def test_none_and_missing_tables_are_what_they_are_in_a_run(io_manager):
    context = dg.build_output_context(asset_key="orders")
    io_manager.handle_output(context, None)
    assert context.get_logged_metadata()["num_rows"].value == 0
    with (
        dg.build_input_context(asset_key="orders") as asked,
        pytest.raises(TableNotFoundError, match=r"public\.orders"),
    ):
        io_manager.load_input(asked)


@pytest.mark.req("FR-027")
def test_a_partition_is_replaced_and_read_alone(io_manager):
    def output(day):
        return dg.build_output_context(asset_key="events", partition_key=day, asset_partitions_def=DAILY)

    for day in ("2024-01-01", "2024-01-02", "2024-01-02"):
        io_manager.handle_output(output(day), events(day))
    with output("2024-01-03") as context, pytest.raises(InvalidDataError, match="outside the partition"):
        io_manager.handle_output(context, events("2024-01-04"))
    read = dg.build_input_context(asset_key="events", partition_key="2024-01-02", asset_partitions_def=DAILY)
    assert days_of(io_manager.load_input(read)) == ["2024-01-02"]
    span = dg.PartitionKeyRange("2024-01-01", "2024-01-02")
    several = dg.build_input_context(asset_key="events", asset_partition_key_range=span, asset_partitions_def=DAILY)
    assert days_of(io_manager.load_input(several)) == ["2024-01-01", "2024-01-02"]
    everything = io_manager.load_input(dg.build_input_context(asset_key="events"))
    assert days_of(everything) == ["2024-01-01", "2024-01-02"]


@pytest.mark.req("FR-028")
def test_a_partition_of_two_dimensions_is_read_alone(io_manager):
    for key in ("2024-01-01|north", "2024-01-01|south", "2024-01-02|north"):
        day, region = key.split("|")
        context = dg.build_output_context(asset_key="events", partition_key=key, asset_partitions_def=BOTH)
        io_manager.handle_output(context, events(day, region=region))
    asked = dg.build_input_context(asset_key="events", partition_key="2024-01-01|south", asset_partitions_def=BOTH)
    assert io_manager.load_input(asked)["region"].to_pylist() == ["south"]


@pytest.mark.parametrize(
    ("key", "rows", "others"),
    [
        ("2024-01-02", events("2024-01-02"), events("2024-01-03")),
        ("2024-01-02-12:00", events("2024-01-02"), events("2024-01-03")),
        ("2024-01-02", pa.table({"day": [date(2024, 1, 2)]}), pa.table({"day": [date(2024, 1, 3)]})),
        ("north", pa.table({"region": ["north"]}), pa.table({"region": ["south"]})),
    ],
    ids=["day", "hour", "date", "value"],
)
def test_a_key_without_its_partitions_is_taken_for_what_it_reads_as(key, rows, others, io_manager, tables):
    metadata = {"partition_column": "region"} if "region" in rows.schema.names and key == "north" else None

    def output():
        return dg.build_output_context(asset_key="events", partition_key=key, definition_metadata=metadata)

    for _ in range(2):
        io_manager.handle_output(output(), rows)
    tables.append("public.events", others)
    with output() as context, pytest.raises(InvalidDataError, match="outside the partition"):
        io_manager.handle_output(context, others)
    asked = dg.build_input_context(asset_key="events", partition_key=key, definition_metadata=metadata)
    assert io_manager.load_input(asked).equals(rows)


def test_the_partitions_of_the_asset_s_own_spec_are_known(io_manager):
    spec = dg.AssetSpec("events", partitions_def=MONTHLY)
    context = dg.build_output_context(asset_key="events", partition_key="2024-01-01", asset_spec=spec)
    io_manager.handle_output(context, events("2024-01-01", "2024-01-31"))
    asked = dg.build_input_context(asset_key="events", partition_key="2024-01-01", upstream_output=context)
    assert days_of(io_manager.load_input(asked)) == ["2024-01-01", "2024-01-31"]


def test_a_range_of_keys_without_their_partitions_is_refused(io_manager):
    io_manager.handle_output(dg.build_output_context(asset_key="events"), events("2024-01-01"))
    span = dg.PartitionKeyRange("2024-01-01", "2024-01-02")
    with (
        dg.build_input_context(asset_key="events", asset_partition_key_range=span) as asked,
        pytest.raises(ConfigurationError, match="Pass asset_partitions_def"),
    ):
        io_manager.load_input(asked)


def test_an_output_that_is_no_asset_goes_by_its_name_or_its_step(io_manager, tables):
    io_manager.handle_output(dg.build_output_context(step_key="extract", name="orders"), ROWS)
    io_manager.handle_output(dg.build_output_context(step_key="extract"), ROWS)
    assert tables.list_tables("public") == ["extract", "orders"]
    upstream = dg.build_output_context(step_key="extract", name="orders")
    assert io_manager.load_input(dg.build_input_context(upstream_output=upstream)).equals(ROWS)


def test_a_context_without_any_name_says_what_to_pass(io_manager):
    with (
        dg.build_output_context() as context,
        pytest.raises(InvalidIdentifierError, match="Pass asset_key to build_output_context"),
    ):
        io_manager.handle_output(context, ROWS)


@pytest.mark.parametrize("given", [{}, {"name": "orders"}], ids=["nothing", "name"])
def test_an_input_of_nothing_says_what_to_pass(io_manager, given):
    with (
        dg.build_input_context(**given) as asked,
        pytest.raises(InvalidIdentifierError, match="pass asset_key to build_input_context"),
    ):
        io_manager.load_input(asked)


def test_an_incremental_input_of_no_asset_reads_everything(io_manager):
    io_manager.handle_output(dg.build_output_context(asset_key="orders"), ROWS)
    asked = dg.build_input_context(asset_key="orders", definition_metadata={"incremental": True})
    assert io_manager.load_input(asked).equals(ROWS)
