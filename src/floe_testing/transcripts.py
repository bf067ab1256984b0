"""Executes documentation pages: writes the files they show, and runs their commands.

A fenced block with a title is a file; a ``diff`` block with a title edits a file. In a ``console`` block, lines that
begin with ``$`` are commands, followed by their output; ``…`` matches any text, and any lines if it stands alone.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

_FENCE = re.compile(r'^```(?P<kind>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL)
_WILDCARD = "…"
_SECONDS = 600


@dataclass(frozen=True)
class Write:
    """A file shown on the page."""

    path: str
    text: str


@dataclass(frozen=True)
class Edit:
    """An edit of a file, as a diff without line numbers."""

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Command:
    """A command and its expected output."""

    line: str
    output: str


def steps_of(page: str) -> Iterator[Write | Edit | Command]:
    """Yield the steps of a page in order."""
    for fence in _FENCE.finditer(page):
        kind, title, body = fence["kind"], fence["title"], fence["body"]
        if kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                yield Command(line, output)
        elif title and kind == "diff":
            lines = body.splitlines()
            yield Edit(title, _side(lines, "-"), _side(lines, "+"))
        elif title:
            yield Write(title, body)


def _side(lines: list[str], sign: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[:1] in {" ", sign, ""})


class Reader:
    """Carries out the steps of a page in a terminal session."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Start in a folder."""
        self._folder = folder
        self._environment = dict(environment)
        self._exit_code = 0

    def do(self, step: Write | Edit | Command) -> str:
        """Carry out a step and return its output.

        Raises:
            AssertionError: An edited file lacks the lines that the diff shows, or a command failed unexpectedly.
        """
        if isinstance(step, Command):
            return self._run(step.line)
        file = self._folder / step.path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(step, Edit):
            text = file.read_text(encoding="utf-8")
            if text.count(step.before) != 1:
                msg = f"{step.path} must contain exactly once:\n{step.before}"
                raise AssertionError(msg)
            file.write_text(text.replace(step.before, step.after), encoding="utf-8")
        else:
            file.write_text(step.text, encoding="utf-8")
        return ""

    def _run(self, line: str) -> str:
        if line == "echo $?":
            exit_code, self._exit_code = f"{self._exit_code}\n", 0
            return exit_code
        if self._exit_code != 0:
            msg = f"the previous command failed, and the page does not show its exit code; next command: {line}"
            raise AssertionError(msg)
        # The last line of output is the working directory after the command.
        shell = f"{line}\ncode=$?; echo; pwd; exit $code"
        done = subprocess.run(  # noqa: S603 - commands from the project's documentation
            ["/bin/bash", "-c", shell],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        self._exit_code = done.returncode
        output, _, folder = done.stdout.rstrip("\n").rpartition("\n")
        self._folder = type(self._folder)(folder)
        return output.removesuffix("\n") + "\n" if output.strip() else ""


def matches(expected: str, actual: str) -> bool:
    """Whether the output of a command matches the page; column widths are ignored."""
    pattern = ""
    for line in map(_narrow, expected.splitlines()):
        if line == _WILDCARD:
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r"[^\n]*?".join(map(re.escape, line.split(_WILDCARD))) + "\n"
    return re.fullmatch(pattern, "".join(f"{_narrow(line)}\n" for line in actual.splitlines())) is not None


def _narrow(line: str) -> str:
    return " ".join(line.split())
