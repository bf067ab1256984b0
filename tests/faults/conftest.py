from __future__ import annotations

import pytest

from floe_iceberg.maintenance.rewrite import Rewriter
from floe_testing.faults.database_faults import DatabaseFaults
from floe_testing.faults.sites import EmbeddedAddress, RestAddress, open_site
from floe_testing.rest_fixtures import store_properties


@pytest.fixture
def open_manager(tmp_path):
    """Open managers on one embedded catalog, each with a connection of its own, as a process of its own has."""
    with open_site(EmbeddedAddress(str(tmp_path))) as site:
        yield site.open_manager


@pytest.fixture(params=["embedded", pytest.param("rest", marks=pytest.mark.live)])
def site(request, tmp_path):
    """Where a scenario runs: on the embedded catalog, and over REST."""
    address = EmbeddedAddress(str(tmp_path))
    if request.param == "rest":
        server, minio = request.getfixturevalue("iceberg_rest"), request.getfixturevalue("minio")
        namespace = request.getfixturevalue("namespace")
        address = RestAddress(server.url, server["warehouse"], namespace, store_properties(minio))
    with open_site(address) as site:
        yield site


@pytest.fixture
def context(site):
    """A manager's context at the site."""
    return site.open_context()


@pytest.fixture
def manager(site):
    """A manager at the site."""
    return site.open_manager()


@pytest.fixture
def plane(site, spark_engine, spark_settings):
    """Spark on the site's tables."""
    return site.open_plane(spark_settings)


@pytest.fixture
def name(site):
    """The name of a table that no other test has."""
    return site.name("events")


@pytest.fixture
def new_table(site, context):
    """Create tables of the site."""

    def create(name, schema, **options):
        return context.catalog.create_table(tuple(name.split(".")), schema, **options)

    return create


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
