"""A reader process, which verifies that reads are complete and never go back in time."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.torture.arena import Arena
from tests.torture.ledger import Ledger
from tests.torture.operations import HOT

from floe_core.errors import FloeStorageError

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    arena, ledger = Arena(**config["arena"]), Ledger(Path(config["ledger"]))
    stop, newest = Path(config["stop"]), dict.fromkeys(arena.tables, -1)
    manager = arena.manager()
    while not stop.exists():
        for table in arena.tables:
            try:
                _look(manager, table, newest, ledger)
            except FloeStorageError as err:
                ledger.write(table=table, error=type(err).__name__, message=str(err)[:300])
            except Exception as err:  # noqa: BLE001 - an error that is not floe's is a finding
                ledger.write(table=table, error=type(err).__name__, raw=repr(err)[:500])
        time.sleep(config["pause"])


def _look(manager: IcebergTableManager, table: str, newest: dict[str, int], ledger: Ledger) -> None:
    loaded = manager.load_table(table)
    version = loaded.metadata.last_updated_ms
    if version < newest[table]:
        ledger.write(table=table, breach=f"last-updated-ms went back from {newest[table]} to {version}")
    newest[table] = max(newest[table], version)
    rows = manager.scan(table, columns=["id", "part", "op", "n"]).to_pylist()
    counts = Counter(row["op"] for row in rows if row["part"] != HOT)
    sizes = {row["op"]: row["n"] for row in rows}
    partial = {op: count for op, count in counts.items() if count != sizes[op]}
    ids = Counter(row["id"] for row in rows)
    doubled = [key for key, count in ids.items() if count > 1]
    ledger.write(table=table, rows=len(rows))
    if partial:
        ledger.write(table=table, breach=f"part of an operation: {dict(list(partial.items())[:3])}")
    if doubled:
        ledger.write(table=table, breach=f"ids twice: {doubled[:5]}")


if __name__ == "__main__":
    main()
