"""Catalogs that fail on purpose, on a real SQL catalog underneath."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import requests
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.update import TableRequirement, TableUpdate


class Fault(StrEnum):
    """What happens to one commit."""

    NONE = "none"
    LANDED_LOST = "landed, reply lost"
    LANDED_CONFLICT = "landed, answered 409"
    LANDED_UNKNOWN = "landed, answered 500"
    LANDED_UNAVAILABLE = "landed, answered 503"
    LANDED_TIMEOUT = "landed, timed out"
    CONFLICT = "answered 409"
    UNKNOWN = "not landed, answered 500"
    UNAVAILABLE = "not landed, answered 503"
    UNREACHABLE = "not landed, no connection"


_ANSWERS: dict[Fault, Callable[[], Exception]] = {
    Fault.LANDED_LOST: lambda: requests.ConnectionError("connection reset"),
    Fault.LANDED_CONFLICT: lambda: CommitFailedException("409"),
    Fault.LANDED_UNKNOWN: lambda: CommitStateUnknownException("500"),
    Fault.LANDED_UNAVAILABLE: lambda: ServiceUnavailableError("503"),
    Fault.LANDED_TIMEOUT: lambda: requests.ReadTimeout("no answer"),
    Fault.CONFLICT: lambda: CommitFailedException("409"),
    Fault.UNKNOWN: lambda: ServerError("502"),
    Fault.UNAVAILABLE: lambda: ServiceUnavailableError("503"),
    Fault.UNREACHABLE: lambda: requests.ConnectionError("refused"),
}
LANDED = [fault for fault in Fault if fault.value.startswith("landed")]


class FaultyCatalog(SqlCatalog):
    """Follows a script, one fault a commit; when it ends, everything works."""

    def play(self, faults: Iterable[Fault]) -> None:
        """Set the script for the commits to come."""
        self.script = list(faults)
        self.commits = 0

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, or not, and answer as the script says."""
        script: list[Fault] = getattr(self, "script", [])
        fault = script.pop(0) if script else Fault.NONE
        self.commits = getattr(self, "commits", 0) + 1
        if fault is Fault.NONE:
            return super().commit_table(table, requirements, updates)
        if fault in LANDED:
            super().commit_table(table, requirements, updates)
        answer = _ANSWERS[fault]()
        raise answer
