"""The progress of a run: a live table on a terminal, one line per event elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.table import Table
from rich.text import Text

from floe_cli.output import console, count, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console, ConsoleOptions, RenderResult

    from floe_dagster.runs.batches import Batch
    from floe_dagster.runs.progress import AssetProgress, CheckProgress

_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_PER_SECOND = 10
_MARKS = {
    "waiting": ("·", "dim"),
    "written": ("✓", "green"),
    "published": ("✓", "green"),
    "nothing written": ("-", "yellow"),
    "held back": ("✋", "yellow"),
    "failed": ("✗", "bold red"),
    "not run": ("-", "dim"),
}
_CHECK_STATES = ("passed", "warned", "failed", "not evaluated")


class RunView:
    """Shows the progress of a run; pass its ``update`` method to the run as the listener."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        """Prepare the view; batches have titles if there are several."""
        total = len(batches)
        self._titles = {
            batch: f"{str(batch) or 'without partitions'} ({number} of {total})" if total > 1 else ""
            for number, batch in enumerate(batches, 1)
        }
        self._running: dict[Batch, Sequence[AssetProgress]] = {}
        self._reported: dict[Batch, set[str]] = {}
        self._last: Batch | None = None
        self._stream: TextIO = sys.stderr
        self._live = sys.stderr.isatty()
        # Concurrent batches call update from their own threads.
        self._lock = threading.Lock()

    @contextmanager
    def shown(self) -> Iterator[RunView]:
        """Show the view on standard error for the duration of a block; on a terminal, remove it at the end."""
        with _own_stderr() as stream:
            self._stream = stream
            if not self._live:
                yield self
                return
            from rich.live import Live

            with Live(self, console=console(stream), refresh_per_second=8, transient=True):
                yield self

    def update(self, batch: Batch, assets: Sequence[AssetProgress]) -> None:
        """Receive the state of all assets of a batch."""
        with self._lock:
            if not self._live:
                self._report(batch, assets)
            elif all(asset.state.over for asset in assets):
                self._running.pop(batch, None)
            else:
                self._running[batch] = assets

    def _report(self, batch: Batch, assets: Sequence[AssetProgress]) -> None:
        """Write a line for each asset that has finished since the last call."""
        over = [asset for asset in assets if asset.state.over and asset.asset not in self._reported.get(batch, ())]
        if (over or batch not in self._reported) and self._last is not batch and self._titles[batch]:
            self._stream.write(printable(f"{self._titles[batch]}:") + "\n")
            self._last = batch
        self._reported.setdefault(batch, set()).update(asset.asset for asset in over)
        for asset in over:
            rows = f", {asset.rows:,} rows" if asset.rows is not None and asset.state.wrote else ""
            trouble = f", {checks_text(asset.checks)}" if any(not check.passed for check in asset.checks) else ""
            self._stream.write(printable(f"{asset.table}: {asset.state}{rows}{trouble}{_took(asset)}") + "\n")
        self._stream.flush()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the current state, including running times."""
        del console, options
        for batch, assets in list(self._running.items()):
            if self._titles[batch]:
                yield Text(self._titles[batch], style="bold")
            yield asset_table(assets)


@contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Yield a duplicate of standard error: Dagster redirects the process's own to a file while a step runs."""
    try:
        number = os.dup(sys.stderr.fileno())
    except (OSError, ValueError):
        # Without a file descriptor, Dagster cannot redirect it.
        yield sys.stderr
        return
    with os.fdopen(number, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors) as stream:
        yield stream


def asset_table(assets: Sequence[AssetProgress]) -> Table:
    """Return the assets of a run with their state, rows, time and current table state."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("")
    table.add_column("TABLE", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    for figure in ("ROWS", "TIME"):
        table.add_column(figure, justify="right", no_wrap=True)
    table.add_column("NOW AT", overflow="fold")
    for asset in assets:
        mark, style = _mark(asset)
        rows = "" if asset.rows is None else f"{asset.rows:,}"
        state = Text(asset.state.value, style=style)
        table.add_row(Text(mark, style=style), printable(asset.table), state, rows, _seconds(asset), _place(asset))
    return table


def _mark(asset: AssetProgress) -> tuple[str, str]:
    if asset.state.good and any(not check.passed for check in asset.checks):
        return "!", "yellow"
    if asset.state.value in _MARKS:
        return _MARKS[asset.state.value]
    return _FRAMES[int(time.monotonic() * _FRAMES_PER_SECOND) % len(_FRAMES)], "cyan"


def _seconds(asset: AssetProgress) -> str:
    if asset.started is None:
        return ""
    return f"{(asset.ended or time.time()) - asset.started:.1f} s"


def _took(asset: AssetProgress) -> str:
    return f", {_seconds(asset)}" if asset.started is not None else ""


def _place(asset: AssetProgress) -> Text:
    """Describe the current state of the table, or where its rows are staged."""
    if asset.state.value == "held back":
        return Text(f"main is unchanged; the rows are on {asset.branch}", style="yellow")
    if asset.state.value == "failed":
        return Text("unchanged", style="dim")
    if not asset.state.good and asset.branch:
        return Text(", ".join(filter(None, ("on its branch", checks_text(asset.checks)))), style="cyan")
    parts = [checks_text(asset.checks)]
    if asset.state.value == "nothing written":
        parts.insert(0, "the asset returned nothing")
    elif asset.total_rows is not None:
        parts.insert(0, f"{asset.total_rows:,} rows, snapshot {asset.snapshot_id}")
    return Text(", ".join(filter(None, parts)))


def checks_text(checks: Sequence[CheckProgress]) -> str:
    """Count checks by how they ended: ``3 checks passed, 1 warned``."""
    totals = Counter(check.state.value for check in checks)
    found = [state for state in _CHECK_STATES if totals[state]]
    # Only the first number has the noun.
    parts = [f"{count(totals[state], 'check')} {state}" for state in found[:1]]
    return ", ".join([*parts, *(f"{totals[state]:,} {state}" for state in found[1:])])
