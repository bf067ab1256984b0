"""Everything floe prints: reports as text or JSON, figures for people, spinners, questions."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from floe_core.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rich.console import RenderableType

# Piped text is for grep: one row a line, however long.
_PIPE_WIDTH = 100_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_AGES = ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (86400 * 60, 86400, "day"))
_SNAPSHOT_KEYS = ("snapshot_id", "snapshot_ids")


@dataclass(frozen=True, slots=True)
class Report:
    """What a command has to say, once for machines and once for people.

    Attributes:
        data: Becomes ``data`` of the JSON output.
        text: Printed one after the other.
        exit_code: What the process exits with; anything but 0 makes ``ok`` false.
        raw: Writes the text itself instead, for formats such as CSV.
    """

    data: Any
    text: Sequence[RenderableType] = ()
    exit_code: int = 0
    raw: Callable[[TextIO], object] | None = field(default=None)


class UserRows(list[dict[str, Any]]):
    """Rows of a user's table: the output leaves their values alone, whatever their columns are called."""


def emit(report: Report, *, as_json: bool, place: Mapping[str, str | None] | None = None) -> None:
    """Print a report to standard output; ``place`` says which environment and catalog it speaks of."""
    if as_json:
        write_json({"ok": report.exit_code == 0, **(place or {}), "data": with_text_ids(report.data)})
    elif report.raw is not None:
        report.raw(sys.stdout)
    else:
        _print(report.text)
    sys.stdout.flush()


def _print(parts: Sequence[RenderableType]) -> None:
    screen = console(sys.stdout)
    if sys.stdout.isatty():
        screen.print(Group(*parts))
        return
    with screen.capture() as captured:
        screen.print(Group(*parts))
    # Columns are padded to their width, which is of no use at the end of a line.
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write_json(payload: dict[str, Any]) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json_text(payload))
    sys.stdout.flush()


def json_text(payload: object) -> str:
    """Render JSON; what JSON lacks becomes text, as people write it."""
    return json.dumps(payload, indent=2, default=_as_json, ensure_ascii=False) + "\n"


def with_text_ids(value: Any) -> Any:  # noqa: ANN401 - whatever JSON is made of
    """Return JSON values with snapshot ids as text: they pass 2^53, beyond which most readers round numbers."""
    if dump := getattr(value, "model_dump", None):
        value = dump(mode="json")
    if isinstance(value, dict):
        return {
            key: _as_text(item) if str(key).endswith(_SNAPSHOT_KEYS) else with_text_ids(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple) and not isinstance(value, UserRows):
        return [with_text_ids(item) for item in value]
    return value


def _as_text(ids: Any) -> Any:  # noqa: ANN401 - one id, several or none
    if isinstance(ids, list | tuple):
        return [_as_text(item) for item in ids]
    return str(ids) if isinstance(ids, int) else ids


def _as_json(value: object) -> object:
    if dump := getattr(value, "model_dump", None):
        return dump(mode="json")
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def console(stream: TextIO) -> Console:
    """Return a console without markup; colours and line breaks only for a terminal."""
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width)


def configure_streams(*, verbose: bool, debug: bool) -> None:
    """Send the log to standard error, quiet unless asked, and survive terminals that cannot show a character."""
    from floe_core.schemas import ObservabilityConfig
    from floe_core.telemetry import configure_logging

    level = "DEBUG" if debug else "INFO" if verbose else "ERROR"
    configure_logging(ObservabilityConfig(log_level=level), stream=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def grid(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """Return a table; columns named in ``right`` hold figures."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else printable(cell) for cell in row))
    return table


def fields(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return names and values, one pair a line; pairs without a value are left out."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", (), []):
            table.add_row(name, value if isinstance(value, Text) else printable(value))
    return table


def mark(status: str) -> Text:
    """Return a status in the colour people expect."""
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
    return Text(status, style=styles.get(status, ""))


def printable(value: object) -> str:
    """Return text that cannot move the cursor or colour the terminal."""
    text = "" if value is None else str(value)
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def size(number_of_bytes: int) -> str:
    """Render bytes as a person reads them: ``12.3 MiB``."""
    amount = float(number_of_bytes)
    for unit in _UNITS:
        if abs(amount) < _STEP or unit == _UNITS[-1]:
            break
        amount /= _STEP
    return f"{number_of_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"


def count(number: int, noun: str, plural: str | None = None) -> str:
    """Render ``1 file`` or ``1,234 files``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def ago(moment: datetime, *, now: datetime | None = None) -> str:
    """Render a moment as a person tells it: ``3 minutes ago``; long ago, as a date."""
    moment = moment if moment.tzinfo else moment.astimezone()
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    if seconds < 0:
        return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    if seconds < 1:
        return "just now"
    for limit, unit, noun in _AGES:
        if seconds < limit:
            return f"{count(int(seconds // unit), noun)} ago"
    return moment.astimezone().strftime("%Y-%m-%d")


def _can_move() -> bool:
    """Whether standard error is a terminal on which a line can be drawn anew."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal only."""
    if not _can_move():
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        # Nobody knows how much is to be done: the bar pulses, and the time tells.
        progress.add_task(what, total=None)
        yield


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on a terminal, and give the way to move it by one."""
    if not _can_move():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def confirm(question: str, *, yes: bool, answer: str | None = None, has_dry_run: bool = True) -> None:
    """Ask before something that cannot be undone.

    Args:
        question: What is about to happen, as a question.
        yes: Whether the command line has answered already.
        answer: What has to be typed instead of a plain yes: the name of the environment.
        has_dry_run: Whether the command can be looked at first.

    Raises:
        ConfigurationError: There is nobody to ask, or the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        msg = "This cannot be undone. Confirmation required, but there is no terminal."
        options = f"--env {answer} --yes" if answer else "--yes"
        look = "Look first with --dry-run, then repeat" if has_dry_run else "Repeat"
        raise ConfigurationError(msg, hint=f"{look} with {options}.")
    sys.stderr.write(f"{question} Type '{answer}' to go on: " if answer else f"{question} [y/N] ")
    sys.stderr.flush()
    given = sys.stdin.readline().strip()
    if given != answer if answer else given.lower() not in {"y", "yes"}:
        msg = "Nothing was changed."
        raise ConfigurationError(msg)
