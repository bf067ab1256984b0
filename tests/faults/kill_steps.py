"""Runs one operation again and again, killed at each of its I/O steps in turn; a script for test_s10.

Each try happens in a forked child, so that what it knows dies with it. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from floe_iceberg import IcebergTableManager, metastore
from floe_testing.embedded_tables import open_catalog

OPERATIONS = {
    "append": lambda manager: manager.append("bronze.t", pa.table({"id": [5, 6], "p": ["a", "b"]})),
    "overwrite": lambda manager: manager.overwrite("bronze.t", pa.table({"id": [5], "p": ["a"]})),
    "upsert": lambda manager: manager.upsert("bronze.t", pa.table({"id": [2, 5], "p": ["a", "a"]}), keys=["id"]),
    "delete": lambda manager: manager.delete("bronze.t", "id > 1"),
}


def open_manager(root: str) -> IcebergTableManager:
    return IcebergTableManager(open_catalog(Path(root)))


def in_child(work) -> tuple[int, str]:
    """Run work in a forked child; return how it ended and what it printed."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        with os.fdopen(write_end, "w") as out:
            out.write(json.dumps(work()))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as answer:
        text = answer.read()
    return os.waitpid(child, 0)[1], text


def arm(step: int) -> None:
    """Die at the given I/O step: before a file is created, deleted, or the catalog row is swapped, or right after."""
    count = 0

    def step_on() -> None:
        nonlocal count
        count += 1
        if count == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def around(owner, name):
        original = getattr(owner, name)

        def stepped(*args, **options):
            step_on()
            result = original(*args, **options)
            step_on()
            return result

        setattr(owner, name, stepped)

    around(PyArrowFile, "create")
    around(PyArrowFileIO, "delete")
    around(metastore.SqlMetastore, "_swap")


def prepare(root: str) -> list[int]:
    manager = open_manager(root)
    manager.create_table("bronze.t", pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_spec=["p"])
    manager.append("bronze.t", pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}))
    return []


def look(root: str) -> list[int]:
    manager = open_manager(root)
    return sorted(manager.scan("bronze.t")["id"].to_pylist())


def sweep(root: str) -> dict[str, int]:
    old = time.time() - 10 * 86_400
    for path in Path(root).rglob("*"):
        os.utime(path, (old, old))
    manager = open_manager(root)
    found = manager.sweep_orphans("bronze.t", older_than_hours=48, dry_run=False)
    again = manager.sweep_orphans("bronze.t", older_than_hours=48, dry_run=True)
    return {"swept": len(found.files), "left": len(again.files), "rows": len(look(root))}


def main(root: str, operation: str) -> None:
    in_child(lambda: prepare(root))
    states = []
    for step in range(1, 200):

        def attempt(step: int = step) -> list[int]:
            manager = open_manager(root)
            arm(step)
            OPERATIONS[operation](manager)
            return []

        status, _ = in_child(attempt)
        states.append(json.loads(in_child(lambda: look(root))[1]))
        if status == 0 or states[-1] != states[0]:
            break
    _, swept = in_child(lambda: sweep(root))
    sys.stdout.write(json.dumps({"states": states, "sweep": json.loads(swept)}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
