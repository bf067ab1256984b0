"""Bootstrap on the embedded catalog: the resulting layout, and reruns."""

from __future__ import annotations

import json
from datetime import datetime

import pyarrow as pa
import pytest

from floe_core.errors import ConfigurationError, InvalidIdentifierError
from floe_core.schemas import ColumnConfig
from floe_tenancy import (
    DEFAULT_TABLES,
    IcebergCatalogBootstrapper,
    IcebergTableSpec,
    StoredObject,
    WarehouseStorageManager,
    verify_tenant,
)
from floe_testing.tenants import EmbeddedTenants


@pytest.mark.req("TN-04", "TN-05")
def test_bootstrap_reports_what_it_made(tenants):
    result = tenants.bootstrapper.bootstrap_client("acme", tenants.config)
    root = f"file://{tenants.folder}/warehouse/tenants/acme"
    assert result.namespace == ("tenants", "acme")
    assert result.warehouse_uri == root
    assert result.created_tables == ("main", "events", "metrics")
    assert result.existing_tables == ()
    assert [(marker.uri, marker.created) for marker in result.markers] == [(f"{root}/.catalog-bootstrap", True)]
    assert result.took.total_seconds() > 0


@pytest.mark.req("TN-04")
def test_a_second_bootstrap_leaves_everything_as_it_is(tenants, session):
    session.bootstrap("acme")
    before = tenants.digests("acme")
    again = tenants.bootstrapper.bootstrap_client("acme", tenants.config)
    assert again.created_tables == ()
    assert again.existing_tables == ("main", "events", "metrics")
    assert [marker.created for marker in again.markers] == [False]
    assert tenants.digests("acme") == before


@pytest.mark.req("TN-03")
def test_the_marker_tells_who_when_and_which_version(tenants, session):
    session.bootstrap("acme")
    marker = json.loads((tenants.folder / "warehouse/tenants/acme/.catalog-bootstrap").read_text())
    assert marker["tenant"] == "acme"
    assert "@" in marker["created_by"]
    assert datetime.fromisoformat(marker["created_at"]).tzinfo is not None
    assert marker["floe_version"]
    assert marker["marker_version"] == 1


@pytest.mark.req("TN-04")
def test_the_namespace_has_the_warehouse_as_its_location(session):
    result = session.bootstrap("acme")
    assert session.manager.namespaces.properties("tenants.acme")["location"] == result.warehouse_uri


@pytest.mark.req("TN-04")
def test_default_tables_are_laid_out_for_what_they_hold(session):
    session.bootstrap("acme")
    layouts = {}
    for name in ("main", "events", "metrics"):
        table = session.manager.load_table(f"tenants.acme.{name}")
        [term] = table.spec().fields
        layouts[name] = str(term.transform)
        assert table.sort_order().fields
    assert layouts == {"main": "bucket[8]", "events": "day", "metrics": "month"}


@pytest.mark.req("TN-04")
def test_metadata_goes_to_the_metadata_bucket(tmp_path):
    tenants = EmbeddedTenants(tmp_path, metadata=True)
    with tenants.bootstrapper.session(tenants.config) as session:
        result = session.bootstrap("acme")
        assert len(result.markers) == 2
        table = session.manager.load_table("tenants.acme.events")
        assert table.metadata_location.startswith(f"file://{tmp_path}/metadata/tenants/acme/events/metadata/")
        assert verify_tenant(session, "acme").ok
    tenants.close()


@pytest.mark.req("TN-07")
def test_open_catalog_gives_catalog_and_namespace(tenants, session):
    session.bootstrap("acme")
    handle = tenants.bootstrapper.open_catalog("acme", tenants.config)
    assert handle.namespace == ("tenants", "acme")
    assert handle.catalog.load_table((*handle.namespace, "events")).location().endswith("/tenants/acme/events")
    with pytest.raises(InvalidIdentifierError):
        tenants.bootstrapper.open_catalog("..", tenants.config)


