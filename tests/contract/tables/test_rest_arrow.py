"""The table manager over REST, in process: on the reference server, and on Nessie with vended credentials."""

from __future__ import annotations

import pytest

from floe_audit import Rule
from floe_core.schemas import AccessDelegation
from floe_iceberg import Engine, IcebergTableManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.rest_fixtures import store_properties
from floe_testing.tables import NAMESPACE, TableManagerContract


def managed(config):
    catalog = create_catalog(config)
    manager = IcebergTableManager(catalog)
    manager.create_namespace(NAMESPACE)
    yield manager
    catalog.close()


@pytest.mark.req("FR-001")
class TestReferenceServerArrow(TableManagerContract):
    engine = Engine.ARROW

    @pytest.fixture
    def manager(self, iceberg_rest, minio):
        yield from managed(
            PolarisCatalogConfig(
                uri=iceberg_rest.url,
                access_delegation=AccessDelegation.NONE,
                properties=store_properties(minio),
            )
        )


class NessieContract(TableManagerContract):
    """Nessie keeps history itself and shows Iceberg the newest snapshot only."""

    engine = Engine.ARROW
    # Nessie removes the parent from the only snapshot that it shows.
    broken_by_catalog = frozenset({Rule.SNAPSHOT_PARENT})
    branches = False
    history = False


@pytest.mark.live
@pytest.mark.req("FR-001", "FR-005")
class TestNessieArrow(NessieContract):
    @pytest.fixture
    def manager(self, nessie):
        yield from managed(PolarisCatalogConfig(uri=nessie.url, warehouse=nessie["warehouse"]))


@pytest.mark.live
@pytest.mark.req("FR-002", "FR-004", "FR-005")
class TestNessieWithTokensArrow(NessieContract):
    @pytest.fixture
    def manager(self, nessie_oidc, oidc):
        yield from managed(
            PolarisCatalogConfig(
                uri=nessie_oidc.url,
                warehouse=nessie_oidc["warehouse"],
                client_id=oidc["client_id"],
                client_secret=oidc["client_secret"],
                token_endpoint=oidc["token_endpoint"],
            )
        )
