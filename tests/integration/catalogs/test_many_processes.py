"""One catalog, many processes: concurrent setup, namespaces and commits."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.schemas import CatalogConfig

PROCESSES = 16
COMMITS = 3


def _work(number, settings, environ, start, results):
    """Connect with everybody else, then commit until each property landed."""
    # The fork server started before the test set its variables.
    os.environ.update(environ)
    try:
        start.wait(timeout=120)
        plugin = SqlCatalogPlugin()
        plugin.connect(CatalogConfig(**settings), file_io={}, project_root=Path())
        plugin.create_namespace("bronze.shared", {"owner": "everybody"})
        plugin.create_namespace(f"own.p{number}")
        try:
            plugin.create_table("bronze.shared.t", pa.schema([("id", pa.int64())]))
        except Exception as err:
            if type(err).__name__ != "TableExistsError":
                raise
        landed = 0
        while landed < COMMITS:
            table = plugin.catalog.load_table("bronze.shared.t")
            try:
                with table.transaction() as transaction:
                    transaction.set_properties({f"p{number}.{landed}": "x"})
            except CommitFailedException:
                continue
            landed += 1
        plugin.shutdown()
        results.put(None)
    except BaseException as err:  # noqa: BLE001 - the parent reports whatever happened
        results.put(f"{number}: {type(err).__name__}: {err}")


def race(settings):
    context = multiprocessing.get_context("forkserver")
    # Imported once for all processes: sixteen imports would take longer than the race.
    context.set_forkserver_preload(["floe_catalogs.sql", "pyiceberg.io.pyarrow"])
    start, results = context.Barrier(PROCESSES), context.Queue()
    workers = [
        context.Process(target=_work, args=(n, settings, dict(os.environ), start, results)) for n in range(PROCESSES)
    ]
    for worker in workers:
        worker.start()
    outcomes = [results.get(timeout=280) for _ in workers]
    for worker in workers:
        worker.join(timeout=60)
    return [outcome for outcome in outcomes if outcome]


def assert_everything_landed(settings, root):
    plugin = SqlCatalogPlugin()
    plugin.connect(CatalogConfig(**settings), file_io={}, project_root=root)
    properties = plugin.catalog.load_table("bronze.shared.t").properties
    assert len([key for key in properties if key.startswith("p")]) == PROCESSES * COMMITS
    assert len(plugin.list_namespaces("own")) == PROCESSES
    assert plugin.namespaces.properties("bronze.shared") == {"owner": "everybody"}
    plugin.shutdown()


@pytest.mark.req("TM-07")
def test_sixteen_processes_share_a_new_sqlite_file(tmp_path):
    settings = {"warehouse": f"file://{tmp_path}/wh", "uri": f"{tmp_path}/catalog.db"}
    assert race(settings) == []
    assert_everything_landed(settings, tmp_path)


@pytest.mark.req("TM-07")
def test_sixteen_processes_share_a_new_postgres_database(tmp_path, postgres_catalog):
    assert race(postgres_catalog) == []
    assert_everything_landed(postgres_catalog, tmp_path)
