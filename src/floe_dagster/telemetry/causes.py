"""Selects the most informative error of a failed step's error chain, as one line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from floe_core import errors
from floe_core.observing.redaction import redact_text
from floe_dagster.engine import reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dagster import SerializableErrorInfo

_OWN_ERRORS = re.compile(r"floe_\w+(?:\.\w+)*\.errors\.(?P<name>\w+)")
_INTERRUPTS = frozenset({"DagsterExecutionInterruptedError", "KeyboardInterrupt"})
_CRASH = "ChildProcessCrashException"
PROCESS_LOST = "A process of the run ended unexpectedly: it was killed, or the machine ran out of memory."
"""Failure reason of a process that ended without reporting a result."""
_FULL = re.compile(r"No space left on device|disk is full|Disk quota exceeded|File too large", re.IGNORECASE)
_CLASS = re.compile(r"[A-Za-z_][\w.]*")
_FRAME = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_LIBRARY = re.compile(r"site-packages|dist-packages|[/\\]lib[/\\]python3|^<")
_OWN_CODE = str(Path(__file__).parents[2])


@dataclass(frozen=True)
class Cause:
    """Why a step failed.

    Attributes:
        reason: What went wrong, and the line of the user's code.
        error: Class of the error; one of floe's if floe recognizes the failure.
        interrupted: Whether the run was interrupted by the user.
    """

    reason: str
    error: str | None = None
    interrupted: bool = False

    def __post_init__(self) -> None:
        """Mask secrets: a user's error may quote a URL with credentials, and reports end up in CI logs."""
        object.__setattr__(self, "reason", redact_text(self.reason))


def cause_of(error: SerializableErrorInfo | None) -> Cause:
    """Return the error to report: floe's own, whose message has a hint, or else the root cause."""
    if error is None:
        return Cause("the step failed without an error message")
    chain = list(_chain(error))
    if any(link.cls_name in _INTERRUPTS for link in chain):
        return Cause("interrupted", interrupted=True)
    if any(link.cls_name == _CRASH for link in chain):
        return Cause(PROCESS_LOST, errors.EngineError.__name__)
    for link in chain:
        kind, _, rest = link.message.strip().partition(": ")
        if (own := _OWN_ERRORS.fullmatch(kind)) and rest:
            return Cause(rest.strip(), own["name"])
    last = chain[-1]
    text = _shortened(last.message.strip())
    if full := next((link for link in chain if _FULL.search(link.message)), None):
        return Cause(f"The storage is full: {_shortened(full.message.strip())}", errors.StorageFullError.__name__)
    place = _place_in_project(last.stack)
    return Cause(f"{text} ({place})" if place else text, last.cls_name)


def exit_code_of(error: str | None) -> int:
    """Return a command's exit code for an error class; errors in the user's code exit with ``USER_ERROR``."""
    return next((kind.exit_code for kind in _own_errors() if kind.__name__ == error), errors.USER_ERROR)


def _own_errors(
    root: type[errors.FloeStorageError] = errors.FloeStorageError,
) -> Iterator[type[errors.FloeStorageError]]:
    """Yield floe's error classes, including those of plugins."""
    yield root
    for kind in root.__subclasses__():
        yield from _own_errors(kind)


def _chain(error: SerializableErrorInfo | None) -> Iterator[SerializableErrorInfo]:
    while error is not None:
        yield error
        error = error.cause


def _shortened(text: str) -> str:
    kind, colon, rest = text.partition(": ")
    if not colon or not _CLASS.fullmatch(kind):
        return text
    # An engine may append the query plan to its message, which does not help the user.
    reason = reason_of(kind, rest)
    return f"{kind.rpartition('.')[2]}: {rest.strip() if reason is None else reason}"


def _place_in_project(stack: Sequence[str]) -> str | None:
    """Return the innermost line of a traceback that belongs neither to a library nor to floe."""
    for frame in reversed(stack):
        found = _FRAME.match(frame)
        if found and not _LIBRARY.search(found["file"]) and not found["file"].startswith(_OWN_CODE):
            return f"{Path(found['file']).name}, line {found['line']}"
    return None
