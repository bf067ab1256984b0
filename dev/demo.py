"""Runs examples/flights from an empty folder to a report, with a late delivery, a broken one and time travel.

If interrupted and started again, the demo continues with the existing tables and ends with the same rows. After a
completed demo, it starts over.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from floe_cli.app import main as floe_main
from floe_core.schemas import CompiledArtifacts
from floe_iceberg import IcebergTableManager

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "flights"
PROJECT = Path(os.environ.get("FLOE_DEMO_DIR") or ROOT / ".floe-dev" / "demo")
FINISHED = PROJECT / ".finished"
SILVER = "silver.flights"
BLOCKS = " ▏▎▍▌▋▊▉█"
CHART_WIDTH = 46

sys.path.insert(0, str(PROJECT))
console = Console(highlight=False)


class Demo:
    """The demo, with its steps so far for the report."""

    def __init__(self) -> None:
        """Start without steps."""
        from flights import feed, report

        self.feed, self.report = feed, report
        self.steps: list[Any] = []

    def tell(self, title: str, text: str, run: dict[str, Any] | None = None) -> None:
        """Add a step to the report."""
        outcome = "done" if run is None else "published" if run["success"] else "stopped"
        self.steps.append(self.report.Step(title, text, outcome, run["seconds"] if run else 0.0))

    def first_half(self) -> None:
        """Load January to June in one run."""
        chapter("January to June", "181 files have arrived. One run builds and checks every table.")
        self.feed.deliver_reference()
        self.feed.deliver(self.feed.FIRST_DAY, june := self.feed.NEW_SINCE.replace(month=6, day=30))
        floe("plan", "--partition-range", f"{self.feed.FIRST_DAY}...{june}")
        result = run("*", "--partition-range", f"{self.feed.FIRST_DAY}...{june}")
        self.tell("January to June", f"181 days in one run: {rows_of(result, SILVER)} flights.", result)

    def late_day(self) -> None:
        """Process the second delivery of a day whose first file was incomplete."""
        day = self.feed.LATE_DAY
        chapter(
            f"{day:%-d %B}, delivered again",
            "The first file ended at noon and contained no arrivals. The complete file replaces the day in bronze; in "
            "silver, known flights are updated by key and missing ones added.",
        )
        self.feed.deliver_again(day)
        with tables() as manager:
            before = manager.get_current_snapshot(SILVER)
        result = run("bronze.flights+", "--partition", str(day))
        self.tell(f"{day:%-d %B}, delivered again", f"{rows_of(result, SILVER)} flights upserted by key.", result)
        with tables() as manager:
            then = self._day(manager, before.snapshot_id if before else None)
            now = self._day(manager, None)
        self.comparison = self.report.Comparison(then, now)
        show_comparison(f"{day:%-d %B} in two snapshots of {SILVER}", then, now)

    def _day(self, manager: IcebergTableManager, snapshot_id: int | None) -> dict[str, Any]:
        import pyarrow.compute as pc

        rows = manager.scan(SILVER, ["arr_delay"], f"flight_date = '{self.feed.LATE_DAY}'", snapshot_id=snapshot_id)
        return {"flights": rows.num_rows, "arr_delay": pc.mean(rows["arr_delay"]).as_py()}

    def second_half(self) -> None:
        """Load the rest of the year, with an additional column."""
        first, last = self.feed.NEW_SINCE, self.feed.BAD_DAY.replace(day=30)
        chapter(
            "July to December",
            f"From July, the files have an additional column, {self.feed.NEW_COLUMN}. The tables add it automatically.",
        )
        self.feed.deliver(first, last)
        result = run("bronze.flights+", "--partition-range", f"{first}...{last}")
        with tables() as manager:
            names = [field.name for field in manager.load_table(SILVER).schema().fields]
        console.print(f"  {SILVER} now has [bold]{self.feed.NEW_COLUMN}[/bold]: {self.feed.NEW_COLUMN in names}\n")
        self.tell(
            "July to December",
            f"183 days in one run: {rows_of(result, SILVER)} flights, with the new column {self.feed.NEW_COLUMN}.",
            result,
        )

    def bad_day(self) -> None:
        """Have a check stop a broken delivery, then discard and reload it."""
        day = self.feed.BAD_DAY
        chapter(
            f"{day:%-d %B} has wrong values",
            "The delays were delivered in seconds. Bronze keeps the file unchanged; a check stops silver's rows on a "
            "branch, and main and gold stay unchanged.",
        )
        self.feed.deliver(day, day)
        stopped = run("bronze.flights+", "--partition", str(day), may_fail=True)
        held = next(asset for asset in stopped["assets"] if asset["table"] == SILVER)
        if held["branch"] is None:
            sys.exit("The run failed before its checks.")
        self.tell(f"{day:%-d %B} has wrong values", f"Held back: {held['reason']}.", stopped)
        floe("discard", SILVER, str(held["branch"]), "--yes")
        chapter(f"{day:%-d %B}, corrected", "The second delivery has its delays in minutes again.")
        self.feed.deliver_again(day)
        result = run("bronze.flights+", "--partition", str(day))
        self.tell(f"{day:%-d %B}, corrected", f"{rows_of(result, SILVER)} flights published.", result)

    def look(self) -> Path:
        """Show the resulting tables, and write the report."""
        chapter("Result", "Tables, snapshots and a chart; the report contains the rest.")
        floe("tables", "list")
        floe("tables", "snapshots", SILVER)
        with tables() as manager:
            show_chart(manager)
            return self.report.write_report(manager, PROJECT / "report.html", self.steps, self.comparison)


def chapter(title: str, text: str) -> None:
    """Print a heading."""
    console.print()
    console.print(Rule(Text(title, style="bold"), align="left", style="cyan"))
    console.print(Text(text, style="dim"))
    console.print()


def floe(*arguments: str) -> None:
    """Run a floe command like a user would; exit if it fails."""
    console.print(Text(f"$ floe {' '.join(arguments)}", style="bold"))
    code = floe_main([*arguments, "--project", str(PROJECT)])
    console.print()
    if code != 0:
        sys.exit(f"floe {arguments[0]} failed with exit code {code}")


def run(select: str, *arguments: str, may_fail: bool = False) -> dict[str, Any]:
    """Run assets, print and return the result."""
    console.print(Text(f"$ floe run --select '{select}' {' '.join(arguments)}", style="bold"))
    captured = io.StringIO()
    with redirect_stdout(captured):
        floe_main(["run", "--select", select, *arguments, "--project", str(PROJECT), "--output", "json"])
    answer = json.loads(captured.getvalue())
    if "data" not in answer:
        sys.exit(f"{answer['error']['message']} {answer['error']['hint'] or ''}")
    show_run(answer["data"])
    if not answer["data"]["success"] and not may_fail:
        sys.exit("The run failed; the tables are unchanged.")
    return dict(answer["data"])


def rows_of(result: dict[str, Any], table: str) -> str:
    """Return the number of rows that a run wrote to a table, as text."""
    return next(f"{asset['rows']:,}" for asset in result["assets"] if asset["table"] == table)


def show_run(result: dict[str, Any]) -> None:
    """Print the result of each asset."""
    styles = {"published": "green", "written": "green", "held back": "yellow", "failed": "red"}
    view = grid("", "TABLE", "STATE", "ROWS", "TIME", "TOTAL ROWS", "CHECKS", right=("ROWS", "TIME", "TOTAL ROWS"))
    for asset in result["assets"]:
        style = styles.get(asset["state"], "dim")
        mark = {"green": "✓", "yellow": "!", "red": "✗"}.get(style, "-")
        passed = sum(check["passed"] for check in asset["checks"])
        view.add_row(
            Text(mark, style=style),
            asset["table"],
            Text(asset["state"], style=style),
            figure(asset["rows"]),
            "" if asset["seconds"] is None else f"{asset['seconds']:.1f} s",
            figure(asset["total_rows"]) if style == "green" else "",
            f"{passed} of {len(asset['checks'])}" if asset["checks"] else "",
        )
    console.print(view)
    for asset in result["assets"]:
        if asset["reason"]:
            console.print(Text(f"  {asset['table']} {asset['state']}: {asset['reason']}", style="yellow"))
    console.print(f"  [dim]{result['seconds']:.1f} s[/dim]\n")


def grid(*headers: str, right: Sequence[str] = ()) -> Table:
    """Return an empty table without borders."""
    view = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for header in headers:
        view.add_column(header, justify="right" if header in right else "left", no_wrap=True)
    return view


def figure(number: int | None) -> str:
    """Format an optional number."""
    return "" if number is None else f"{number:,}"


def show_comparison(title: str, then: dict[str, Any], now: dict[str, Any]) -> None:
    """Print the results of a query on two snapshots."""
    view = grid("", "FLIGHTS", "MEAN ARRIVAL DELAY", right=("FLIGHTS", "MEAN ARRIVAL DELAY"))
    for name, row in (("before", then), ("now", now)):
        delay = "unknown" if row["arr_delay"] is None else f"{row['arr_delay']:.1f} min"
        view.add_row(name, f"{row['flights']:,}", delay)
    console.print(Text(f"  {title}", style="bold"))
    console.print(view)
    console.print()


def show_chart(manager: IcebergTableManager) -> None:
    """Print a bar chart of the departure delay by hour of the day."""
    rows = manager.scan("gold.carrier_hours", ["hour", "flights", "cancelled", "dep_delay"]).to_pylist()
    hours: dict[int, tuple[float, int]] = {}
    for row in rows:
        total, flown = hours.get(row["hour"], (0.0, 0))
        left = row["flights"] - row["cancelled"]
        hours[row["hour"]] = (total + (row["dep_delay"] or 0) * left, flown + left)
    means = {hour: total / flown for hour, (total, flown) in sorted(hours.items()) if flown}
    longest = max(means.values())
    console.print(Text("  Mean departure delay by hour of the day (gold.carrier_hours)", style="bold"))
    for hour, mean in means.items():
        style = "green" if mean < longest / 3 else "yellow" if mean < longest * 2 / 3 else "red"
        console.print(Text.assemble(f"  {hour:>2} h ", (bar(mean / longest), style), f" {mean:.0f} min"))
    console.print()


def bar(share: float) -> str:
    """Draw a bar with a resolution of an eighth of a character."""
    eighths = round(share * CHART_WIDTH * 8)
    return "█" * (eighths // 8) + BLOCKS[eighths % 8].strip()


def tables() -> IcebergTableManager:
    """Open the project's tables; also a context manager."""
    return IcebergTableManager.from_artifacts(
        CompiledArtifacts.from_json_file(PROJECT / ".floe" / "compiled_artifacts.json")
    )


