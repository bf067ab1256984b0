"""Spark settings of the plugins, and rejected configuration sections."""

from __future__ import annotations

import pytest

import floe_polaris
from floe_core.errors import CatalogConnectionError, ConfigurationError
from floe_core.schemas import CatalogConfig
from floe_polaris import PolarisCatalogConfig
from floe_polaris.plugin import PolarisCatalogPlugin, RestCatalogPlugin


def test_the_public_names_are_these():
    assert floe_polaris.__all__ == ["PolarisCatalog", "PolarisCatalogConfig", "PolarisManagement", "create_catalog"]


def spark_conf(**settings):
    plugin = RestCatalogPlugin()
    plugin._config = PolarisCatalogConfig.model_validate({"uri": "https://c.example/api/catalog", **settings})
    conf = plugin.get_spark_conf("lake", {})
    return {key.removeprefix("spark.sql.catalog.lake."): value for key, value in conf.items()}


def test_spark_gets_the_same_connection():
    conf = spark_conf(client_id="me", client_secret="s", warehouse="sales", timeouts={"connect_seconds": 1.5})
    assert conf["type"] == "rest"
    assert conf["uri"] == "https://c.example/api/catalog"
    assert conf["warehouse"] == "sales"
    assert conf["credential"] == "me:s"
    assert conf["oauth2-server-uri"] == "https://c.example/api/catalog/v1/oauth/tokens"
    assert conf["scope"] == "PRINCIPAL_ROLE:ALL"
    assert conf["token-refresh-enabled"] == "true"
    assert conf["token-exchange-enabled"] == "false"
    assert conf["rest.client.connection-timeout-ms"] == "1500"
    assert conf["header.X-Iceberg-Access-Delegation"] == "vended-credentials"
    assert conf["cache-enabled"] == "false"


def test_spark_gets_a_token_or_nothing_and_no_header_without_delegation():
    assert spark_conf(token="t")["token"] == "t"
    bare = spark_conf(access_delegation="none")
    assert not {"token", "credential", "header.X-Iceberg-Access-Delegation", "warehouse"} & bare.keys()


def test_before_connecting_there_are_no_spark_settings():
    with pytest.raises(CatalogConnectionError):
        RestCatalogPlugin().get_spark_conf("lake", {})
    assert RestCatalogPlugin().get_spark_packages({}) == ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)


@pytest.mark.parametrize(
    ("section", "setting"),
    [
        ({"uri": "nonsense", "warehouse": "w"}, "catalog.uri"),
        ({"uri": "https://c.example", "warehouse": "w", "credentials": {"client_id": "me"}}, "catalog.credentials"),
        ({"uri": "https://c.example"}, "catalog.warehouse"),
        ({"warehouse": "w"}, "catalog.uri"),
    ],
)
def test_a_section_that_cannot_work_names_the_setting(section, setting, tmp_path):
    plugin = PolarisCatalogPlugin()
    with pytest.raises(ConfigurationError) as caught:
        plugin.connect(CatalogConfig.model_validate(section), file_io={}, project_root=tmp_path)
    assert setting in [problem.path for problem in caught.value.problems]
