"""Races between writers: processes that start at the same time, and commits with chosen rivals."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy import event

from floe_testing.faults.gateway import COMMIT_PATH
from floe_testing.warm_python import WarmProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy import Engine

    from floe_testing.faults.gateway import Exchange, FaultGateway


@contextmanager
def losing_races(engine: Engine, *rivals: Callable[[], object]) -> Iterator[list[Callable[[], object]]]:
    """Let a rival commit right before each of the next commits to an SQL catalog, so that those commits conflict.

    A rival runs between a commit's read of the catalog's row and its update of that row, below all code of the catalog
    and the manager.

    Args:
        engine: Database engine of the catalog whose commits conflict; rivals must use another engine.
        rivals: Called before the first commit, the second, and so on; a rival that does nothing causes no conflict.

    Yields:
        The rivals that have not run yet.
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


@contextmanager
def losing_races_over_rest(
    gateway: FaultGateway, *rivals: Callable[[], object]
) -> Iterator[list[Callable[[], object]]]:
    """Let a rival commit while each of the next commits is on its way to a REST catalog, so that those conflict.

    Args:
        gateway: The gateway that the commits pass; rivals may use it too.
        rivals: Called before the first commit, the second, and so on; a rival that does nothing causes no conflict.

    Yields:
        The rivals that have not run yet.
    """
    waiting = list(rivals)
    acting: list[Callable[[], object]] = []
    failures: list[Exception] = []

    def before(exchange: Exchange) -> None:
        if waiting and not acting and exchange.method == "POST" and re.search(COMMIT_PATH, exchange.path):
            acting.append(waiting.pop(0))
            try:
                acting[0]()
            except Exception as err:  # noqa: BLE001 - raised below, in the test's thread
                failures.append(err)
            finally:
                acting.clear()

    gateway.chaos = before
    try:
        yield waiting
    finally:
        gateway.chaos = None
        if failures:
            raise failures[0]


def run_simultaneously(programs: Sequence[tuple[str, ...]], *, seconds: float = 280) -> list[int]:
    """Start processes, release them at the same time, and return their exit codes.

    Args:
        programs: Arguments of Python; each program prints ``ready``, and begins when it reads a line.
        seconds: Timeout.
    """
    writers = [WarmProcess(*program) for program in programs]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "ready\n", writer.stderr.read()
        for writer in writers:
            writer.stdin.write("go\n")
            writer.stdin.flush()
        return [writer.wait(seconds) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate(seconds)
