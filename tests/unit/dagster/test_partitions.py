from __future__ import annotations

import dagster as dg
import pytest
from pyiceberg.expressions import AlwaysFalse
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from floe_core.errors import ConfigurationError
from floe_dagster.assets.partitions import ColumnChoice, bind_partitions
from floe_iceberg.read.predicates import parse_row_filter


def schema(**columns):
    return Schema(*(NestedField(n, name, kind, required=False) for n, (name, kind) in enumerate(columns.items(), 1)))


def tied(partitions_def, table, spec=None, default=None, **chosen):
    return bind_partitions(partitions_def, table, ColumnChoice("events", chosen or {}, default, spec))


DAILY = dg.DailyPartitionsDefinition("2024-01-01")


@pytest.mark.req("FR-027")
@pytest.mark.parametrize(
    ("partitions_def", "term"),
    [
        (dg.HourlyPartitionsDefinition("2024-01-01-00:00"), "hour(ts)"),
        (DAILY, "day(ts)"),
        (dg.WeeklyPartitionsDefinition("2024-01-01"), "day(ts)"),
        (dg.MonthlyPartitionsDefinition("2024-01-01"), "month(ts)"),
        (dg.TimeWindowPartitionsDefinition(cron_schedule="0 0 1 1 *", start="2024", fmt="%Y"), "day(ts)"),
    ],
    ids=["hourly", "daily", "weekly", "monthly", "yearly-cron"],
)
def test_time_partitions_become_time_transforms(partitions_def, term):
    assert tied(partitions_def, schema(ts=TimestampType(), v=LongType())).terms == [term]


@pytest.mark.req("FR-027")
@pytest.mark.parametrize(
    ("partitions_def", "key", "low", "high"),
    [
        (DAILY, "2024-03-31", "2024-03-31T00:00:00", "2024-04-01T00:00:00"),
        (dg.WeeklyPartitionsDefinition("2024-01-01"), "2024-01-07", "2024-01-07T00:00:00", "2024-01-14T00:00:00"),
        (dg.MonthlyPartitionsDefinition("2024-01-01"), "2024-02-01", "2024-02-01T00:00:00", "2024-03-01T00:00:00"),
        (
            dg.HourlyPartitionsDefinition("2024-01-01-00:00"),
            "2024-01-01-05:00",
            "2024-01-01T05:00:00",
            "2024-01-01T06:00:00",
        ),
        (
            dg.DailyPartitionsDefinition("2024-01-01", hour_offset=6),
            "2024-01-02",
            "2024-01-02T06:00:00",
            "2024-01-03T06:00:00",
        ),
    ],
    ids=["daily", "weekly", "monthly", "hourly", "offset"],
)
def test_a_key_is_its_time_window(partitions_def, key, low, high):
    rows = tied(partitions_def, schema(ts=TimestampType())).rows([key])
    assert rows.text == f"(ts >= '{low}' and ts < '{high}')"


@pytest.mark.req("FR-027")
def test_a_zone_shifts_instants_and_leaves_wall_clocks_alone():
    berlin = dg.DailyPartitionsDefinition("2024-01-01", timezone="Europe/Berlin")
    # The day on which daylight saving time begins has 23 hours.
    instants = tied(berlin, schema(ts=TimestamptzType())).rows(["2024-03-31"])
    assert instants.text == "(ts >= '2024-03-30T23:00:00+00:00' and ts < '2024-03-31T22:00:00+00:00')"
    clocks = tied(berlin, schema(ts=TimestampType())).rows(["2024-03-31"])
    assert clocks.text == "(ts >= '2024-03-31T00:00:00' and ts < '2024-04-01T00:00:00')"
    dates = tied(berlin, schema(ts=DateType())).rows(["2024-03-31"])
    assert dates.text == "(ts >= '2024-03-31' and ts < '2024-04-01')"


