"""The server for the snippets of the specification documents."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from types import SimpleNamespace

import pytest

from floe_testing.rest_fixtures import CLIENT_ID, CLIENT_SECRET, store_properties


@pytest.fixture
def server(gateway, minio):
    """Give a server that asks for tokens and tells its clients how to reach the storage."""
    gateway.require_tokens(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    gateway.rewrite(lambda content: content["defaults"].update(store_properties(minio)), path="/v1/config")
    return SimpleNamespace(uri=gateway.url, warehouse="lake", scope=None)


@pytest.fixture
def bearer_token(server) -> str:
    """Fetch a token, as whoever connects with one has done before."""
    form = {
        "grant_type": "client_credentials",
        "client_id": CLIENT_ID,
        "client_secret": CLIENT_SECRET,
        "scope": "PRINCIPAL_ROLE:ALL",
    }
    request = urllib.request.Request(  # noqa: S310 - our own server's address
        f"{server.uri}/v1/oauth/tokens", data=urllib.parse.urlencode(form).encode()
    )
    with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - our own server's address
        return json.loads(answer.read())["access_token"]
