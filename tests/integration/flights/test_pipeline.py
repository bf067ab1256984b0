"""The flights example on a few days of the year, on Spark."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("flights"), pytest.mark.timeout(900)]

FIRST = ("2013-03-07", "2013-03-09")
LATE = date(2013, 3, 8)
SECOND = ("2013-07-01", "2013-07-02")
BAD = date(2013, 12, 31)
DAYS = [date(2013, 3, 7), LATE, date(2013, 3, 9), date(2013, 7, 1), date(2013, 7, 2), BAD]
ON_TIME_MINUTES = 15


@pytest.fixture(scope="module")
def story(spark_engine, project, raw) -> dict[str, Any]:
    """Run the whole story once and keep what each run said and what the tables held in between."""
    from flights import feed

    told: dict[str, Any] = {}
    feed.deliver_reference()
    feed.deliver(date.fromisoformat(FIRST[0]), date.fromisoformat(FIRST[1]))
    told["first"] = project.run("*", "--partition-range", "...".join(FIRST))
    with project.tables() as tables:
        told["silver before the late day"] = tables.get_current_snapshot("silver.flights").snapshot_id
    feed.deliver_again(LATE)
    told["late"] = project.run("bronze.flights+", "--partition", str(LATE))
    feed.deliver(date.fromisoformat(SECOND[0]), date.fromisoformat(SECOND[1]))
    told["second"] = project.run("bronze.flights+", "--partition-range", "...".join(SECOND))
    with project.tables() as tables:
        told["before the bad day"] = state(tables)
    feed.deliver(BAD, BAD)
    told["bad"] = project.run("bronze.flights+", "--partition", str(BAD))
    with project.tables() as tables:
        told["after the bad day"] = state(tables)
    told["discard"] = project.floe("discard", "silver.flights", "--yes")
    feed.deliver_again(BAD)
    told["repaired"] = project.run("bronze.flights+", "--partition", str(BAD))
    return told


def state(tables) -> dict[str, Any]:
    names = ("silver.flights", "gold.daily", "gold.routes", "gold.carrier_hours")
    return {name: tables.get_current_snapshot(name).snapshot_id for name in names}


def rows_by_day(tables, name: str) -> dict[date, int]:
    counted = tables.scan(name, ["flight_date"]).group_by("flight_date").aggregate([("flight_date", "count")])
    return {row["flight_date"]: row["flight_date_count"] for row in counted.to_pylist()}


@pytest.mark.req("FR-024", "FR-027")
def test_every_run_but_the_bad_one_succeeds(story):
    assert {name: story[name][0] for name in ("first", "late", "second", "bad", "repaired")} == {
        "first": 0,
        "late": 0,
        "second": 0,
        "bad": 1,
        "repaired": 0,
    }


def test_silver_holds_each_flight_of_the_raw_file_once(story, project, raw):
    expected = raw[raw.flight_date.isin(DAYS)].groupby("flight_date").size().to_dict()
    with project.tables() as tables:
        assert rows_by_day(tables, "silver.flights") == expected


def test_bronze_holds_every_delivery(story, project, raw):
    expected = raw[raw.flight_date.isin(DAYS)].groupby("flight_date").size().to_dict()
    expected[LATE] += int((raw[raw.flight_date == LATE].hour < 12).sum())
    expected[BAD] *= 2
    with project.tables() as tables:
        assert rows_by_day(tables, "bronze.flights") == expected


@pytest.mark.req("FR-025")
def test_gold_agrees_with_figures_worked_out_by_pandas(story, project, raw):
    flown = raw[raw.flight_date.isin(DAYS)]
    on_time = (flown.arr_delay <= ON_TIME_MINUTES).groupby(flown.flight_date).mean()
    with project.tables() as tables:
        daily = tables.scan("gold.daily").sort_by("flight_date").to_pylist()
        routes = tables.scan("gold.routes").to_pylist()
        hours = tables.scan("gold.carrier_hours").to_pylist()
    assert [row["flight_date"] for row in daily] == DAYS
    for row in daily:
        of_day = flown[flown.flight_date == row["flight_date"]]
        assert row["cancelled"] == of_day.dep_time.isna().sum()
        assert row["dep_delay"] == pytest.approx(of_day.dep_delay.mean(), abs=0.006)
        assert row["on_time"] == pytest.approx(on_time[row["flight_date"]], abs=0.0001)
    by_route = flown.groupby(["origin", "dest"]).size().to_dict()
    assert {(row["origin"], row["dest"]): row["flights"] for row in routes} == by_route
    by_hour = flown.groupby(["carrier", "hour"]).size().to_dict()
    assert {(row["carrier"], row["hour"]): row["flights"] for row in hours} == by_hour


def test_weather_and_planes_are_joined_where_they_are_known(story, project, raw):
    from flights.feed import source_folder
    from pandas import read_csv

    weather = read_csv(source_folder() / "weather.csv")[["origin", "time_hour", "temp"]]
    planes = read_csv(source_folder() / "planes.csv")[["tailnum", "seats"]]
    flown = raw[raw.flight_date.isin(DAYS)]
    expected = flown.merge(weather, how="left", on=["origin", "time_hour"]).merge(planes, how="left", on="tailnum")
    with project.tables() as tables:
        silver = tables.scan("silver.flights", ["temp", "seats"])
    assert silver["temp"].null_count == expected.temp.isna().sum()
    assert silver["seats"].null_count == expected.seats.isna().sum()


def test_the_late_delivery_updates_known_flights_and_adds_the_others(story, project, raw):
    from_noon = raw[raw.flight_date == LATE]
    with project.tables() as tables:
        then = tables.scan(
            "silver.flights",
            ["arr_delay"],
            f"flight_date = '{LATE}'",
            snapshot_id=story["silver before the late day"],
        )
        now = tables.scan("silver.flights", ["arr_delay"], f"flight_date = '{LATE}'")
    assert then.num_rows == (from_noon.hour < 12).sum()
    assert then["arr_delay"].null_count == then.num_rows
    assert now.num_rows == len(from_noon)
    assert now["arr_delay"].null_count == from_noon.arr_delay.isna().sum()


@pytest.mark.req("RD-03")
def test_a_column_that_comes_later_evolves_bronze_and_silver(story, project):
    with project.tables() as tables:
        for name in ("bronze.flights", "silver.flights"):
            assert "air_time" in tables.load_table(name).schema().column_names
        first = tables.scan("silver.flights", ["air_time"], "flight_date < '2013-07-01'")
        second = tables.scan("silver.flights", ["air_time"], "flight_date = '2013-07-01'")
    assert first["air_time"].null_count == first.num_rows
    assert second["air_time"].null_count < second.num_rows


def test_a_bad_day_is_held_back_and_nothing_downstream_moves(story):
    _, assets = story["bad"]
    assert assets["bronze.flights"]["state"] == "published"
    held = assets["silver.flights"]
    assert held["state"] == "held back"
    assert held["branch"].startswith("audit.silver_flights.2013-12-31")
    assert "delay_in_minutes" in held["reason"]
    assert [check["name"] for check in held["checks"] if not check["passed"]] == ["delay_in_minutes"]
    assert {assets[name]["state"] for name in ("gold.daily", "gold.routes", "gold.carrier_hours")} == {"not run"}
    assert story["after the bad day"] == story["before the bad day"]


def test_the_held_branch_is_discarded_and_the_repaired_day_published(story):
    code, answer = story["discard"]
    assert (code, answer["data"]["table"]) == (0, "silver.flights")
    assert story["repaired"][1]["silver.flights"]["state"] == "published"


@pytest.mark.req("FR-029")
def test_a_run_tells_rows_time_and_where_each_table_stands(story, project):
    _, assets = story["repaired"]
    with project.tables() as tables:
        for name, asset in assets.items():
            snapshot = tables.get_current_snapshot(name)
            assert asset["snapshot_id"] == str(snapshot.snapshot_id)
            assert asset["total_rows"] == int(snapshot.summary["total-records"])
            assert asset["seconds"] > 0
            assert asset["rows"] > 0


def test_running_a_day_again_changes_no_count(story, project):
    with project.tables() as tables:
        before = {name: rows_by_day(tables, name) for name in ("bronze.flights", "silver.flights")}
    code, _ = project.run("bronze.flights,silver.flights", "--partition", str(LATE))
    assert code == 0
    with project.tables() as tables:
        assert {name: rows_by_day(tables, name) for name in before} == before


def test_the_plan_says_what_a_run_would_do(story, project):
    code, answer = project.floe("plan", "--select", "silver.flights+", "--partition", str(LATE))
    assert code == 0
    silver, *gold = answer["data"]["assets"]
    assert silver["effect"] == "upsert"
    assert silver["keys"] == ["flight_date", "carrier", "flight", "origin"]
    assert silver["reads"] == ["bronze.flights", "bronze.planes", "bronze.weather"]
    assert silver["partitions"] == [str(LATE)]
    assert "delay_in_minutes" in silver["checks"]
    assert silver["exists"] is True
    assert {asset["effect"] for asset in gold} == {"replace all rows"}


def test_the_report_needs_nothing_but_itself(story, project, tmp_path):
    from flights.report import Comparison, Step, write_report

    steps = [Step("A day", "stopped by <its> audit", "stopped", 1.5)]
    comparison = Comparison({"flights": 1, "arr_delay": None}, {"flights": 2, "arr_delay": 3.0})
    with project.tables() as tables:
        page = write_report(tables, tmp_path / "report.html", steps, comparison).read_text(encoding="utf-8")
    assert not [part for part in ("http://", "https://", "<script", "src=", "href=", "url(", "@import") if part in page]
    assert page.count("<svg") >= 5
    assert "stopped by &lt;its&gt; audit" in page
    assert "<mark>air_time</mark>" in page
