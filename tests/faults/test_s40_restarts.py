"""S40: the catalog restarts during a run, and the run continues."""

from __future__ import annotations

import sqlite3
import threading
import time
import uuid

import pyarrow as pa
import pytest

from floe_core.errors import CatalogConnectionError, CommitStateUnknownError
from floe_core.schemas import AccessDelegation, CircuitBreakerConfig
from floe_iceberg import IcebergTableManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.rest_fixtures import QUICK_RETRY, store_properties
from floe_testing.services import iceberg_rest as reference
from floe_testing.services.host.runner import ServiceRun, free_port

SCHEMA = pa.schema([("id", pa.int64())])


class Restartable:
    """The reference server on a port of its own, that can be ended and started again."""

    def __init__(self, run, service):
        self._run, self._service = run, service
        self.server = run.start(service)

    def restart(self, *, after_seconds):
        self._run.stop(self._service.name)
        time.sleep(after_seconds)
        self.server = self._run.start(self._service)


@pytest.fixture
def restartable(minio, pytestconfig, monkeypatch):
    port = free_port()
    monkeypatch.setattr(reference, "free_port", lambda: port)
    run = ServiceRun(pytestconfig.rootpath / ".floe-dev", f"restart-{uuid.uuid4().hex[:8]}")
    server = Restartable(run, reference.IcebergRest(minio))
    yield server
    run.stop("iceberg-rest")
    run.leave()


QUICK = {
    "retry": QUICK_RETRY,
    "circuit_breaker": CircuitBreakerConfig(failure_threshold=5, reset_timeout_seconds=1.0),
}


def connected(url, minio, **limits):
    """Connect with the limits users have by default, or with others."""
    config = PolarisCatalogConfig(
        uri=url,
        warehouse="lake",
        access_delegation=AccessDelegation.NONE,
        properties=store_properties(minio),
        **limits,
    )
    return create_catalog(config)


class Busy(threading.Thread):
    """Appends one row after the other until it is told to stop; repeats a call of unknown outcome, as it is told to."""

    def __init__(self, manager, table):
        super().__init__(daemon=True)
        self.manager, self.table, self.written, self.error = manager, table, 0, None
        self.enough = threading.Event()

    def run(self):
        try:
            while not self.enough.is_set():
                self.append(f"row-{self.written}")
                self.written += 1
        except Exception as err:  # noqa: BLE001 - the test looks at it
            self.error = err

    def append(self, operation):
        row = pa.table({"id": [self.written]})
        try:
            self.manager.append(self.table, row, operation_id=operation)
        except CommitStateUnknownError:
            # The server was killed while it processed the request.
            self.manager.append(self.table, row, operation_id=operation)

    def stop(self):
        self.enough.set()
        self.join(120)


@pytest.mark.parametrize(
    ("seconds", "limits"),
    [pytest.param(3, QUICK, id="3 s"), pytest.param(30, {}, id="30 s", marks=pytest.mark.live)],
)
def test_s40_writes_over_rest_go_on_after_a_restart(restartable, minio, namespace, seconds, limits):
    manager = IcebergTableManager(connected(restartable.server.url, minio, **limits))
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.t", SCHEMA)
    writer = Busy(manager, f"{namespace}.t")
    writer.start()
    time.sleep(1)
    restartable.restart(after_seconds=seconds)
    before = writer.written
    deadline = time.monotonic() + 90
    while writer.written < before + 5 and writer.error is None and time.monotonic() < deadline:
        time.sleep(0.1)
    writer.stop()
    assert writer.error is None
    assert writer.written >= before + 5
    assert sorted(manager.scan(f"{namespace}.t")["id"].to_pylist()) == list(range(writer.written))


def test_s40_calls_that_met_the_restart_are_done_once(restartable, minio, namespace):
    manager = IcebergTableManager(connected(restartable.server.url, minio, **QUICK))
    manager.create_namespace(namespace)
    manager.create_table(f"{namespace}.t", SCHEMA)
    away = threading.Thread(target=restartable.restart, kwargs={"after_seconds": 4})
    away.start()
    time.sleep(2)
    manager.create_table(f"{namespace}.made", SCHEMA)
    manager.rename_table(f"{namespace}.t", f"{namespace}.moved")
    manager.drop_table(f"{namespace}.made")
    away.join()
    assert manager.list_tables(namespace) == ["moved"]


def test_s40_writes_on_the_embedded_catalog_wait_for_a_locked_database(open_manager, tmp_path):
    manager = open_manager()
    manager.create_table("bronze.t", SCHEMA)
    writer = Busy(manager, "bronze.t")
    writer.start()
    time.sleep(0.5)
    other = sqlite3.connect(tmp_path / "catalog.db", isolation_level=None, timeout=30)
    other.execute("BEGIN IMMEDIATE")
    locked_at = writer.written
    time.sleep(4)
    assert writer.written <= locked_at + 1
    other.execute("COMMIT")
    other.close()
    time.sleep(1)
    writer.stop()
    assert writer.error is None
    assert writer.written > locked_at + 1
    assert sorted(manager.scan("bronze.t")["id"].to_pylist()) == list(range(writer.written))


def test_s26_a_catalog_that_never_answered_is_not_waited_for(gateway, connect):
    manager = IcebergTableManager(connect())
    gateway.answer(502, path="/tables/", times=None)
    started = time.monotonic()
    with pytest.raises(CatalogConnectionError):
        manager.load_table("nowhere.t")
    assert time.monotonic() - started < 20
