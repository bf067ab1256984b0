"""S24: secrets are never sent to other hosts that a catalog names."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CatalogConnectionError
from floe_testing.faults.gateway import FaultGateway
from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET


@pytest.fixture
def stranger():
    """Give a server that nobody configured."""
    with FaultGateway("http://127.0.0.1:1") as gateway:
        yield gateway


@pytest.fixture
def guarded(gateway):
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    return gateway


@pytest.mark.parametrize("part", ["defaults", "overrides"])
@pytest.mark.parametrize("setting", ["oauth2-server-uri", "credential", "token"])
def test_s24_a_token_endpoint_the_server_names_is_not_asked(guarded, connect, stranger, part, setting):
    value = f"{stranger.url}/v1/oauth/tokens" if setting == "oauth2-server-uri" else "thief:thief"
    guarded.rewrite(lambda content: content[part].update({setting: value}), path="/v1/config")
    connect().list_namespaces()
    assert stranger.seen() == []
    assert {item.form["client_id"] for item in guarded.token_requests} == {CLIENT_ID}


def test_s24_a_catalog_that_sends_its_clients_elsewhere_is_refused(guarded, connect, stranger):
    guarded.rewrite(lambda content: content["overrides"].update({"uri": stranger.url}), path="/v1/config")
    with pytest.raises(CatalogConnectionError, match=r"to which floe does not send credentials"):
        connect()
    assert stranger.seen() == []


def test_s24_a_signer_on_another_host_is_refused(guarded, connect, stranger, namespace):
    catalog = connect()
    catalog.create_namespace(namespace)
    catalog.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
    signer = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.signer": "S3V4RestSigner",
        "s3.signer.uri": stranger.url,
    }
    guarded.rewrite(lambda content: content.setdefault("config", {}).update(signer), method="GET", path="/tables/")
    with pytest.raises(CatalogConnectionError, match="to which floe does not send the token"):
        catalog.load_table(f"{namespace}.orders")
    assert stranger.seen() == []


def test_s24_a_redirect_takes_no_credentials_along(guarded, connect, stranger):
    catalog = connect()
    guarded.answer(308, path="/v1/namespaces$", headers={"Location": f"{stranger.url}/v1/namespaces"})
    with pytest.raises(CatalogConnectionError, match="redirect"):
        catalog.list_namespaces()
    assert stranger.seen() == []


def test_s24_a_token_endpoint_on_another_host_is_used_when_configured(guarded, connect, iceberg_rest):
    with FaultGateway(iceberg_rest.url) as issuer:
        # Both sides of one identity provider: the catalog accepts the issuer's tokens.
        issuer.tokens = guarded.tokens
        catalog = connect(token_endpoint=f"{issuer.url}/v1/oauth/tokens")
        catalog.list_namespaces()
        assert len(issuer.token_requests) == 1
        assert guarded.token_requests == []
