"""Parse timestamps and ages: ``2026-05-04T12:00``, ``2026-05-04``, ``7d`` (seven days ago)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from floe_core.errors import ConfigurationError

_AGE = re.compile(r"(?P<number>\d+)(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_age(text: str) -> timedelta:
    """Parse an age such as 30m, 12h or 7d.

    Raises:
        ConfigurationError: The text is not a valid age.
    """
    if match := _AGE.fullmatch(text.strip()):
        return timedelta(**{_UNITS[match["unit"]]: int(match["number"])})
    msg = f"'{text}' is not a valid age."
    raise ConfigurationError(msg, hint="Use a number followed by s, m, h, d or w, such as 7d.")


def parse_timestamp(text: str, *, now: datetime | None = None) -> datetime:
    """Parse a timestamp, or an age relative to now. A timestamp without a time zone is local time.

    Raises:
        ConfigurationError: The text is not a valid timestamp.
    """
    if _AGE.fullmatch(text.strip()):
        return (now or datetime.now(UTC)) - parse_age(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as err:
        msg = f"'{text}' is not a valid timestamp."
        raise ConfigurationError(msg, hint="Use 2026-05-04, 2026-05-04T12:00, or an age such as 7d.") from err
    return moment if moment.tzinfo else moment.astimezone()
