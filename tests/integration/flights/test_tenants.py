"""The flights example with one tenant per airport: one pipeline, separate tables and files."""

from __future__ import annotations

from datetime import date

import pytest

pytestmark = [pytest.mark.live, pytest.mark.timeout(900), pytest.mark.req("TN-01", "TN-02")]

AIRPORTS = ("ewr", "jfk", "lga")
DAYS = ("2013-07-01", "2013-07-03")
BAD = date(2013, 12, 31)


@pytest.fixture(scope="module")
def airports(spark_engine, project):
    """Run three days for every airport, and the year's last day, which comes broken, for one of them."""
    from flights import feed

    feed.deliver_reference()
    feed.deliver(*map(date.fromisoformat, DAYS))
    feed.deliver(BAD, BAD)
    code, answer = project.floe("tenants", "bootstrap", *AIRPORTS)
    assert code == 0, answer
    runs = {}
    for airport in AIRPORTS:
        code, assets = project.run("*", "--tenant", airport, "--partition-range", "...".join(DAYS))
        assert code == 0, assets
        runs[airport] = assets
    return runs


@pytest.fixture(scope="module")
def expected(raw):
    """Count the flights of these days by airport, from the raw file alone."""
    first, last = map(date.fromisoformat, DAYS)
    chosen = raw[(raw.flight_date >= first) & (raw.flight_date <= last)]
    return {airport.lower(): len(rows) for airport, rows in chosen.groupby("origin")}


def test_every_airport_has_its_own_flights_and_no_others(airports, project, raw, expected):
    assert set(expected) == set(AIRPORTS)
    with project.tables() as tables:
        for airport in AIRPORTS:
            flights = tables.scan(f"tenants.{airport}.silver.flights", ["origin", "flight_date"])
            assert flights.num_rows == expected[airport]
            assert set(flights["origin"].to_pylist()) == {airport.upper()}
            daily = tables.scan(f"tenants.{airport}.gold.daily", ["flight_date", "flights"]).to_pylist()
            by_day = raw[raw.origin == airport.upper()].groupby("flight_date").size()
            assert {row["flight_date"]: row["flights"] for row in daily} == {
                row["flight_date"]: by_day[row["flight_date"]] for row in daily
            }
            assert len(daily) == 3


def test_the_run_names_the_tenants_tables(airports, expected):
    for airport, assets in airports.items():
        assert all(table.startswith(f"tenants.{airport}.") for table in assets)
        assert assets[f"tenants.{airport}.silver.flights"]["state"] == "published"
        assert assets[f"tenants.{airport}.silver.flights"]["rows"] == expected[airport]


@pytest.mark.req("TN-03")
def test_no_airports_files_lie_under_anothers_prefix(airports, project):
    code, answer = project.floe("tenants", "verify")
    assert code == 0, answer
    assert [(report["tenant"], report["ok"]) for report in answer["data"]] == [(one, True) for one in AIRPORTS]
    warehouse = project.folder / ".floe" / "warehouse"
    assert sorted(path.name for path in (warehouse / "tenants").iterdir()) == list(AIRPORTS)
    # All files that any snapshot of a table refers to are below the prefix of its tenant.
    with project.tables() as tables:
        for airport in AIRPORTS:
            for name in ("bronze.flights", "silver.flights", "gold.daily"):
                table = tables.load_table(f"tenants.{airport}.{name}")
                places = [file["file_path"] for file in table.inspect.all_files().to_pylist()]
                places += [snapshot.manifest_list for snapshot in table.snapshots()] + [table.metadata_location]
                assert places
                prefix = f"{(warehouse / 'tenants' / airport).as_posix()}/"
                assert all(place.removeprefix("file://").removeprefix("file:").startswith(prefix) for place in places)
    assert not [path for path in warehouse.iterdir() if path.name not in {"tenants", "catalog.db"}]


def test_a_broken_day_waits_for_its_airport_alone(airports, project, raw):
    with project.tables() as tables:
        before = {airport: tables.get_current_snapshot(f"tenants.{airport}.silver.flights") for airport in AIRPORTS}
    code, assets = project.run("bronze.flights+", "--tenant", "jfk", "--partition", str(BAD))
    held = assets["tenants.jfk.silver.flights"]
    assert (code, held["state"]) == (1, "held back")
    code, answer = project.floe("publish")
    assert [(one["table"], one["branch"]) for one in answer["data"]] == [("tenants.jfk.silver.flights", held["branch"])]
    with project.tables() as tables:
        for airport in AIRPORTS:
            assert tables.get_current_snapshot(f"tenants.{airport}.silver.flights") == before[airport]
    code, answer = project.floe("publish", "tenants.jfk.silver.flights", "--yes")
    assert code == 0, answer
    flown = len(raw[(raw.flight_date == BAD) & (raw.origin == "JFK")])
    with project.tables() as tables:
        after = tables.scan("tenants.jfk.silver.flights", ["origin"], f"flight_date = '{BAD}'")
        assert after.num_rows == flown
        assert tables.get_current_snapshot("tenants.lga.silver.flights") == before["lga"]


def test_an_airport_that_is_no_tenant_is_sent_to_its_bootstrap(airports, project):
    code, answer = project.floe("run", "--tenant", "phl", "--partition", DAYS[0])
    assert code == 1
    assert answer["error"]["message"] == "Tenant 'phl' not found."
    assert answer["error"]["hint"] == "Create it with: floe tenants bootstrap phl"
    code, answer = project.floe("run", "--tenant", "../ewr", "--partition", DAYS[0])
    assert code == 1
    assert "is not a valid tenant id" in answer["error"]["message"]
    assert project.floe("tenants", "list")[1]["data"] == list(AIRPORTS)
