from __future__ import annotations

import pytest

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
