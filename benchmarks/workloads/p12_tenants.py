"""P12: bootstrap a thousand tenants, three tables each, on the embedded catalog."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from floe_testing.tenants import EmbeddedTenants

if TYPE_CHECKING:
    from pathlib import Path

TITLE = "bootstrap of 1,000 tenants"
TENANTS = 1_000
# Number of first and last tenants that are compared; fewer would be dominated by noise.
EDGE = 100


class Floe:
    """floe's bootstrap, one tenant after the other."""

    def prepare(self, folder: Path, scale: float) -> None:
        self.folder = folder
        self.count = int(TENANTS * scale)

    def reset(self, round_number: int) -> None:
        home = self.folder / str(round_number)
        home.mkdir()
        self.tenants = EmbeddedTenants(home)
        with self.tenants.bootstrapper.session(self.tenants.config) as session:
            # The first tenant of a catalog also creates the catalog's database tables.
            session.bootstrap("warm-up")

    def run(self) -> dict[str, float]:
        laps = []
        with self.tenants.bootstrapper.session(self.tenants.config) as session:
            for number in range(self.count):
                started = time.perf_counter()
                session.bootstrap(f"tenant-{number}")
                laps.append(time.perf_counter() - started)
        edge = min(EDGE, len(laps) // 4)
        first, last = statistics.median(laps[:edge]), statistics.median(laps[-edge:])
        return {
            "ms_per_tenant": statistics.mean(laps) * 1000,
            "first_ms": first * 1000,
            "last_ms": last * 1000,
            "last_to_first": last / first,
        }

    def checksum(self) -> str:
        with self.tenants.bootstrapper.session(self.tenants.config) as session:
            names = session.tenants()
            tables = sum(len(session.manager.list_tables(f"tenants.{name}")) for name in names)
        return f"{len(names)} tenants, {tables} tables"

    def close(self) -> None:
        self.tenants.close()


ARMS = {"floe": Floe}
GOALS: dict[str, float] = {}
# Twenty tenants a second are 50 ms each.
FIGURE_GOALS = {"ms_per_tenant": 50.0, "last_to_first": 1.2}
