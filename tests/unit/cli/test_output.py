"""Formatting of numbers, times and tables."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from floe_cli.output import (
    Report,
    UserRows,
    ago,
    confirm,
    console,
    count,
    emit,
    fields,
    grid,
    json_text,
    printable,
    progress,
    size,
    with_text_ids,
    working,
)
from floe_core.errors import ConfigurationError

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5_300_000, "5.1 MiB"),
        (3 * 1024**3, "3.0 GiB"),
        (2**80, "1073741824.0 PiB"),
    ],
)
def test_sizes(number, text):
    assert size(number) == text


@pytest.mark.parametrize(
    ("back", "text"),
    [
        (timedelta(), "just now"),
        (timedelta(seconds=1), "1 second ago"),
        (timedelta(minutes=3, seconds=20), "3 minutes ago"),
        (timedelta(hours=5), "5 hours ago"),
        (timedelta(days=1), "1 day ago"),
        (timedelta(days=400), "2025-03-30"),
    ],
)
def test_times(back, text):
    assert ago(NOW - back, now=NOW) == text


def test_a_time_to_come_is_written_out():
    assert ago(NOW + timedelta(minutes=5), now=NOW).startswith("2026-05-04")


def test_a_naive_time_is_local():
    assert ago(datetime.now() - timedelta(minutes=2)) == "2 minutes ago"  # noqa: DTZ005 - naive on purpose


@pytest.mark.parametrize(("number", "text"), [(0, "0 files"), (1, "1 file"), (12345, "12,345 files")])
def test_counts(number, text):
    assert count(number, "file") == text


def test_values_cannot_steer_the_terminal():
    assert printable("\x1b[31mred\x07") == "\\x1b[31mred\\x07"


def test_markup_in_values_is_left_alone(capsys):
    emit(Report(data=None, text=[grid(["A"], [("[bold]x[/bold]",)])]), as_json=False)
    assert "[bold]x[/bold]" in capsys.readouterr().out


def test_a_pipe_gets_no_colours_no_line_breaks_and_no_padding(capsys):
    emit(Report(data=None, text=[grid(["A", "B"], [("x" * 300, "y"), ("x", None)])]), as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert "\x1b" not in "".join(lines)
    assert not any(line.endswith(" ") for line in lines)


def test_fields_leave_out_what_is_empty():
    stream = io.StringIO()
    console(stream).print(fields([("A", 1), ("B", None), ("C", "")]))
    assert stream.getvalue().split() == ["A", "1"]


def test_what_json_lacks_becomes_text():
    values = {"day": date(2026, 1, 2), "at": NOW, "price": Decimal("1.50"), "raw": b"\x01", "set": {"b", "a"}}
    assert json.loads(json_text(values)) == {
        "day": "2026-01-02",
        "at": "2026-05-04T12:00:00+00:00",
        "price": "1.50",
        "raw": "01",
        "set": ["a", "b"],
    }


def test_yes_answers_the_question():
    confirm("Really?", yes=True)


def test_without_a_terminal_nobody_can_be_asked(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    with pytest.raises(ConfigurationError, match="--yes"):
        confirm("Really?", yes=False)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("answer", ["y", "YES"])
def test_a_person_can_say_yes(monkeypatch, capsys, answer):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    confirm("Really?", yes=False)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Really? [y/N] ")


@pytest.mark.parametrize("answer", ["", "n", "maybe"])
def test_anything_else_is_no(monkeypatch, answer):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    with pytest.raises(ConfigurationError, match="Nothing was changed"):
        confirm("Really?", yes=False)


def test_a_spinner_shows_on_terminals_only(monkeypatch, capsys):
    with working("Reading"):
        pass
    assert capsys.readouterr().err == ""
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with working("Reading"):
        pass
    assert "Reading" in screen.getvalue()


def test_a_terminal_that_cannot_go_back_shows_no_spinner(monkeypatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "dumb")
    with working("Reading"), progress("Reading", 2) as advance:
        advance()
    assert screen.getvalue() == ""


def test_snapshot_ids_are_text_wherever_they_are():
    big = 2**62
    data = {
        "snapshot_id": big,
        "parent_snapshot_id": None,
        "snapshot_ids": (big, 1),
        "tables": [{"snapshot_id": big, "rows": 5}],
        "rows": UserRows([{"snapshot_id": big}]),
    }
    assert with_text_ids(data) == {
        "snapshot_id": str(big),
        "parent_snapshot_id": None,
        "snapshot_ids": [str(big), "1"],
        "tables": [{"snapshot_id": str(big), "rows": 5}],
        "rows": [{"snapshot_id": big}],
    }
