from __future__ import annotations

import pytest

from floe_polaris import PolarisCatalogConfig, PolarisManagement
from floe_testing.rest_fixtures import QUICK_RETRY
from floe_testing.tenants import EmbeddedTenants


@pytest.fixture
def tenants(tmp_path):
    """Give tenants on an embedded catalog."""
    tenants = EmbeddedTenants(tmp_path)
    yield tenants
    tenants.close()


@pytest.fixture
def session(tenants):
    """Give an open catalog for tenants."""
    with tenants.bootstrapper.session(tenants.config) as session:
        yield session


@pytest.fixture
def management_of():
    """Give a way to connect to a server's management API."""
    opened = []

    def connect(server):
        config = PolarisCatalogConfig(
            uri=server.uri,
            warehouse="lake",
            client_id="root",
            client_secret="canary-root-secret",
            retry=QUICK_RETRY,
        )
        opened.append(PolarisManagement(config))
        return opened[-1]

    yield connect
    for management in opened:
        management.close()
