from __future__ import annotations

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from floe_iceberg import IcebergTableManager, IcebergTableManagerConfig
from floe_iceberg.maintenance.rewriting import Rewriter
from floe_testing.faulty_catalogs import FaultyCatalog


@pytest.fixture
def open_manager(tmp_path):
    """Open managers on one embedded catalog; each stands for a process of its own."""
    opened = []

    def open_(kind=SqlCatalog, **settings):
        uri = f"sqlite:///{tmp_path}/catalog.db"
        catalog = kind("test", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
        catalog.create_namespace_if_not_exists("bronze")
        opened.append(catalog)
        return IcebergTableManager(catalog, config=IcebergTableManagerConfig(**settings))

    yield open_
    for catalog in opened:
        catalog.close()


@pytest.fixture
def faulty(open_manager):
    """A manager on a catalog that fails by script."""
    return open_manager(FaultyCatalog, commit_timeout_seconds=20)


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
