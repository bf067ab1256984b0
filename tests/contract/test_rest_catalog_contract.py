"""The ``rest`` and ``polaris`` plugins pass the catalog contract on the reference server and on Nessie."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import SharedFilesError
from floe_core.schemas import CatalogConfig
from floe_polaris.plugin import PolarisCatalogPlugin, RestCatalogPlugin
from floe_testing.faults.gateway import FaultGateway
from floe_testing.plugins import CatalogPluginContract
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties


class RestContract(CatalogPluginContract):
    @pytest.fixture
    def file_io(self, minio):
        return store_properties(minio)


@pytest.mark.req("PL-01", "PL-02", "PL-06", "FR-001")
class TestRestOnTheReferenceServer(RestContract):
    @pytest.fixture
    def plugin_class(self):
        return RestCatalogPlugin

    @pytest.fixture
    def catalog_config(self, iceberg_rest):
        return CatalogConfig(type="rest", name="lake", uri=iceberg_rest.url, access_delegation="none")


@pytest.mark.req("PL-01", "PL-02", "PL-06", "FR-002")
class TestPolarisWithTokens(RestContract):
    @pytest.fixture
    def plugin_class(self):
        return PolarisCatalogPlugin

    @pytest.fixture
    def catalog_secrets(self):
        return (CLIENT_SECRET,)

    @pytest.fixture
    def catalog_config(self, iceberg_rest, monkeypatch):
        monkeypatch.setenv("CONTRACT_CLIENT_SECRET", CLIENT_SECRET)
        with FaultGateway(iceberg_rest.url) as gateway:
            gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
            yield CatalogConfig.model_validate(
                {
                    "type": "polaris",
                    "name": "lake",
                    "uri": gateway.url,
                    "warehouse": "lake",
                    "access_delegation": "none",
                    "credentials": {"client_id": CLIENT_ID, "client_secret": "${CONTRACT_CLIENT_SECRET}"},
                }
            )


@pytest.mark.live
@pytest.mark.req("PL-06", "FR-002", "FR-005")
class TestRestOnNessie(CatalogPluginContract):
    @pytest.fixture
    def plugin_class(self):
        return RestCatalogPlugin

    @pytest.fixture
    def file_io(self):
        return {}

    @pytest.fixture
    def catalog_config(self, nessie_oidc, oidc, monkeypatch):
        monkeypatch.setenv("CONTRACT_OIDC_SECRET", oidc["client_secret"])
        return CatalogConfig.model_validate(
            {
                "type": "rest",
                "name": "lake",
                "uri": nessie_oidc.url,
                "warehouse": nessie_oidc["warehouse"],
                "credentials": {
                    "client_id": oidc["client_id"],
                    "client_secret": "${CONTRACT_OIDC_SECRET}",
                    "token_endpoint": oidc["token_endpoint"],
                },
            }
        )

    def test_nessie_is_known_to_keep_no_branches(self, connected):
        assert not connected.capabilities.branches

    def test_a_purged_table_is_gone(self, connected, namespace):
        """Nessie collects files itself: its tables say ``gc.enabled=false``, and their purge is refused."""
        connected.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
        with pytest.raises(SharedFilesError, match=r"gc\.enabled"):
            connected.drop_table(f"{namespace}.orders", purge=True)
        assert connected.list_tables(namespace) == ["orders"]
        connected.drop_table(f"{namespace}.orders")
        assert connected.list_tables(namespace) == []

    def test_credentials_are_vended_by_sts(self, connected, namespace):
        connected.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
        vended = connected.vend_credentials(f"{namespace}.orders", ["READ", "WRITE"])
        assert vended["s3.session-token"]
