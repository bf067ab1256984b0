"""Fetches and builds servers and jars before the tests that need them, with progress and outside their time limits.

A failed preparation is reported once with its reason, and not by every test that would have used the server.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from floe_core.errors import FloeStorageError
from floe_core.runtime.files import exclusive
from floe_core.runtime.spark_packages import ICEBERG_AWS_BUNDLE
from floe_spark.java.jars import resolve_jars
from floe_testing.services.azurite import Azurite
from floe_testing.services.fake_gcs import FakeGcs
from floe_testing.services.host.runner import ServiceError
from floe_testing.services.host.tools import fetch_jars, lacks_java
from floe_testing.services.iceberg_rest import IcebergRest
from floe_testing.services.minio import Minio
from floe_testing.services.nessie import RUNNER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    Say = Callable[[str], None]

_AT_ONCE = 2
_REPORT_SECONDS = 15.0
# Checks that find everything in place are not reported.
_QUICK_SECONDS = 1.0


class Preparation:
    """A dependency that has to be on this machine before a test starts.

    Attributes:
        name: Name in messages.
    """

    def __init__(self, name: str, missing: Callable[[], str | None], prepare: Callable[[Path], object]) -> None:
        """Set the functions that check for missing tools and that prepare the dependency."""
        self.name = name
        self.missing = missing
        self._prepare = prepare

    def run(self, dev: Path, say: Say) -> None:
        """Fetch or build the dependency in ``dev``, reporting progress every few seconds.

        Raises:
            ServiceError: The preparation failed.
        """
        with exclusive(dev / f".prepare-{self.name}.lock"), _heartbeat(self.name, say):
            try:
                self._prepare(dev)
            except FloeStorageError as err:
                raise ServiceError(str(err)) from err


def _fetch_nessie(_dev: Path) -> None:
    fetch_jars([RUNNER])


def _of(service: Minio | IcebergRest | FakeGcs | Azurite) -> Preparation:
    return Preparation(service.name, service.missing, service.prepare)


BY_FIXTURE = {
    "spark_settings": Preparation("spark-jars", lacks_java, lambda _dev: resolve_jars([ICEBERG_AWS_BUNDLE])),
    "minio": _of(Minio()),
    "iceberg_rest": _of(IcebergRest()),
    "nessie": Preparation("nessie", lacks_java, _fetch_nessie),
    "nessie_oidc": Preparation("nessie-oidc", lacks_java, _fetch_nessie),
    "fake_gcs": _of(FakeGcs()),
    "azurite": _of(Azurite()),
}
"""Preparations by fixture name."""

SERVERS = BY_FIXTURE.keys() - {"spark_settings"}
"""Fixtures that start servers, which take minutes to fetch or build on a new machine."""

BUILT = ("minio", "fake-gcs")
"""Names of preparations that compile code and take longest."""

USUAL = ("spark_settings", "minio", "iceberg_rest")
"""Fixtures that tests outside the live suite may use."""


def prepare(fixtures: Iterable[str], dev: Path, say: Say) -> dict[str, str]:
    """Prepare the dependencies of some fixtures; return the failures with their reasons.

    Dependencies whose tools are missing on this machine are skipped; their tests report the missing tool.
    """
    wanted = {needed.name: needed for fixture in fixtures if (needed := BY_FIXTURE.get(fixture)) is not None}
    failures: dict[str, str] = {}

    def one(preparation: Preparation) -> None:
        if reason := preparation.missing():
            say(f"{preparation.name}: skipped, {reason}")
            return
        try:
            preparation.run(dev, say)
        except ServiceError as err:
            failures[preparation.name] = str(err)
            say(f"{preparation.name}: FAILED: {err}")

    # Builds start first: they use the processors, while downloads mostly wait for the network.
    with ThreadPoolExecutor(_AT_ONCE) as preparations:
        list(preparations.map(one, sorted(wanted.values(), key=lambda needed: (needed.name not in BUILT, needed.name))))
    return failures


@contextmanager
def _heartbeat(name: str, say: Say) -> Iterator[None]:
    over = threading.Event()
    began = time.monotonic()

    def report() -> None:
        while not over.wait(_REPORT_SECONDS):
            say(f"{name}: still preparing after {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=report, name=f"floe-prepare-{name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    if (took := time.monotonic() - began) > _QUICK_SECONDS:
        say(f"{name}: ready after {took:.0f} s")
