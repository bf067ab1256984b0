"""S29: of two concurrent maintenance runs on a table, one works and the other yields."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time

import pyarrow as pa
import pytest

from floe_core.errors import MaintenanceInProgressError
from floe_iceberg import maintenance
from floe_iceberg.maintenance.lease import LEASE_PROPERTY, holder_of, maintenance_lease
from floe_iceberg.read import scan
from floe_iceberg.table import refs
from floe_testing.embedded_tables import context_on

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def events(new_table, name):
    table = new_table(name, SCHEMA)
    for number in range(4):
        table.append(pa.table({"id": [number]}, schema=SCHEMA))
    return table


def traces(context, name):
    table = context.load(name)
    return [ref for ref in table.refs() if ref != "main"], table.properties.get(LEASE_PROPERTY)


RUNS = {
    "compact": maintenance.compact_table,
    "expire": lambda context, name: maintenance.expire_snapshots(context, name, older_than_days=0, retain_last=1),
    "manifests": maintenance.rewrite_manifests,
    "sweep": lambda context, name: maintenance.sweep_orphans(context, name, dry_run=False),
}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_s29_the_second_run_steps_aside_and_says_for_whom(site, context, events, name, run):
    other = site.open_context()
    with maintenance_lease(other, name, "compact_table (binpack)"):
        before = context.load(name).metadata_location
        with pytest.raises(MaintenanceInProgressError, match=rf"compact_table \(binpack\) by .*:{os.getpid()}"):
            run(context, name)
        assert context.load(name).metadata_location == before
    run(context, name)
    assert traces(context, name) == ([], None)
    assert scan.scan(context, name).num_rows == 4


def test_s29_a_dry_run_and_readers_and_writers_need_not_wait(site, context, events, name):
    with maintenance_lease(site.open_context(), name, "anything"):
        assert maintenance.sweep_orphans(context, name).files == ()
        events.refresh().append(pa.table({"id": [9]}, schema=SCHEMA))
        assert scan.scan(context, name).num_rows == 5
        assert [ref.name for ref in refs.list_refs(context, name)] == ["main"]


def test_s29_of_many_that_start_together_one_wins(site, context, events, name):
    barrier = threading.Barrier(6)
    outcomes = []

    def run():
        own = site.open_context()
        barrier.wait()
        try:
            with maintenance_lease(own, name, "race"):
                outcomes.append("worked")
                # Blocked until the others have tried, however long that takes.
                deadline = time.monotonic() + 60
                while len(outcomes) < 6 and time.monotonic() < deadline:
                    time.sleep(0.02)
        except MaintenanceInProgressError:
            outcomes.append("stepped aside")

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["stepped aside"] * 5 + ["worked"]
    assert traces(context, name) == ([], None)


def _hold_forever(address, held):
    context = context_on(address.open_catalog())
    with maintenance_lease(context, address.name("events"), "doomed", seconds=3):
        held.set()
        time.sleep(600)


def test_s29_a_killed_run_is_taken_over_once_its_lease_is_over(site, context, events, name):
    spawn = multiprocessing.get_context("spawn")
    held = spawn.Event()
    doomed = spawn.Process(target=_hold_forever, args=(site.address, held))
    doomed.start()
    assert held.wait(60)
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.join()
    with pytest.raises(MaintenanceInProgressError, match="the lease expires at"):
        maintenance.compact_table(context, name)
    deadline = time.monotonic() + 30
    while not holder_of(context.load(name)).expired:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    maintenance.compact_table(context, name)
    assert traces(context, name) == ([], None)
    assert scan.scan(context, name).num_rows == 4


def test_s29_of_two_that_take_over_one_wins(site, context, events, name, monkeypatch):
    with monkeypatch.context() as patch:
        # A lease that was never released.
        patch.setattr("floe_iceberg.maintenance.lease._Lease.release", lambda self: None)
        with maintenance_lease(context, name, "dead", seconds=0.2):
            pass
    time.sleep(0.3)
    test_s29_of_many_that_start_together_one_wins(site, context, events, name)


def test_s29_a_long_run_keeps_its_lease(site, context, events, name):
    with maintenance_lease(context, name, "long", seconds=0.9):
        first = holder_of(context.load(name))
        deadline = time.monotonic() + 20
        while holder_of(context.load(name)).expires_ms == first.expires_ms:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert holder_of(context.load(name)).lease_id == first.lease_id
    assert traces(context, name) == ([], None)


def test_s29_the_lease_is_given_back_after_an_error(context, events, name):
    with pytest.raises(ZeroDivisionError), maintenance_lease(context, name, "failing"):
        1 / 0  # noqa: B018 - any error will do
    assert traces(context, name) == ([], None)


def test_s29_a_holder_does_not_release_what_another_took_over(site, context, events, name):
    other = site.open_context()
    with maintenance_lease(context, name, "slow", seconds=600) as _:
        table = context.load(name)
        text = table.properties[LEASE_PROPERTY]
        with table.transaction() as transaction:
            expired = text.replace(str(holder_of(table).expires_ms), "1")
            transaction.set_properties({LEASE_PROPERTY: expired})
        taken = maintenance_lease(other, name, "successor")
        taken.__enter__()
    assert holder_of(context.load(name)).operation == "successor"
    taken.__exit__(None, None, None)
    assert traces(context, name) == ([], None)


def test_s29_an_unreadable_entry_blocks_nobody(context, events, name):
    with events.transaction() as transaction:
        transaction.set_properties({LEASE_PROPERTY: "not json"})
    maintenance.compact_table(context, name)
    assert traces(context, name) == ([], None)
