"""Makes a run's history cheap to write.

Dagster notes every partition of every asset in SQLite, each event over a connection of its own. Closing the last
connection to a file folds its write-ahead log back, and each commit waits for the disk: with a range of some months
that took longer than the pipeline itself.
"""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def quick_history(home: Path) -> Iterator[None]:
    """Write the history below a Dagster home quickly for the length of a block.

    One connection to each file stays open, and commits do not wait for the disk. With a write-ahead log that risks the
    last events of a machine that loses its power, never the file; what became of the tables is in the tables.
    """
    held: dict[str, sqlite3.Connection] = {}

    def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 - of whichever database driver
        if not isinstance(connection, sqlite3.Connection):
            return
        file = connection.execute("PRAGMA database_list").fetchone()[2]
        if not file.startswith(f"{home.resolve()}/"):
            return
        connection.execute("PRAGMA synchronous=NORMAL")
        if file not in held:
            held[file] = sqlite3.connect(file, check_same_thread=False)
        # A file takes notice of a connection when it reads, and of its journal's kind as well.
        held[file].execute("SELECT count(*) FROM sqlite_master").fetchall()

    event.listen(Engine, "connect", prepare)
    try:
        yield
    finally:
        event.remove(Engine, "connect", prepare)
        for connection in held.values():
            connection.close()