def prepare() -> None:
    """Copy the project: into an empty folder after a completed demo, over existing files after an interrupted one."""
    going_on = (PROJECT / ".floe").exists() and not FINISHED.exists()
    if not going_on:
        shutil.rmtree(PROJECT, ignore_errors=True)
    FINISHED.unlink(missing_ok=True)
    shutil.copytree(EXAMPLE, PROJECT, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".floe", "landing"))
    floe("compile")
    if going_on:
        console.print("The previous demo was interrupted. Continuing with its tables.")
        discard_leftovers()


def discard_leftovers() -> None:
    """Discard rows that an interrupted run left staged."""
    from floe_iceberg.staging.staged import discard_staged, list_staged

    with tables() as manager:
        for name in ("bronze.flights", SILVER, "gold.daily"):
            if manager.table_exists(name):
                for held in list_staged(manager, name):
                    discard_staged(manager, name, held.branch)


def main() -> int:
    """Run the demo."""
    started = time.monotonic()
    prepare()
    demo = Demo()
    demo.first_half()
    demo.late_day()
    demo.second_half()
    demo.bad_day()
    path = demo.look()
    FINISHED.touch()
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    console.print(f"Done in {time.monotonic() - started:.0f} s. Report: [bold]{shown}[/bold]")
    console.print(f"[dim]Explore the tables: floe tables list -p {PROJECT}, or floe dev -p {PROJECT}[/dim]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
