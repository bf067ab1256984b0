"""The simulated feed delivers the raw data with the documented faults, and no others."""

from __future__ import annotations

from datetime import date

import pytest


@pytest.fixture
def landing(tmp_path, monkeypatch):
    monkeypatch.setenv("FLIGHTS_LANDING", str(tmp_path))
    return tmp_path


def test_a_day_arrives_as_it_is_in_the_raw_file(landing, raw):
    from flights import feed
    from flights.landing import read_days

    day = date(2013, 9, 3)
    feed.deliver(day, day)
    rows = read_days([str(day)])
    expected = raw[raw.flight_date == day]
    assert rows.num_rows == len(expected)
    assert rows["air_time"].null_count == expected.air_time.isna().sum()
    assert sorted(rows["flight"].to_pylist()) == sorted(expected.flight.astype(str))


def test_files_of_the_first_half_lack_the_new_column_and_are_read_together_with_later_ones(landing):
    from flights import feed
    from flights.landing import read_days

    feed.deliver(date(2013, 6, 30), date(2013, 7, 1))
    assert feed.NEW_COLUMN not in read_days(["2013-06-30"]).column_names
    both = read_days(["2013-06-30", "2013-07-01"])
    known = {row["flight_date"] for row in both.to_pylist() if row["air_time"] is not None}
    assert known == {date(2013, 7, 1)}


def test_the_late_day_comes_twice_and_its_second_delivery_is_complete(landing, raw):
    from flights import feed
    from flights.landing import read_days

    feed.deliver(feed.LATE_DAY, feed.LATE_DAY)
    first = read_days([str(feed.LATE_DAY)])
    assert first["arr_delay"].null_count == first.num_rows
    feed.deliver_again(feed.LATE_DAY)
    both = read_days([str(feed.LATE_DAY)])
    expected = raw[raw.flight_date == feed.LATE_DAY]
    assert both.num_rows - first.num_rows == len(expected)
    assert set(both["delivery"].to_pylist()) == {1, 2}


def test_the_bad_day_has_its_delays_in_seconds(landing, raw):
    from flights import feed
    from flights.landing import read_days

    feed.deliver(feed.BAD_DAY, feed.BAD_DAY)
    delays = [int(value) for value in read_days([str(feed.BAD_DAY)])["dep_delay"].to_pylist() if value is not None]
    assert sum(delays) == raw[raw.flight_date == feed.BAD_DAY].dep_delay.sum() * 60


def test_a_day_nobody_delivered_says_how_to_have_it_delivered(landing):
    from flights.landing import read_days

    with pytest.raises(FileNotFoundError, match=r"2013-01-01\. To deliver the whole year, run"):
        read_days(["2013-01-01"])
