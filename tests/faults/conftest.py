from __future__ import annotations

import pytest

from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_iceberg.maintenance.rewriting import Rewriter
from floe_testing.database_faults import DatabaseFaults
from floe_testing.embedded_tables import open_catalog


@pytest.fixture
def open_manager(tmp_path):
    """Open managers on one embedded catalog; each stands for a process of its own."""
    opened = []

    def open_(**settings):
        catalog = open_catalog(tmp_path)
        opened.append(catalog)
        return IcebergTableManager(catalog, config=IcebergTableManagerConfig(**settings))

    yield open_
    for catalog in opened:
        catalog.close()


@pytest.fixture
def faulty(open_manager):
    """A manager on the embedded catalog as users have it, above a database that fails by script."""
    return open_manager(commit_timeout_seconds=20)


@pytest.fixture
def database(faulty):
    """The script of the faulty manager's database."""
    return DatabaseFaults(faulty.catalog.inner.engine)


@pytest.fixture
def before_the_swap(monkeypatch):
    """Run something between a compaction's writing and its commit, once for each thing given."""

    def arrange(*actions):
        waiting = list(actions)
        original = Rewriter.rewrite

        def rewrite(self, groups):
            rewritten = original(self, groups)
            if waiting:
                waiting.pop(0)()
            return rewritten

        monkeypatch.setattr(Rewriter, "rewrite", rewrite)

    return arrange