def test_adjacent_windows_become_one_range_and_others_stay_apart():
    table = tied(DAILY, schema(ts=DateType()))
    assert table.rows(["2024-01-03", "2024-01-01", "2024-01-02"]).text == "(ts >= '2024-01-01' and ts < '2024-01-04')"
    apart = table.rows(["2024-01-01", "2024-01-05"])
    assert apart.text == "((ts >= '2024-01-01' and ts < '2024-01-02') or (ts >= '2024-01-05' and ts < '2024-01-06'))"
    assert isinstance(table.rows([]).expression, AlwaysFalse)


def test_thousands_of_scattered_keys_make_a_flat_expression():
    days = [f"{year}-01-{day:02}" for year in range(1900, 2100) for day in range(1, 29, 2)]
    table = tied(dg.DailyPartitionsDefinition("1900-01-01"), schema(ts=DateType()))
    assert str(table.rows(days).expression)


@pytest.mark.req("FR-028")
def test_a_text_column_holds_the_keys_themselves():
    table = tied(DAILY, schema(day=StringType(), v=LongType()), **{"": "day"})
    assert table.terms == ["day"]
    assert table.rows(["2024-01-01", "2024-01-02"]).text == "day in ('2024-01-01', '2024-01-02')"


@pytest.mark.req("FR-028")
@pytest.mark.parametrize(
    ("kind", "key", "sql"),
    [
        (StringType(), "north", "region = 'north'"),
        (StringType(), "it's", "region = 'it''s'"),
        (LongType(), "7", "region = 7"),
        (IntegerType(), "-7", "region = -7"),
        (BooleanType(), "true", "region = true"),
        (DateType(), "2024-01-01", "region = '2024-01-01'"),
        (DecimalType(9, 2), "1.10", "region = 1.10"),
    ],
    ids=["text", "quote", "long", "negative", "boolean", "date", "decimal"],
)
def test_static_keys_are_values_of_the_column(kind, key, sql):
    table = tied(dg.StaticPartitionsDefinition([key]), schema(region=kind), **{"": "region"})
    assert table.terms == ["region"]
    assert table.rows([key]).text == sql


@pytest.mark.parametrize("key", ["it's", "back\\slash", "${env:HOME}", "'; DROP TABLE t; --", "`"])
def test_any_key_of_any_column_is_read_back_as_itself(key):
    columns = schema(**{"the `region` (new)": StringType()})
    table = tied(dg.DynamicPartitionsDefinition(name="regions"), columns, **{"": "the `region` (new)"})
    read = parse_row_filter(table.rows([key]).text, columns, table="t")
    assert read.bound == parse_row_filter(table.rows([key]).expression, columns, table="t").bound


@pytest.mark.req("FR-028")
def test_dynamic_keys_are_values_too():
    table = tied(dg.DynamicPartitionsDefinition(name="customers"), schema(customer=StringType()), **{"": "customer"})
    assert table.rows(["a", "b"]).text == "customer in ('a', 'b')"


@pytest.mark.req("FR-028")
def test_several_dimensions_are_several_fields():
    multi = dg.MultiPartitionsDefinition({"day": DAILY, "region": dg.StaticPartitionsDefinition(["n", "s"])})
    columns = schema(ts=TimestampType(), region=StringType())
    table = tied(multi, columns)
    assert table.terms == ["day(ts)", "region"]
    keys = [dg.MultiPartitionKey({"day": "2024-01-01", "region": "n"}), "2024-01-02|s"]
    assert table.rows(keys).text == (
        "(((ts >= '2024-01-01T00:00:00' and ts < '2024-01-02T00:00:00') and region = 'n')"
        " or ((ts >= '2024-01-02T00:00:00' and ts < '2024-01-03T00:00:00') and region = 's'))"
    )
    renamed = tied(multi, schema(at=TimestampType(), area=StringType()), day="at", region="area")
    assert renamed.terms == ["day(at)", "area"]


def test_the_column_is_taken_from_metadata_then_configuration_then_the_table():
    two = schema(created=TimestampType(), updated=TimestampType())
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="d"))
    assert tied(DAILY, two, spec, "created", **{"": "updated"}).terms == ["day(updated)"]
    assert tied(DAILY, two, spec, "created").terms == ["day(created)"]
    assert tied(DAILY, two, spec).terms == ["day(updated)"]


