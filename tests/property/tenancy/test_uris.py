"""Equal inputs give equal URIs; locations of different tenants never overlap."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from floe_core.declaration.locations import is_at_or_below
from floe_core.errors import InvalidIdentifierError
from floe_tenancy import CatalogProvider, IcebergCatalogConfig

REMOTE = [CatalogProvider.GCS, CatalogProvider.S3, CatalogProvider.AZURE]
ALPHABET = string.ascii_letters + string.digits
tenant_ids = st.text(ALPHABET + "-_", min_size=1, max_size=63).filter(lambda text: text[0] in ALPHABET)
parts = st.text(ALPHABET + "-_.=", min_size=1, max_size=12).filter(lambda text: text.strip("."))
buckets = st.text(string.ascii_lowercase + string.digits + "-", min_size=1, max_size=20).map(lambda text: f"b{text}b")
slashes = st.integers(1, 4).map("/".__mul__)


@st.composite
def spellings(draw):
    """Give a provider, a bucket and a prefix, and another spelling of both."""
    provider = draw(st.sampled_from(REMOTE))
    bucket, prefix = draw(buckets), draw(st.lists(parts, max_size=3))
    scheme = draw(st.sampled_from(["", f"{provider.schemes[0]}://", f"{provider.schemes[0].upper()}://"]))
    shouted = "".join(draw(st.sampled_from([char.lower(), char.upper()])) for char in bucket)
    messy_bucket = f" {scheme}{shouted}{draw(st.sampled_from(['', '/', '//']))} "
    before, after = draw(st.sampled_from(["", "/", "//"])), draw(st.sampled_from(["", "/"]))
    messy_prefix = before + draw(slashes).join(prefix) + after
    return provider, bucket, "/".join(prefix), messy_bucket, messy_prefix


def config(provider, bucket, prefix, **more):
    return IcebergCatalogConfig(
        name="clients", provider=provider, warehouse_bucket=bucket, warehouse_prefix=prefix, **more
    )


@pytest.mark.req("TN-02")
@given(spellings(), tenant_ids, st.lists(tenant_ids, max_size=2))
def test_every_spelling_of_a_place_gives_one_uri(spelling, tenant, namespace):
    provider, bucket, prefix, messy_bucket, messy_prefix = spelling
    plain = config(provider, bucket, prefix, namespace_prefix=tuple(namespace))
    messy = config(provider, messy_bucket, messy_prefix, namespace_prefix=".".join(namespace))
    assert messy.warehouse_uri_for(tenant) == plain.warehouse_uri_for(tenant)
    assert messy.table_location(tenant, "events") == plain.table_location(tenant, "events")
    expected = "/".join(part for part in (bucket, prefix, *namespace, tenant) if part)
    assert plain.warehouse_uri_for(tenant) == f"{provider.schemes[0]}://{expected}"
    assert plain.namespace_for(tenant) == (*namespace, tenant)


@pytest.mark.req("TN-01", "TN-02")
@given(spellings(), tenant_ids, tenant_ids, st.lists(tenant_ids, max_size=2))
def test_different_tenants_never_overlap(spelling, one, other, namespace):
    provider, bucket, prefix, *_ = spelling
    shared = config(provider, bucket, prefix, namespace_prefix=tuple(namespace), metadata_bucket="metadata")
    if one == other:
        return
    for key_of in (shared.warehouse_key_for, shared.metadata_key_for):
        assert not key_of(one).startswith(key_of(other))
        assert not key_of(other).startswith(key_of(one))
    assert not is_at_or_below(shared.warehouse_uri_for(one), [shared.warehouse_uri_for(other)])
    assert not is_at_or_below(shared.table_location(one, "events"), [shared.warehouse_uri_for(other)])


@given(st.text(max_size=80))
def test_an_id_is_refused_or_used_as_it_is(text):
    local = config(CatalogProvider.S3, "bucket", "")
    try:
        key = local.warehouse_key_for(text)
    except InvalidIdentifierError:
        return
    assert key == f"{text}/"
    assert set(text) <= set(ALPHABET + "-_")


@given(st.sampled_from([".", "..", "a b", "a\\b", "a%2fb", "ä", "a\nb", "?x", "#x", "~"]), st.lists(parts, max_size=2))
def test_a_prefix_cannot_leave_its_place(bad, good):
    with pytest.raises(ValidationError):
        config(CatalogProvider.S3, "bucket", "/".join([*good, bad]))
