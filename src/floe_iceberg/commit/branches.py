"""Names of the branches that floe creates, which record the process that created them."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass

from floe_core.runtime.processes import ProcessMark

OPERATION_PREFIX = "floe.operation."
FIRST_PREFIX = "floe.first."
STAGING_PREFIX = "audit."
"""Prefix of staging branches, which contain writes until checks pass; only the run that created one writes to it."""

_DIGITS = 16


@dataclass(frozen=True)
class BranchCreator:
    """The process that created an operation branch, and when; unknown for branches of earlier versions of floe.

    Attributes:
        process: The process.
        seconds: Creation time in seconds since the epoch.
    """

    process: ProcessMark | None = None
    seconds: int | None = None

    @property
    def abandoned(self) -> bool:
        """Whether the process that created it is known to have ended."""
        return self.process is not None and self.process.dead


def operation_branch(operation_id: str, number: int) -> str:
    """Return the branch name for one attempt of an operation; it contains the operation and the process."""
    return f"{OPERATION_PREFIX}{_digest(operation_id)}.{number}.{_creator_suffix()}"


def first_branch(unique: str) -> str:
    """Return the name of the branch that creates an empty table's first snapshot."""
    return f"{FIRST_PREFIX}{_digest(unique)}.0.{_creator_suffix()}"


def is_operation_branch(name: str) -> bool:
    """Whether floe created a branch for a single operation."""
    return name.startswith((OPERATION_PREFIX, FIRST_PREFIX))


def branch_creator(name: str) -> BranchCreator:
    """Parse the creator of an operation branch from its name."""
    *_, mark, seconds = ["", *name.split(".")]
    process = ProcessMark.parse(mark)
    try:
        return BranchCreator(process, int(seconds, 16)) if process else BranchCreator()
    except ValueError:
        return BranchCreator()


def _creator_suffix() -> str:
    return f"{ProcessMark.of_this()}.{int(time.time()):x}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
