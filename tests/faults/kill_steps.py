"""Runs one operation repeatedly, killed at each of its I/O steps in turn; a script for test_s10.

Each attempt runs in a forked child, so that it loses all state when it is killed. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import signal
import sys

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from floe_catalogs.sql.rows import TableRows
from floe_iceberg import IcebergTableManager
from floe_polaris.client import PolarisCatalog
from floe_testing.faults.sites import Address, address_of, open_site

OPERATIONS = {
    "append": lambda manager, table: manager.append(table, pa.table({"id": [5, 6], "p": ["a", "b"]})),
    "overwrite": lambda manager, table: manager.overwrite(table, pa.table({"id": [5], "p": ["a"]})),
    "upsert": lambda manager, table: manager.upsert(table, pa.table({"id": [2, 5], "p": ["a", "a"]}), keys=["id"]),
    "delete": lambda manager, table: manager.delete(table, "id > 1"),
}
TABLE = "t"


def open_manager(address: Address) -> IcebergTableManager:
    return IcebergTableManager(address.open_catalog())


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
    """Die at the given I/O step: before or right after a file is created or deleted, or the catalog commits."""
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
    # The row in the embedded catalog, or the request to a server with its reply.
    around(TableRows, "swap")
    around(PolarisCatalog, "commit_table")


def prepare(address: Address) -> list[int]:
    manager, table = open_manager(address), address.name(TABLE)
    manager.create_table(table, pa.schema([("id", pa.int64()), ("p", pa.string())]), partition_spec=["p"])
    manager.append(table, pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}))
    return []


def look(address: Address) -> list[int]:
    return sorted(open_manager(address).scan(address.name(TABLE))["id"].to_pylist())


def sweep(address: Address) -> dict[str, int]:
    with open_site(address) as site:
        manager, table = site.open_manager(), site.name(TABLE)
        for file in site.files_of(manager.load_table(table)):
            site.age(file, 240)
        found = manager.sweep_orphans(table, older_than_hours=48, dry_run=False)
        again = manager.sweep_orphans(table, older_than_hours=48, dry_run=True)
        return {"swept": len(found.files), "left": len(again.files), "rows": len(look(address))}


def main(address: Address, operation: str) -> None:
    in_child(lambda: prepare(address))
    states = []
    for step in range(1, 200):

        def attempt(step: int = step) -> list[int]:
            manager = open_manager(address)
            arm(step)
            OPERATIONS[operation](manager, address.name(TABLE))
            return []

        status, _ = in_child(attempt)
        states.append(json.loads(in_child(lambda: look(address))[1]))
        if status == 0 or states[-1] != states[0]:
            break
    _, swept = in_child(lambda: sweep(address))
    sys.stdout.write(json.dumps({"states": states, "sweep": json.loads(swept)}))


if __name__ == "__main__":
    main(address_of(sys.argv[1]), sys.argv[2])