@pytest.mark.req("TN-08")
def test_tables_of_ones_own_take_the_place_of_the_default_ones(session):
    orders = IcebergTableSpec(
        name="orders",
        columns=(ColumnConfig(name="id", type="long", required=True), ColumnConfig(name="at", type="timestamptz")),
        partition_by=("month(at)",),
        sort_by=("at desc",),
        keys=("id",),
        properties={"write.target-file-size-bytes": "1048576"},
    )
    assert session.bootstrap("acme", [orders]).created_tables == ("orders",)
    table = session.manager.load_table("tenants.acme.orders")
    assert table.properties["write.target-file-size-bytes"] == "1048576"
    assert table.properties["floe.keys"] == "id"
    assert session.bootstrap("acme", DEFAULT_TABLES).created_tables == ("main", "events", "metrics")


class RecordingStore:
    """A provider of somebody else's: objects in a dict."""

    def __init__(self):
        self.objects = {}

    def create(self, key, content):
        return self.objects.setdefault(key, content) is content

    def read(self, key):
        return self.objects.get(key)

    def list(self, prefix):
        return [StoredObject(key, len(content)) for key, content in self.objects.items() if key.startswith(prefix)]

    def delete(self, keys):
        return sum(self.objects.pop(key, None) is not None for key in keys)


@pytest.mark.req("TN-03", "TN-08")
def test_loader_and_storage_factory_can_be_replaced(tenants):
    store, asked = RecordingStore(), []

    def factory(config, address):
        asked.append(address.uri())
        return store

    catalog = tenants.load(tenants.config)
    bootstrapper = IcebergCatalogBootstrapper(catalog_loader=lambda _: catalog, storage_factory=factory)
    bootstrapper.bootstrap_client("acme", tenants.config)
    assert asked == [f"file://{tenants.folder}/warehouse"]
    assert list(store.objects) == ["tenants/acme/.catalog-bootstrap"]
    # The caller's own catalog stays open.
    assert catalog.load_table(("tenants", "acme", "main"))


@pytest.mark.req("TN-03")
def test_the_storage_manager_writes_markers_alone(tenants):
    manager = WarehouseStorageManager(tenants.config)
    [marker] = manager.ensure_prefixes("acme")
    assert marker.created
    assert not manager.ensure_prefixes("acme")[0].created
    assert manager.read_markers("acme")[marker.uri]["tenant"] == "acme"
    assert list(manager.read_markers("beta").values()) == [None]


def test_an_id_that_differs_in_case_only_is_refused(tenants, session):
    session.bootstrap("acme")
    with pytest.raises(InvalidIdentifierError, match="only in case"):
        session.bootstrap("ACME")
    with pytest.raises(InvalidIdentifierError, match="only in case"):
        tenants.bootstrapper.bootstrap_client("Acme", tenants.config)
    assert session.tenants() == ["acme"]


def test_a_prefix_that_is_marked_as_anothers_is_refused(tenants, session):
    session.storage.ensure_prefixes("acme")
    path = tenants.folder / "warehouse/tenants/acme/.catalog-bootstrap"
    path.write_text(path.read_text().replace('"acme"', '"ACME"'))
    with pytest.raises(InvalidIdentifierError, match="only in case"):
        session.bootstrap("acme")
    path.write_text("garbage")
    with pytest.raises(ConfigurationError, match="does not belong to tenant"):
        session.bootstrap("acme")


def test_a_namespace_at_another_place_is_refused(session):
    session.manager.create_namespace("tenants.acme", {"location": "file:///elsewhere"})
    with pytest.raises(ConfigurationError, match="elsewhere"):
        session.bootstrap("acme")


def test_a_namespace_without_a_location_gets_one(session):
    session.manager.create_namespace("tenants.acme.bronze")
    result = session.bootstrap("acme")
    assert session.manager.namespaces.properties("tenants.acme")["location"] == result.warehouse_uri


def test_a_tenant_writes_and_reads(session):
    session.bootstrap("acme")
    rows = pa.Table.from_pylist([{"id": "1", "kind": "order", "created_at": datetime(2026, 1, 1).astimezone()}])
    session.manager.append("tenants.acme.main", rows)
    assert session.manager.scan("tenants.acme.main").num_rows == 1
    assert verify_tenant(session, "acme").ok
