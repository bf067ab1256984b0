"""Injects database faults below SQLAlchemy, with production code above it."""

from __future__ import annotations

import shutil
import sqlite3
import time
import uuid
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Engine

_WRITES = ("INSERT", "UPDATE", "DELETE")
_SLOW_SECONDS = 0.5


class DatabaseFault(StrEnum):
    """Outcome of one writing transaction."""

    NONE = "none"
    LANDED_LOST = "committed, connection lost"
    LANDED_IO_ERROR = "committed, disk I/O error"
    LANDED_SLOW = "committed, slowly"
    CONFLICT = "another writer swaps the row first"
    BUSY = "database is locked at the statement"
    BUSY_COMMIT = "database is locked at the commit"
    FULL = "disk full at the commit"
    LOST = "not committed, connection lost at the commit"
    UNREACHABLE = "not committed, connection lost at the statement"


LANDED = [fault for fault in DatabaseFault if fault.value.startswith("committed")]
RETRIED = [DatabaseFault.CONFLICT, DatabaseFault.BUSY, DatabaseFault.BUSY_COMMIT]
_AT_THE_STATEMENT = {
    DatabaseFault.BUSY: ("database is locked", sqlite3.SQLITE_BUSY),
    DatabaseFault.UNREACHABLE: ("unable to open database file", sqlite3.SQLITE_CANTOPEN),
}
_BEFORE_THE_COMMIT = {
    DatabaseFault.BUSY_COMMIT: ("database is locked", sqlite3.SQLITE_BUSY),
    DatabaseFault.FULL: ("database or disk is full", sqlite3.SQLITE_FULL),
    DatabaseFault.LOST: ("connection was lost", sqlite3.SQLITE_INTERRUPT),
}
_AFTER_THE_COMMIT = {
    DatabaseFault.LANDED_LOST: ("connection was lost", sqlite3.SQLITE_INTERRUPT),
    DatabaseFault.LANDED_IO_ERROR: ("disk I/O error", sqlite3.SQLITE_IOERR),
}


class DatabaseFaults:
    """Intercepts the SQLite driver of one engine; one fault per writing transaction.

    Attributes:
        commits: Number of writing transactions since ``play``.
    """

    def __init__(self, engine: Engine) -> None:
        """Wrap the engine's driver functions; without a script, no faults occur."""
        self.commits = 0
        self._script: list[DatabaseFault | Callable[[], object]] = []
        self._pending: dict[int, DatabaseFault] = {}
        self._database = str(engine.url.database)
        self._execute, self._commit, self._rollback = (
            engine.dialect.do_execute,
            engine.dialect.do_commit,
            engine.dialect.do_rollback,
        )
        # The dialect belongs to this engine alone and calls the driver directly.
        dialect: Any = engine.dialect
        dialect.do_execute, dialect.do_commit, dialect.do_rollback = self.execute, self.commit, self.rollback

    def play(self, script: Iterable[DatabaseFault | Callable[[], object]]) -> None:
        """Set the outcomes of the next writing transactions; a callable runs before the first statement."""
        self._script = list(script)
        self.commits = 0

    def execute(self, cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        """Run a statement; a transaction's first write takes the next fault from the script."""
        connection = id(cursor.connection)
        if statement.lstrip().upper().startswith(_WRITES) and connection not in self._pending:
            self.commits += 1
            fault = self._script.pop(0) if self._script else DatabaseFault.NONE
            if not isinstance(fault, DatabaseFault):
                fault()
                fault = DatabaseFault.NONE
            if fault is DatabaseFault.CONFLICT:
                move_every_row(self._database)
            if fault in _AT_THE_STATEMENT:
                raise _error(*_AT_THE_STATEMENT[fault])
            self._pending[connection] = fault
        self._execute(cursor, statement, parameters, context)

    def commit(self, connection: Any) -> None:
        """Commit, or raise the transaction's fault before or after the commit."""
        fault = self._pending.pop(_driver_connection(connection), DatabaseFault.NONE)
        if fault in _BEFORE_THE_COMMIT:
            raise _error(*_BEFORE_THE_COMMIT[fault])
        self._commit(connection)
        if fault is DatabaseFault.LANDED_SLOW:
            time.sleep(_SLOW_SECONDS)
        if fault in _AFTER_THE_COMMIT:
            raise _error(*_AFTER_THE_COMMIT[fault])

    def rollback(self, connection: Any) -> None:
        """Roll back and discard the transaction's fault."""
        self._pending.pop(_driver_connection(connection), None)
        self._rollback(connection)


def move_every_row(database: str) -> None:
    """Commit to every table like another writer: the same metadata in a new file."""
    with sqlite3.connect(database, timeout=30) as rival:
        rows = rival.execute("SELECT rowid, metadata_location FROM iceberg_tables").fetchall()
        for row, location in rows:
            folder, _, name = location.rpartition("/")
            version = int(name.split("-", 1)[0]) + 1
            moved = f"{folder}/{version:05d}-{uuid.uuid4()}.metadata.json"
            shutil.copyfile(Path(location.removeprefix("file://")), Path(moved.removeprefix("file://")))
            rival.execute("UPDATE iceberg_tables SET metadata_location = ? WHERE rowid = ?", (moved, row))
    rival.close()


def _driver_connection(connection: Any) -> int:
    # The pool passes the driver's connection; other callers pass a proxy.
    return id(getattr(connection, "dbapi_connection", connection))


def _error(text: str, code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code
    return error
