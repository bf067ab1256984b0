"""SC-002: metadata operations on namespaces and tables, on the embedded catalog and over REST.

``rest`` is Iceberg's reference server on this machine, with its warehouse in a local folder.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.data import lineitem
from benchmarks.peers import PROPERTIES, open_floe
from floe_core.schemas import AccessDelegation
from floe_iceberg import IcebergTableManager, SchemaChange
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.services import IcebergRest, ServiceRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TITLE = "namespace and table operations"
REPEATS = 10
DEV = Path(__file__).resolve().parents[2] / ".floe-dev"
LIMIT_MS = 2000.0
CHANGE = SchemaChange(kind="add", column="more", type="long")


class Floe:
    """floe's operations."""

    def __init__(self, variant: str) -> None:
        """Choose the catalog."""
        self.variant = variant

    def prepare(self, folder: Path, scale: float) -> None:
        self.repeats = max(3, int(REPEATS * scale))
        self.schema = lineitem(1_000).schema
        self.services = ServiceRun(DEV, f"bench-{os.getpid()}")
        self.manager = self._over_rest() if self.variant == "rest" else open_floe(folder)

    def _over_rest(self) -> IcebergTableManager:
        service = IcebergRest()
        if reason := service.missing():
            message = f"the reference server cannot run here: {reason}"
            raise RuntimeError(message)
        server = self.services.start(service)
        config = PolarisCatalogConfig(
            uri=server.url, warehouse=server["warehouse"], access_delegation=AccessDelegation.NONE
        )
        return IcebergTableManager(create_catalog(config))

    def reset(self, round_number: int) -> None:
        self.round = round_number

    def run(self) -> dict[str, float]:
        """Run every operation several times and return the slowest time of each, because the limit applies to all."""
        slowest: dict[str, float] = {}
        for number in range(self.repeats):
            for what, operation in self._operations(f"sc2_{self.round}_{number}"):
                started = time.perf_counter()
                operation()
                taken = (time.perf_counter() - started) * 1000
                slowest[what] = max(taken, slowest.get(what, 0.0))
        return {f"{what}_ms": taken for what, taken in slowest.items()}

    def _operations(self, namespace: str) -> Iterator[tuple[str, Callable[[], object]]]:
        manager, table = self.manager, f"{namespace}.t"
        yield "create_namespace", lambda: manager.create_namespace(namespace)
        yield "list_namespaces", manager.namespaces.list_below
        yield "create_table", lambda: manager.create_table(table, self.schema, properties=PROPERTIES)
        yield "load_table", lambda: manager.load_table(table)
        yield "table_exists", lambda: manager.table_exists(table)
        yield "list_tables", lambda: manager.list_tables(namespace)
        yield "evolve_schema", lambda: manager.evolve_schema(table, [CHANGE])
        yield "list_snapshots", lambda: manager.list_snapshots(table)
        yield "rename_table", lambda: manager.rename_table(table, f"{namespace}.renamed")
        yield "drop_table", lambda: manager.drop_table(f"{namespace}.renamed")
        yield "delete_namespace", lambda: manager.namespaces.delete(namespace)

    def checksum(self) -> str:
        left = [name for name in self.manager.namespaces.list_below() if name.startswith("sc2_")]
        return "nothing is left" if not left else f"left: {left}"

    def close(self) -> None:
        self.manager.close()
        self.services.leave()


ARMS = {"floe": Floe}
GOALS: dict[str, float] = {}
OPERATIONS = (
    "create_namespace",
    "list_namespaces",
    "create_table",
    "load_table",
    "table_exists",
    "list_tables",
    "evolve_schema",
    "list_snapshots",
    "rename_table",
    "drop_table",
    "delete_namespace",
)
FIGURE_GOALS = {f"{operation}_ms": LIMIT_MS for operation in OPERATIONS}
REQUIREMENTS = {f"{operation}_ms": "SC-002" for operation in OPERATIONS}
