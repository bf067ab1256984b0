"""Namespaces on a real Polaris server."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import NamespaceNotEmptyError, NamespaceNotFoundError
from floe_polaris import create_catalog

SCHEMA = pa.schema([pa.field("id", pa.int64())])


@pytest.fixture
def catalog(polaris_config):
    catalog = create_catalog(polaris_config)
    yield catalog
    catalog.close()


@pytest.mark.req("FR-007", "FR-008", "FR-009", "FR-010", "FR-011")
def test_nested_namespaces_live_a_whole_life(catalog, unique):
    assert catalog.namespaces.create((unique, "raw", "crm"), {"owner": "sales"})
    assert not catalog.namespaces.create(f"{unique}.raw.crm", {"owner": "somebody else"})
    assert catalog.namespaces.list_below(unique) == [f"{unique}.raw"]
    assert catalog.namespaces.list_below((unique, "raw")) == [f"{unique}.raw.crm"]
    assert catalog.namespaces.properties(f"{unique}.raw.crm")["owner"] == "sales"
    changed = catalog.namespaces.update_properties(f"{unique}.raw.crm", updates={"tier": "gold"}, removals=["owner"])
    assert changed["tier"] == "gold"
    assert "owner" not in changed

    catalog.create_table(f"{unique}.raw.crm.orders", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError, match="orders"):
        catalog.delete_namespace(f"{unique}.raw.crm")
    with pytest.raises(NamespaceNotEmptyError, match=f"{unique}.raw"):
        catalog.delete_namespace(unique)
    catalog.drop_table(f"{unique}.raw.crm.orders")
    for name in (f"{unique}.raw.crm", f"{unique}.raw", unique):
        catalog.delete_namespace(name)
    assert not catalog.namespaces.exists(unique)


@pytest.mark.req("FR-011")
def test_a_missing_namespace_is_a_typed_error(catalog, unique):
    for call in (catalog.namespaces.properties, catalog.delete_namespace):
        with pytest.raises(NamespaceNotFoundError, match=unique):
            call(unique)
