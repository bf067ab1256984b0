"""Errors of the hive and glue catalogs if the server does not respond or rejects a request."""

from __future__ import annotations

import socket

import pytest

from floe_catalogs.glue import GlueCatalogPlugin
from floe_catalogs.hive import HiveCatalogPlugin
from floe_core.errors import (
    CatalogAuthenticationError,
    CatalogAuthorizationError,
    CatalogUnavailableError,
    ConfigurationError,
    DeadlineExceededError,
    RateLimitedError,
)
from floe_core.schemas import CatalogConfig
from floe_testing.faults.gateway import FaultGateway, Reply, Rule
from floe_testing.services.glue import isolate_aws

SECRET = "canary-aws-secret"
NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _aws(monkeypatch):
    isolate_aws(monkeypatch, secret=SECRET)


@pytest.fixture
def hive_catalog(tmp_path):
    once = {"max_attempts": 1}
    return {"type": "hive", "uri": "thrift://127.0.0.1:1", "warehouse": f"file://{tmp_path}", "retry": once}


@pytest.fixture
def glue_catalog(tmp_path):
    options = {"client.region": "us-east-1"}
    return {"type": "glue", "uri": NOBODY, "warehouse": "s3://lake/glue", "options": options}


def connect(section, root):
    plugin = HiveCatalogPlugin() if section["type"] == "hive" else GlueCatalogPlugin()
    plugin.connect(CatalogConfig.model_validate(section), file_io={}, project_root=root)
    return plugin


def test_a_metastore_that_is_not_there_is_a_transient_error(hive_catalog, tmp_path):
    with pytest.raises(CatalogUnavailableError, match=r"catalog\.uri"):
        connect(hive_catalog, tmp_path)


@pytest.mark.req("FR-006a")
def test_a_metastore_that_never_answers_is_given_up_at_the_deadline(hive_catalog, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        section = {**hive_catalog, "uri": f"thrift://127.0.0.1:{silent.getsockname()[1]}"}
        with pytest.raises(DeadlineExceededError, match=r"within 0\.5 s"):
            connect({**section, "timeouts": {"read_seconds": 0.5}}, tmp_path)


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:9083", "thrift://one,two"])
def test_another_kind_of_address_is_a_configuration_error(uri, tmp_path):
    with pytest.raises(ConfigurationError, match="thrift://host:9083"):
        connect({"type": "hive", "warehouse": f"file://{tmp_path}", "uri": uri}, tmp_path)


def test_a_metastore_without_a_warehouse_is_a_configuration_error(tmp_path):
    with pytest.raises(ConfigurationError, match="needs a warehouse location"):
        connect({"type": "hive", "uri": "thrift://127.0.0.1:1"}, tmp_path)


@pytest.mark.req("SC-006")
@pytest.mark.parametrize(
    ("answer", "error", "hint"),
    [
        ((400, "UnrecognizedClientException"), CatalogAuthenticationError, "AWS_ACCESS_KEY_ID"),
        ((400, "ExpiredTokenException"), CatalogAuthenticationError, "AWS_PROFILE"),
        ((400, "AccessDeniedException"), CatalogAuthorizationError, "glue:GetDatabases"),
        ((400, "ThrottlingException"), RateLimitedError, "is throttling requests"),
        ((500, "InternalServiceException"), CatalogUnavailableError, "Try again"),
    ],
)
def test_each_refusal_has_its_own_error_and_no_secret(glue_catalog, tmp_path, answer, error, hint):
    section = {**glue_catalog, "retry": {"max_attempts": 1}}
    status, code = answer
    with FaultGateway(section["uri"]) as gateway:
        gateway.add(Rule(".*", "", None, forward=False, reply=Reply.of(status, {"__type": code, "message": "no"})))
        with pytest.raises(error, match=hint) as caught:
            connect({**section, "uri": gateway.url}, tmp_path)
    assert SECRET not in str(caught.value)


def test_missing_credentials_say_where_to_put_them(glue_catalog, tmp_path, monkeypatch):
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(CatalogAuthenticationError, match="AWS_PROFILE"):
        connect(glue_catalog, tmp_path)


def test_an_address_where_nobody_listens_is_a_transient_error(glue_catalog, tmp_path):
    section = {**glue_catalog, "retry": {"max_attempts": 1}}
    with pytest.raises(CatalogUnavailableError, match=r"catalog\.uri"):
        connect(section, tmp_path)


@pytest.mark.req("FR-006a")
def test_an_endpoint_that_never_answers_is_given_up_at_the_deadline(glue_catalog, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        section = {**glue_catalog, "uri": f"http://127.0.0.1:{silent.getsockname()[1]}", "retry": {"max_attempts": 1}}
        with pytest.raises(DeadlineExceededError, match=r"within 0\.5 s"):
            connect({**section, "timeouts": {"read_seconds": 0.5}}, tmp_path)


def test_a_missing_region_or_warehouse_is_a_configuration_error(glue_catalog, tmp_path):
    with pytest.raises(ConfigurationError, match=r"client\.region"):
        connect({**glue_catalog, "options": {}}, tmp_path)
    with pytest.raises(ConfigurationError, match="needs a warehouse location"):
        connect({**glue_catalog, "warehouse": None}, tmp_path)
