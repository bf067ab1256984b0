"""Moments and ages as they are typed: ``2026-05-04T12:00``, ``2026-05-04``, ``7d`` (seven days ago)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from floe_core.errors import ConfigurationError

_AGE = re.compile(r"(?P<number>\d+)(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_age(text: str) -> timedelta:
    """Parse an age such as 30m, 12h or 7d.

    Raises:
        ConfigurationError: The text is no age.
    """
    if match := _AGE.fullmatch(text.strip()):
        return timedelta(**{_UNITS[match["unit"]]: int(match["number"])})
    msg = f"'{text}' is no age."
    raise ConfigurationError(msg, hint="Write a number and s, m, h, d or w, such as 7d.")


def parse_moment(text: str, *, now: datetime | None = None) -> datetime:
    """Parse a moment; without a zone it is local time, and an age is counted back from now.

    Raises:
        ConfigurationError: The text is no moment.
    """
    if _AGE.fullmatch(text.strip()):
        return (now or datetime.now(UTC)) - parse_age(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as err:
        msg = f"'{text}' is no moment."
        raise ConfigurationError(msg, hint="Write 2026-05-04, 2026-05-04T12:00, or an age such as 7d.") from err
    return moment if moment.tzinfo else moment.astimezone()
