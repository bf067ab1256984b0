"""Outcomes reported to callers: one JSON lines file per process, written before and after each operation."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Told(StrEnum):
    """What a caller knows about its operation."""

    BEGUN = "begun"
    DONE = "done"
    NOTHING = "nothing to do"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Ledger:
    """The lines of one process; they survive its kill -9, because the system has them once they are written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")

    def lines(self) -> Iterator[dict[str, Any]]:
        return read(self.path)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Read a ledger; the last line of a killed process may be cut."""
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
