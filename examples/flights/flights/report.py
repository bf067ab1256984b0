"""Writes the report: a single HTML file, generated from the tables.

To run it by hand: python -m flights.report report.html
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from flights.charts import Bar, Point, Scale, bars, calendar, heat_map, scatter
from flights.feed import BAD_DAY, LATE_DAY
from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

DELAY = Scale(-20, 60)
NOTED = {LATE_DAY: "first delivered incomplete", BAD_DAY: "held back by a check, then corrected"}
TABLES = ("bronze.flights", "silver.flights", "gold.carrier_hours", "gold.routes", "gold.daily")
BUSY_ROUTE = 365
SHOWN_ROUTES = 10
SHOWN_SNAPSHOTS = 6

Row = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One step of the demo, as shown in the report."""

    title: str
    text: str
    outcome: str = "done"
    seconds: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """Statistics of the worst day of the year, before and after its second delivery."""

    before: Row
    after: Row


def write_report(
    tables: IcebergTableManager, path: Path, steps: Sequence[Step] = (), comparison: Comparison | None = None
) -> Path:
    """Write the report as a self-contained HTML file."""
    days = tables.scan("gold.daily").sort_by("flight_date").to_pylist()
    sections = [
        _figures(days),
        _story(steps),
        _calendar(days),
        _hours(tables.scan("gold.carrier_hours").to_pylist()),
        _routes(tables.scan("gold.routes").to_pylist()),
        _weather(days),
        _time_travel(comparison),
        _tables(tables),
    ]
    template = Template((Path(__file__).parent / "report.html").read_text(encoding="utf-8"))
    made = f"{datetime.now(UTC):%d %B %Y, %H:%M} UTC"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(template.substitute(sections="\n".join(filter(None, sections)), made=made), encoding="utf-8")
    return path


def _figures(days: list[Row]) -> str:
    flights, cancelled = sum(day["flights"] for day in days), sum(day["cancelled"] for day in days)
    on_time = sum(day["on_time"] * day["flights"] for day in days) / flights
    worst = max(days, key=lambda day: day["arr_delay"] or 0)
    cards = [
        (f"{flights:,}", "flights from New York"),
        (f"{on_time:.1%}", "arrived within 15 minutes of schedule"),
        (f"{cancelled / flights:.1%}", f"canceled ({cancelled:,} flights)"),
        (f"{worst['arr_delay']:.0f} min", f"mean delay on {worst['flight_date']:%-d %B}, the worst day"),
    ]
    inner = "".join(f'<div class="card"><b>{escape(big)}</b><span>{escape(small)}</span></div>' for big, small in cards)
    return f'<div class="cards">{inner}</div>'


def _story(steps: Sequence[Step]) -> str:
    if not steps:
        return ""
    items = "".join(
        f'<li class="{escape(step.outcome)}"><div><b>{escape(step.title)}</b>'
        f'<span class="outcome">{escape(step.outcome)}</span><span class="time">{step.seconds:.1f} s</span></div>'
        f"<p>{escape(step.text)}</p></li>"
        for step in steps
    )
    return _section("How the year was loaded", "All runs in order, with their outcomes.", f"<ol>{items}</ol>")


def _calendar(days: list[Row]) -> str:
    by_day: dict[date, Row] = {day["flight_date"]: day for day in days}
    values = {day: row["arr_delay"] for day, row in by_day.items() if row["arr_delay"] is not None}

    def tooltip(day: date) -> str:
        row = by_day[day]
        note = f" ({NOTED[day]})" if day in NOTED else ""
        figures = f"{row['arr_delay']:.0f} min mean delay, {row['flights']:,} flights, {row['cancelled']} canceled"
        return f"{day:%a %-d %b}: {figures}{note}"

    chart = calendar(values, DELAY, noted=NOTED, tooltip=tooltip) + DELAY.legend("min")
    notes = "; ".join(f"{day:%-d %B} {note}" for day, note in NOTED.items())
    return _section(
        "Every day of the year",
        f"Mean arrival delay by day, from gold.daily. Circled: {notes}.",
        chart,
    )


def _hours(rows: list[Row]) -> str:
    scale = Scale(0, 40)
    airlines = {row["airline"] or row["carrier"]: 0 for row in rows}
    for row in rows:
        airlines[row["airline"] or row["carrier"]] += row["flights"]
    order = sorted(airlines, key=lambda name: -airlines[name])
    values = {
        (row["airline"] or row["carrier"], row["hour"]): row["dep_delay"]
        for row in rows
        if row["dep_delay"] is not None and row["flights"] >= 20  # noqa: PLR2004 - fewer are not representative
    }
    hours = sorted({hour for _, hour in values})
    chart = heat_map(order, hours, values, scale, "min") + scale.legend("min")
    text = "Mean departure delay by airline and hour of the day, from gold.carrier_hours: delays grow until evening."
    return _section("When to fly", text, chart)


