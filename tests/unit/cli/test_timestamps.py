"""Parsing of timestamps and ages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from floe_cli.timestamps import parse_age, parse_timestamp
from floe_core.errors import ConfigurationError

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "age"),
    [("30s", timedelta(seconds=30)), ("5m", timedelta(minutes=5)), (" 7d ", timedelta(days=7)), ("2w", timedelta(14))],
)
def test_ages(text, age):
    assert parse_age(text) == age
    assert parse_timestamp(text, now=NOW) == NOW - age


@pytest.mark.parametrize("text", ["2026-05-04T12:00:00+00:00", "2026-05-04T12:00Z", "2026-05-04 14:00+02:00"])
def test_moments_with_a_zone(text):
    assert parse_timestamp(text) == NOW


def test_a_moment_without_a_zone_is_local():
    assert parse_timestamp("2026-05-04") == datetime(2026, 5, 4).astimezone()


@pytest.mark.parametrize("text", ["yesterday", "7 days", "", "2026-13-01", "-3d"])
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(ConfigurationError, match="7d"):
        parse_timestamp(text)
    with pytest.raises(ConfigurationError):
        parse_age(text)
