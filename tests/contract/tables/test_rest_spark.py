"""The table manager over REST, on Spark."""

from __future__ import annotations

import pytest

from floe_audit import Rule
from floe_core.schemas import AccessDelegation
from floe_iceberg import Engine, IcebergTableManager
from floe_polaris import PolarisCatalogConfig, create_catalog
from floe_testing.rest_fixtures import store_properties
from floe_testing.tables import NAMESPACE, TableManagerContract


@pytest.mark.live
@pytest.mark.spark
@pytest.mark.req("FR-001")
class TestReferenceServerSpark(TableManagerContract):
    engine = Engine.SPARK

    @pytest.fixture
    def manager(self, iceberg_rest, minio, spark_over):
        catalog = create_catalog(
            PolarisCatalogConfig(
                uri=iceberg_rest.url, access_delegation=AccessDelegation.NONE, properties=store_properties(minio)
            )
        )
        manager = IcebergTableManager(catalog, compute=spark_over(catalog))
        manager.create_namespace(NAMESPACE)
        yield manager
        catalog.close()


@pytest.mark.live
@pytest.mark.spark
@pytest.mark.req("FR-001", "FR-002", "FR-005")
class TestNessieSpark(TableManagerContract):
    """Nessie keeps history itself and shows Iceberg the newest snapshot only."""

    # Nessie removes the parent from the only snapshot that it shows.
    broken_by_catalog = frozenset({Rule.SNAPSHOT_PARENT})

    engine = Engine.SPARK
    branches = False
    history = False

    @pytest.fixture
    def manager(self, nessie_oidc, oidc, spark_over):
        catalog = create_catalog(
            PolarisCatalogConfig(
                uri=nessie_oidc.url,
                warehouse=nessie_oidc["warehouse"],
                client_id=oidc["client_id"],
                client_secret=oidc["client_secret"],
                token_endpoint=oidc["token_endpoint"],
            )
        )
        manager = IcebergTableManager(catalog, compute=spark_over(catalog))
        manager.create_namespace(NAMESPACE)
        yield manager
        catalog.close()
