"""All commands have examples, and all commands in the documentation are valid."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.main import get_command

from floe_cli.app import app

ROOT = Path(__file__).parents[3]
GUIDES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.name != "cli.md"),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
# Operators of the shell.
_SHELL = re.compile(r"^(\||>|>>|&&|;)$")
_LONGEST = 100


def leaves(command, path=("floe",), parent=None):
    """Walk through all commands; return each with its path and context."""
    context = command.context_class(command, info_name=path[-1], parent=parent, **command.context_settings)
    if not hasattr(command, "list_commands"):
        yield path, command, context
        return
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), (*path, name), context)


COMMANDS = {path: command for path, command, _ in leaves(get_command(app))}


def typed(line):
    """Return the words of a command line up to its comment or to the next command."""
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if _SHELL.match(word)), len(words))
    return tuple(words[:end])


def parse(words):
    """Parse a command line as the command itself would, without running it; return the command's path."""
    path = next((words[:length] for length in range(len(words), 0, -1) if words[:length] in COMMANDS), None)
    assert path is not None, f"no command: {' '.join(words)}"
    COMMANDS[path].make_context(path[-1], list(words[len(path) :]))
    return path


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_help_of_each_command_ends_with_examples_that_parse(path):
    examples = (COMMANDS[path].epilog or "").splitlines()
    assert examples, f"add a section 'Examples:' to the docstring of {' '.join(path)}"
    for example in examples:
        assert len(example) <= _LONGEST, example
        assert parse(typed(example)) == path, f"{example!r} is an example of another command"


def test_the_help_shows_the_examples_as_they_are_typed(floe):
    run = floe("tables", "scan", "--help")
    assert run.code == 0
    assert run.out.endswith(
        "\nExamples:\n"
        '  floe tables scan bronze.orders --columns id,total --where "total > 100" --limit 5\n'
        "  floe tables scan bronze.orders --as-of 2h  # as of two hours ago\n"
        "  floe tables scan bronze.orders --limit 0 --format csv > orders.csv\n"
    )


def problem(line):
    """Say why a line cannot be typed; None when it can."""
    try:
        parse(typed(line))
    except Exception as err:  # noqa: BLE001 - typer keeps its errors private
        return getattr(err, "message", None) or str(err) or type(err).__name__
    return None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("floe tabels list", "no command"),
        ("floe run --als", "No such option"),
        ("floe tables scan", "Missing parameter"),
        ("floe tables files a.b --limit none", "valid integer"),
        ("floe tables list", None),
    ],
)
def test_a_line_that_cannot_be_typed_is_found(line, told):
    found = problem(line)
    assert (told in found) if told else (found is None)


def shown(text):
    """Find the command lines of a page: in blocks that are indented or fenced, with or without a prompt."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        found = re.match(r"(?:\s{4}|\$ |)(floe [a-z].*)$", line)
        if found and "…" not in found[1].partition(" #")[0]:
            yield found[1]


def fenced(text):
    return "\n".join(re.findall(r"```(?:console|bash|shell|sh)\n(.*?)```", text, re.DOTALL))


def indented(text):
    outside = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return "\n".join(line for line in outside.splitlines() if line.startswith("    "))


def test_every_command_line_of_the_guides_parses():
    lines = [
        (page.relative_to(ROOT), line)
        for page in GUIDES
        for text in [page.read_text(encoding="utf-8")]
        for line in (*shown(fenced(text)), *shown(indented(text)))
    ]
    assert len(lines) > 40
    wrong = [
        f"{page}: {one}: {found}"
        for page, line in lines
        for one in re.split(r"\s+(?:&&|[&<>|])\s+", line)
        if one.startswith("floe ") and (found := problem(one)) is not None
    ]
    assert wrong == []
