"""Reads delivered files: all files of a day, with every column as text."""

import os
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

_NULLS = ["", "NA"]


def landing_folder() -> Path:
    """Return the landing folder: FLIGHTS_LANDING, or else ``landing`` in this project."""
    return Path(os.environ.get("FLIGHTS_LANDING") or Path(__file__).parent.parent / "landing")


def read_days(days: Sequence[str], origin: str | None = None) -> pa.Table:
    """Read all deliveries of some days; columns record the day and delivery of each row.

    If an airport such as ``ewr`` is given, only its departures are returned.
    """
    tables = [_read_day(path) for day in days for path in sorted((landing_folder() / "flights").glob(f"{day}.*.csv"))]
    if not tables:
        what = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        message = f"No files were delivered for {what}. To deliver the whole year, run: python -m flights.feed"
        raise FileNotFoundError(message)
    # Files of different months have different columns; missing columns become null.
    return _of_airport(pa.concat_tables(tables, promote_options="default"), origin)


def read_reference(name: str, origin: str | None = None) -> pa.Table:
    """Read a reference file such as ``planes``; if an airport is given, only its rows."""
    return _of_airport(_read(landing_folder() / f"{name}.csv"), origin)


def _of_airport(rows: pa.Table, origin: str | None) -> pa.Table:
    return rows if origin is None else rows.filter(pc.equal(rows["origin"], origin.upper()))


def _read_day(path: Path) -> pa.Table:
    rows = _read(path)
    day, delivery, _ = path.name.split(".")
    return rows.append_column("flight_date", _same(date.fromisoformat(day), pa.date32(), rows)).append_column(
        "delivery", _same(int(delivery), pa.int32(), rows)
    )


def _same(value: object, kind: pa.DataType, rows: pa.Table) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), rows.num_rows)


def _read(path: Path) -> pa.Table:
    with path.open(encoding="utf-8") as stream:
        names = stream.readline().strip().split(",")
    options = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), null_values=_NULLS, strings_can_be_null=True
    )
    return csv.read_csv(path, convert_options=options)
