"""Validate cron expressions and time zones of schedules, and suggest corrections."""

from __future__ import annotations

import re
from difflib import get_close_matches
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Name, minimum and maximum value, and the names allowed instead of numbers.
_FIELDS: tuple[tuple[str, int, int, tuple[str, ...]], ...] = (
    ("minute", 0, 59, ()),
    ("hour", 0, 23, ()),
    ("day of the month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of the week", 0, 7, _DAYS),
)
_SHORTHANDS = ("@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually")
_PART = re.compile(r"^(?P<first>\*|[a-z0-9]+)(?:-(?P<last>[a-z0-9]+))?(?:/(?P<step>\d+))?$")
_NTH_DAY = re.compile(r"^(?P<day>[a-z0-9]+)#(?:[1-5]|l)$|^l(?P<last>[a-z0-9]+)$")


def require_cron(text: str) -> str:
    """Return a cron expression with five fields unchanged.

    Raises:
        ValueError: The text is not a valid cron expression.
    """
    lowered = text.strip().lower()
    if lowered in _SHORTHANDS or "${" in text:
        return text
    if lowered.startswith("@"):
        close = get_close_matches(lowered, _SHORTHANDS, n=1)
        guess = f", did you mean '{close[0]}'?" if close else f"; use one of {', '.join(_SHORTHANDS)}"
        msg = f"it is not a cron expression{guess}"
        raise ValueError(msg)
    parts = lowered.split()
    if len(parts) != len(_FIELDS):
        msg = f"a cron expression has five fields, but this one has {len(parts)}"
        raise ValueError(msg)
    for part, (name, low, high, names) in zip(parts, _FIELDS, strict=True):
        for item in part.split(","):
            if problem := _problem(item, name, low, high, names):
                raise ValueError(problem)
    return text


def _problem(item: str, name: str, low: int, high: int, names: tuple[str, ...]) -> str | None:
    if name == "day of the month" and item == "l":
        return None
    if name == "day of the week" and (nth := _NTH_DAY.match(item)):
        item = nth["day"] or nth["last"]
    found = _PART.match(item)
    if found is None:
        return f"'{item}' is not a valid {name}; use a number, a range such as 1-5, a list or */2"
    if found["step"] is not None and int(found["step"]) == 0:
        return f"the step of '{item}' must be 1 or more"
    ends = [end for end in (found["first"], found["last"]) if end not in {None, "*"}]
    values = [_value(end, low, names) for end in ends]
    for end, value in zip(ends, values, strict=True):
        if value is None:
            close = get_close_matches(end, names, n=1)
            return f"'{end}' is not a valid {name}" + (
                f", did you mean '{close[0]}'?" if close else f" ({low} to {high})"
            )
        if not low <= value <= high:
            return f"the {name} must be between {low} and {high}, not {end}"
    return None


def _value(text: str, low: int, names: tuple[str, ...]) -> int | None:
    if text in names:
        return names.index(text) + low
    return int(text) if text.isdigit() else None


def require_timezone(text: str) -> str:
    """Return the name of a time zone unchanged.

    Raises:
        ValueError: The time zone does not exist.
    """
    if "${" in text:
        return text
    try:
        ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        by_lower = {name.lower(): name for name in known}
        cities = {name.rpartition("/")[2].lower(): name for name in sorted(known)}
        lowered = text.strip().lower().replace(" ", "_")
        guess = cities.get(lowered) or next(
            (by_lower[close] for close in get_close_matches(lowered, list(by_lower), n=1)), None
        )
        msg = "unknown time zone" + (f", did you mean '{guess}'?" if guess else "; use a name such as Europe/Berlin")
        raise ValueError(msg) from None
    return text
