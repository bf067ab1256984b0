"""Print reports as text or JSON, format numbers, and show spinners and prompts."""

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

# Keep one row per line in piped output, so that grep works.
_PIPE_WIDTH = 100_000
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP = 1024
_AGES = ((60, 1, "second"), (3600, 60, "minute"), (86400, 3600, "hour"), (86400 * 60, 86400, "day"))
_SNAPSHOT_KEYS = ("snapshot_id", "snapshot_ids")


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command, as data and as text.

    Attributes:
        data: The ``data`` key of the JSON output.
        text: The parts of the text output, in order.
        exit_code: Exit code of the process; ``ok`` is false unless it is 0.
        raw: Writes the text output directly, for formats such as CSV.
    """

    data: Any
    text: Sequence[RenderableType] = ()
    exit_code: int = 0
    raw: Callable[[TextIO], object] | None = field(default=None)


class UserRows(list[dict[str, Any]]):
    """Rows of a user's table; the JSON output never rewrites their values, whatever the column names."""


def emit(report: Report, *, as_json: bool, place: Mapping[str, str | None] | None = None) -> None:
    """Print a report to standard output; ``place`` is the environment and catalog of the command."""
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
    # rich pads the last column; strip the trailing spaces.
    sys.stdout.write("".join(line.rstrip() + "\n" for line in captured.get().splitlines()))


def write_json(payload: dict[str, Any]) -> None:
    """Write one JSON document to standard output."""
    sys.stdout.write(json_text(payload))
    sys.stdout.flush()


def json_text(payload: object) -> str:
    """Render JSON; types that JSON does not support become text."""
    return json.dumps(payload, indent=2, default=_as_json, ensure_ascii=False) + "\n"


def with_text_ids(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return JSON values with snapshot ids as text: ids exceed 2^53, where most JSON parsers lose precision."""
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
    """Return a console without markup; it colors and wraps only on a terminal."""
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, markup=False, emoji=False, highlight=False, width=width)


def configure_streams(*, verbose: bool, debug: bool) -> None:
    """Log to standard error, errors only by default, and escape characters the terminal cannot encode."""
    from floe_core.schemas import ObservabilityConfig
    from floe_core.telemetry import configure_logging

    level = "DEBUG" if debug else "INFO" if verbose else "ERROR"
    configure_logging(ObservabilityConfig(log_level=level), stream=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")


def grid(headers: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[str] = ()) -> Table:
    """Return a table; columns in ``right`` are right-aligned."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else printable(cell) for cell in row))
    return table


def fields(pairs: Iterable[tuple[str, object]]) -> Table:
    """Return names and values, one pair per line; pairs without a value are omitted."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in pairs:
        if value not in (None, "", (), []):
            table.add_row(name, value if isinstance(value, Text) else printable(value))
    return table


def mark(status: str) -> Text:
    """Return a status in its color."""
    styles = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}
    return Text(status, style=styles.get(status, ""))


def printable(value: object) -> str:
    """Return text with control characters escaped."""
    text = "" if value is None else str(value)
    return "".join(
        char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text
    )


def size(number_of_bytes: int) -> str:
    """Render a size in bytes: ``12.3 MiB``."""
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
    """Render a timestamp relative to now, such as ``3 minutes ago``; after two months, as a date."""
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
    """Whether standard error is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner, on a terminal only."""
    if not _can_move():
        yield
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as progress:
        # The total is unknown, so the bar pulses.
        progress.add_task(what, total=None)
        yield


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal, and yield a function that advances it by one."""
    if not _can_move():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(sys.stderr), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)


def confirm(question: str, *, yes: bool, answer: str | None = None, has_dry_run: bool = True) -> None:
    """Ask for confirmation of an irreversible action.

    Args:
        question: The action, as a question.
        yes: Whether ``--yes`` was passed; skips the question.
        answer: Text to type instead of ``y``, such as the name of the environment.
        has_dry_run: Whether the command supports ``--dry-run``.

    Raises:
        ConfigurationError: There is no terminal, or the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        msg = "This cannot be undone. Confirmation required, but there is no terminal."
        options = f"--env {answer} --yes" if answer else "--yes"
        look = "Preview with --dry-run, then run again" if has_dry_run else "Run the command again"
        raise ConfigurationError(msg, hint=f"{look} with {options}.")
    sys.stderr.write(f"{question} Type '{answer}' to continue: " if answer else f"{question} [y/N] ")
    sys.stderr.flush()
    given = sys.stdin.readline().strip()
    if given != answer if answer else given.lower() not in {"y", "yes"}:
        msg = "Canceled. Nothing was changed."
        raise ConfigurationError(msg)
