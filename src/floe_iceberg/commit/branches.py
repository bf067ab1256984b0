"""Names of the branches that floe opens, and what they tell about who opened them."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from floe_core.runtime.processes import ProcessMark

OPERATION_PREFIX = "floe.operation."
FIRST_PREFIX = "floe.first."
STAGING_PREFIX = "audit."
"""Branches on which writes wait for their checks: nobody but the run that opened one writes there."""

_DIGITS = 16


@dataclass(frozen=True)
class Opened:
    """Who opened an operation's branch, and when; a branch of an earlier version of floe does not tell.

    Attributes:
        process: The process.
        seconds: The moment, in seconds since the epoch.
    """

    process: ProcessMark | None = None
    seconds: int | None = None

    @property
    def abandoned(self) -> bool:
        """Whether whoever opened it is gone for certain."""
        return self.process is not None and self.process.dead


def operation_branch(operation_id: str, number: int) -> str:
    """Name the branch of one try of an operation after it and after the process that runs it."""
    return f"{OPERATION_PREFIX}{_digest(operation_id)}.{number}.{_opener()}"


def first_branch(unique: str) -> str:
    """Name the branch that gives an empty table its first snapshot."""
    return f"{FIRST_PREFIX}{_digest(unique)}.0.{_opener()}"


def is_operation_branch(name: str) -> bool:
    """Whether floe opened a branch for one operation alone."""
    return name.startswith((OPERATION_PREFIX, FIRST_PREFIX))


def opened(name: str) -> Opened:
    """Read from its name who opened an operation's branch."""
    *_, mark, seconds = ["", *name.split(".")]
    process = ProcessMark.parse(mark)
    try:
        return Opened(process, int(seconds, 16)) if process else Opened()
    except ValueError:
        return Opened()


def _opener() -> str:
    return f"{ProcessMark.of_this()}.{int(time.time()):x}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