REGIONS = dg.StaticPartitionsDefinition(["n", "s"])
BOTH = dg.MultiPartitionsDefinition({"day": DAILY, "region": REGIONS})
TWO_TIMES = {"created": TimestampType(), "updated": TimestampType()}


@pytest.mark.req("FR-027", "FR-028")
@pytest.mark.parametrize(
    ("partitions_def", "columns", "default", "terms"),
    [
        (BOTH, {**TWO_TIMES, "region": StringType()}, "updated", ["day(updated)", "region"]),
        (BOTH, {"ts": TimestampType(), "area": StringType(), "x": StringType()}, "area", ["day(ts)", "area"]),
        (BOTH, {**TWO_TIMES, "key": StringType(), "region": StringType()}, "key", ["key", "region"]),
        (BOTH, {"ts": TimestampType(), "region": StringType()}, "elsewhere", ["day(ts)", "region"]),
        (
            dg.MultiPartitionsDefinition({"region": REGIONS, "shop": REGIONS}),
            {"area": StringType(), "shop": LongType()},
            "area",
            ["area", "shop"],
        ),
    ],
    ids=["time", "value", "text of times", "column of other assets", "values"],
)
def test_one_column_of_the_io_manager_serves_the_dimension_that_it_fits(partitions_def, columns, default, terms):
    assert tied(partitions_def, schema(**columns), default=default).terms == terms
    # Set on the asset itself, it has the same effect.
    if default in columns:
        assert tied(partitions_def, schema(**columns), **{"": default}).terms == terms


def test_a_column_that_keys_cannot_speak_of_is_left_to_other_assets():
    columns = schema(ts=TimestampType(), region=StringType())
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="region"))
    assert tied(REGIONS, columns, spec, "ts").terms == ["region"]
    assert tied(DAILY, schema(ts=TimestampType(), n=LongType()), default="n").terms == ["day(ts)"]


def test_a_column_of_two_dimensions_is_not_guessed():
    two = dg.MultiPartitionsDefinition({"from": REGIONS, "to": REGIONS})
    with pytest.raises(ConfigurationError, match="dimension 'from'"):
        tied(two, schema(area=StringType(), other=StringType()), default="area")


def test_without_a_column_the_error_lists_the_candidates():
    two = schema(created=TimestampType(), updated=DateType(), v=LongType())
    with pytest.raises(ConfigurationError, match=r"Candidates: created, updated\."):
        tied(DAILY, two)
    with pytest.raises(ConfigurationError, match=r"partition_column': 'column'.*Candidates: a, b\."):
        tied(dg.StaticPartitionsDefinition(["x"]), schema(a=StringType(), b=LongType(), t=DateType()))
    multi = dg.MultiPartitionsDefinition({"day": DAILY, "region": dg.StaticPartitionsDefinition(["n"])})
    with pytest.raises(ConfigurationError, match="dimension 'region'"):
        tied(multi, schema(ts=TimestampType(), v=LongType()))


@pytest.mark.parametrize(
    ("partitions_def", "kind", "reason"),
    [
        (DAILY, LongType(), "time partitions"),
        (dg.HourlyPartitionsDefinition("2024-01-01-00:00"), DateType(), "hourly"),
    ],
)
def test_a_column_that_does_not_fit_is_refused(partitions_def, kind, reason):
    with pytest.raises(ConfigurationError, match=reason):
        tied(partitions_def, schema(c=kind), **{"": "c"})


def test_an_unknown_column_is_refused_with_those_there():
    with pytest.raises(ConfigurationError, match=r"'x'.*Columns: ts"):
        tied(DAILY, schema(ts=TimestampType()), **{"": "x"})


@pytest.mark.parametrize("kind", [LongType(), DateType(), BooleanType()])
def test_a_key_that_is_no_value_of_the_column_is_refused(kind):
    table = tied(dg.StaticPartitionsDefinition(["x"]), schema(c=kind), **{"": "c"})
    with pytest.raises(ConfigurationError, match="is not a valid value of column"):
        table.rows(["x"])
