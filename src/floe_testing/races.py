"""Races that a test decides: what another writer does just before a commit reaches the catalog's database."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import Engine


@contextmanager
def losing_races(engine: Engine, *rivals: Callable[[], object]) -> Iterator[list[Callable[[], object]]]:
    """Let a rival commit right before each of the next commits to an SQL catalog, so that each of them loses.

    The rivals act between a commit's last look at the catalog's row and its swap of that row, below everything that
    a catalog or a manager does.

    Args:
        engine: The database of the catalog whose commits lose; rivals use another.
        rivals: What happens before the first commit, the second, and so on; one that does nothing loses no race.

    Yields:
        The rivals that have not had their turn.
    """
    waiting = list(rivals)

    def before(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if waiting and statement.startswith("UPDATE iceberg_tables"):
            waiting.pop(0)()

    event.listen(engine, "before_cursor_execute", before)
    try:
        yield waiting
    finally:
        event.remove(engine, "before_cursor_execute", before)
