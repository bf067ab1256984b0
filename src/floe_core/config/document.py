"""Read floe.yaml: any input gives either a document or an error with its location."""

from __future__ import annotations

import stat
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Never

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from floe_core.config.nodes import MapNode, Place, plain_data
from floe_core.config.tree import TreeBuilder, UnreadableError
from floe_core.errors import ConfigProblem, ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MAX_BYTES = 8_000_000
PROJECT_FILE_NAMES = ("floe.yaml", "floe.yml")

_FIRST_LINES = "Start with a mapping, such as: name: my_project"
_SYNTAX_HINTS = (
    (r"'\t'", "a tab is used where only spaces are allowed", "Indent with spaces"),
    ("mapping values are not allowed", "a second ':' on one line, or wrong indentation", "Put the value in quotes"),
    ("expected ':'", "a ':' is missing after a key", "Write: key: value"),
    ("expected <block end>", "the indentation does not match the lines above", "Align it with its siblings"),
    ("unexpected end of stream", "a quote is never closed", "Close the quote"),
    ("cannot start any token", "a value starts with a character reserved by YAML", "Put the value in quotes"),
    (
        "expected ',' or",
        "unexpected text in a list or mapping in brackets",
        "Close the bracket; inside brackets, put values that contain ${…} or ': ' in quotes",
    ),
)


@dataclass(frozen=True)
class Document:
    """A YAML mapping with the location of every value; ``problems`` lists mistakes that did not prevent parsing."""

    file: str
    root: MapNode
    problems: tuple[ConfigProblem, ...] = ()

    @cached_property
    def data(self) -> dict[str, Any]:
        """The document as plain data."""
        data: dict[str, Any] = plain_data(self.root)
        return data


def find_project_file(start: Path) -> Path:
    """Return the floe.yaml of a folder or of its nearest parent; a file is returned unchanged.

    Raises:
        ConfigurationError: No floe.yaml was found.
    """
    if start.is_file():
        return start
    folder = start.resolve()
    for parent in (folder, *folder.parents):
        for name in PROJECT_FILE_NAMES:
            if (parent / name).is_file():
                return parent / name
    msg = f"No floe.yaml found in {start} or its parent folders."
    raise ConfigurationError(msg, hint="Create a project with: floe init")


def read_document(path: Path) -> Document:
    """Read a YAML file whose top level is a mapping.

    Raises:
        ConfigurationError: The file is missing, too large, not text, not YAML, or not a mapping.
    """
    return parse_document(read_text(path), str(path))


def read_text(path: Path) -> str:
    """Read a text file of a project.

    Raises:
        ConfigurationError: The file is missing, too large, or not text.
    """
    return _text_of(_bytes_of(path), str(path))


def parse_document(text: str, file: str) -> Document:
    """Read YAML whose top level is a mapping; ``file`` is its name in errors.

    Raises:
        ConfigurationError: The text is not YAML, or not a mapping.
    """
    builder = TreeBuilder(file)
    try:
        root = builder.build(YAML(typ="safe", pure=True).parse(text))
    except UnreadableError as err:
        fail(file, [*builder.problems, err.problem])
    except YAMLError as err:
        # The library's own message quotes the line, which may contain a secret.
        fail(file, [*builder.problems, _syntax_problem(err, text, file)])
    if root is None:
        fail(file, [ConfigProblem("the file is empty", file, 1, 1, "", _FIRST_LINES)])
    if not isinstance(root, MapNode):
        message = "the top level must be a mapping of keys"
        fail(file, [*builder.problems, ConfigProblem(message, file, *root.place, "", _FIRST_LINES)])
    return Document(file, root, tuple(builder.problems))


def fail(file: str, problems: Sequence[ConfigProblem]) -> Never:
    """Raise all problems of a file as one error, in file order."""
    unique = sorted(dict.fromkeys(problems), key=lambda problem: (problem.line, problem.column))
    msg = f"{file} has {mistakes(unique)}."
    raise ConfigurationError(msg, problems=unique) from None


def mistakes(problems: Sequence[ConfigProblem]) -> str:
    """Count problems in words."""
    return "1 mistake" if len(problems) == 1 else f"{len(problems)} mistakes"


def _bytes_of(path: Path) -> bytes:
    try:
        if stat.S_ISDIR(mode := path.stat().st_mode):
            msg = f"{path} is a folder, not a file."
            raise ConfigurationError(msg, hint=f"Pass the file, such as {path / 'floe.yaml'}.")
        if not stat.S_ISREG(mode):
            msg = f"{path} is not a regular file."
            raise ConfigurationError(msg, hint="Pass a floe.yaml file.")
        with path.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        msg = f"{path} does not exist."
        raise ConfigurationError(msg, hint="Create a project with: floe init") from None
    except (OSError, ValueError) as err:
        reason = getattr(err, "strerror", None) or str(err)
        msg = f"Cannot read {path}: {reason}."
        raise ConfigurationError(msg, hint="Check the path and its permissions.") from None
    if len(content) > MAX_BYTES:
        message = f"the file is larger than {MAX_BYTES // 1_000_000} MB, the maximum size"
        fail(str(path), [ConfigProblem(message, str(path), 1, 1, "", "Split the project into smaller ones")])
    return content


def _text_of(content: bytes, file: str) -> str:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        fail(file, [ConfigProblem("the file is UTF-16 text", file, 1, 1, "", "Save it as UTF-8")])
    if (nul := content.find(b"\0")) >= 0:
        _not_text("the file is binary", content[:nul], file, fix="Use a text file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        _not_text(
            f"the byte 0x{content[err.start]:02x} is not UTF-8", content[: err.start], file, fix="Save it as UTF-8"
        )


def _not_text(message: str, before: bytes, file: str, *, fix: str) -> Never:
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode("utf-8", errors="replace")) + 1
    fail(file, [ConfigProblem(message, file, before.count(b"\n") + 1, column, "", fix)])


def _syntax_problem(err: YAMLError, text: str, file: str) -> ConfigProblem:
    if isinstance(err, ReaderError):
        before = text[: err.position]
        place = Place(before.count("\n") + 1, len(before) - before.rfind("\n"))
        message = f"the character #x{err.character:04x} is not allowed in YAML"
        return ConfigProblem(message, file, *place, "", "Remove it, or write it as an escape in double quotes")
    mark = err.problem_mark or err.context_mark if isinstance(err, MarkedYAMLError) else None
    place = Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)
    problem = str(err.problem or err.context or "") if isinstance(err, MarkedYAMLError) else ""
    for sign, message, fix in _SYNTAX_HINTS:
        if sign in problem:
            return ConfigProblem(f"invalid YAML: {message}", file, *place, "", fix)
    return ConfigProblem(f"invalid YAML: {problem or 'it cannot be parsed'}", file, *place, "", "Check this line")