def _routes(rows: list[Row]) -> str:
    busy = sorted((row for row in rows if row["flights"] >= BUSY_ROUTE), key=lambda row: -row["on_time"])
    scale = Scale(0.95, 0.55)

    def drawn(chosen: Iterable[Row]) -> str:
        return bars([_route(row) for row in chosen], scale, longest=1.0)

    chart = f"<h3>Most reliable</h3>{drawn(busy[:SHOWN_ROUTES])}<h3>Least reliable</h3>{drawn(busy[-SHOWN_ROUTES:])}"
    text = "Share of flights that arrive within 15 minutes of schedule, on routes flown daily, from gold.routes."
    return _section("Where to fly", text, chart)


def _route(row: Row) -> Bar:
    name = f"{row['origin']} → {row['destination'] or row['dest']}"
    tooltip = f"{name}: {row['flights']:,} flights, {row['cancelled']} canceled, mean delay {row['arr_delay']:g} min"
    return Bar(name if len(name) <= 30 else f"{name[:29]}…", row["on_time"], f"{row['on_time']:.0%}", tooltip)  # noqa: PLR2004 - width of the label


def _weather(days: list[Row]) -> str:
    points = [
        Point(
            day["precip"],
            day["arr_delay"],
            f"{day['flight_date']:%-d %b}: {day['precip']:g} in/h, {day['arr_delay']:.0f} min, "
            f"{day['cancelled']} canceled",
            3 + (day["cancelled"] / day["flights"]) ** 0.5 * 12,
        )
        for day in days
        if day["precip"] is not None and day["arr_delay"] is not None
    ]
    chart = scatter(points, DELAY, across="rain and snow, inches per hour", up="mean arrival delay, min")
    return _section("Effect of the weather", "One point per day, sized by the share of canceled flights.", chart)


def _time_travel(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    rows = [("Before the second delivery", comparison.before), ("Now", comparison.after)]
    top = max(row["arr_delay"] or 0 for _, row in rows)
    drawn = [
        Bar(
            label,
            row["arr_delay"] or 0,
            f"{row['arr_delay']:.0f} min, {row['flights']:,} flights" if row["arr_delay"] else "no arrivals yet",
        )
        for label, row in rows
    ]
    text = f"Mean arrival delay on {LATE_DAY:%-d %B}, from two snapshots of silver.flights."
    return _section("Time travel", text, bars(drawn, DELAY, longest=top * 1.3))


def _tables(tables: IcebergTableManager) -> str:
    shown = "".join(_table(tables, name) for name in TABLES)
    text = "Every write is a snapshot that can be read, compared, tagged or rolled back to."
    return _section("The tables behind this page", text, shown)


def _table(tables: IcebergTableManager, name: str) -> str:
    table, snapshots = tables.load_table(name), tables.list_snapshots(name)
    rows = int(snapshots[0].summary.get("total-records", 0)) if snapshots else 0
    added = {field.name for field in table.schema().fields if field.field_id not in _first_fields(table)}
    columns = ", ".join(
        f"<mark>{escape(field.name)}</mark>" if field.name in added else escape(field.name)
        for field in table.schema().fields
    )
    lines = "".join(
        f"<tr><td>{snapshot.timestamp:%H:%M:%S}</td><td>{escape(snapshot.operation or '')}</td>"
        f'<td class="number">{int(snapshot.summary.get("added-records", 0)):,}</td>'
        f'<td class="number">{int(snapshot.summary.get("total-records", 0)):,}</td>'
        f"<td><code>{snapshot.snapshot_id}</code></td></tr>"
        for snapshot in snapshots[:SHOWN_SNAPSHOTS]
    )
    versions = "1 snapshot" if len(snapshots) == 1 else f"{len(snapshots)} snapshots"
    head = "<tr><th>time</th><th>operation</th><th>rows written</th><th>rows</th><th>snapshot</th></tr>"
    evolved = " <small>highlighted: added by schema evolution</small>" if added else ""
    return (
        f"<details open><summary><b>{escape(name)}</b> {rows:,} rows, {versions}</summary>"
        f'<p class="columns">{columns}{evolved}</p><table>{head}{lines}</table></details>'
    )


def _first_fields(table: Any) -> set[int]:  # noqa: ANN401 - a PyIceberg table
    return {field.field_id for field in min(table.schemas().values(), key=lambda schema: schema.schema_id).fields}


def _section(title: str, text: str, inner: str) -> str:
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p>{inner}</section>"


def main() -> None:
    """Write the report of the project in the working directory."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "report.html")
    with IcebergTableManager.from_artifacts(CompiledArtifacts.from_json_file()) as tables:
        print(f"Wrote {write_report(tables, path)}")


if __name__ == "__main__":
    main()
