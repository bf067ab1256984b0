"""Connection settings of the IO manager, and errors for invalid combinations."""

from __future__ import annotations

import dagster as dg
import pytest

from floe_core.errors import ConfigurationError
from floe_dagster import IcebergIOManager, IcebergIOManagerConfig, create_io_manager

ADDRESS = {"catalog_uri": "http://127.0.0.1:1/", "warehouse": "lake"}


def directly(**settings):
    return IcebergIOManager(**settings)


def by_factory(**settings):
    return create_io_manager(IcebergIOManagerConfig(**settings))


@pytest.mark.parametrize("make", [directly, by_factory])
@pytest.mark.parametrize(
    "address", ["https://me:canary@lake.example.com/", "https://lake.example.com/?token=canary"], ids=["user", "query"]
)
def test_a_secret_in_the_address_is_refused_when_the_io_manager_is_made(make, address):
    with pytest.raises(ConfigurationError, match="catalog_uri contains a secret") as caught:
        make(**{**ADDRESS, "catalog_uri": address})
    assert "canary" not in str(caught.value)


@pytest.mark.req("RD-05")
@pytest.mark.parametrize("make", [directly, by_factory])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"client_id": "c", "client_secret": "canary", "token": "canary"}, "set either token, or client_id"),
        ({"client_id": "c"}, "client_secret is not set"),
        ({"catalog_uri": "lake"}, "uri: use an address such as"),
    ],
    ids=["two logins", "half a login", "no address"],
)
def test_settings_that_cannot_be_are_told_without_their_values(make, settings, said):
    io = make(**{**ADDRESS, **settings})
    with dg.build_input_context(asset_key="orders") as asked, pytest.raises(ConfigurationError) as caught:
        io.load_input(asked)
    told = str(caught.value)
    assert told.startswith("The connection of the IO manager is not valid.")
    assert said in told
    assert "canary" not in told
    assert "pydantic" not in told
