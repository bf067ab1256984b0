"""Namespaces on the embedded catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from floe_core.errors import InvalidIdentifierError, NamespaceNotEmptyError, NamespaceNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces, parse_namespace

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.mark.req("FR-007")
def test_a_namespace_keeps_the_properties_it_was_created_with(namespaces):
    assert namespaces.create("bronze", {"owner": "ingest", "größe": "klein"})
    assert namespaces.properties("bronze") == {"owner": "ingest", "größe": "klein"}


@pytest.mark.req("FR-007", "FR-015")
def test_creating_twice_leaves_the_first_as_it_is(namespaces):
    namespaces.create("bronze", {"owner": "first"})
    assert not namespaces.create("bronze", {"owner": "second"})
    assert namespaces.properties("bronze") == {"owner": "first"}


@pytest.mark.req("FR-010")
def test_parents_are_created_along(namespaces):
    namespaces.create("bronze.raw.events", {"owner": "ingest"})
    assert namespaces.tree() == ["bronze", "bronze.raw", "bronze.raw.events"]
    assert namespaces.properties("bronze.raw") == {}


def test_a_parent_outlives_its_last_child(namespaces):
    namespaces.create("bronze.raw")
    namespaces.delete("bronze.raw")
    assert namespaces.tree() == ["bronze"]


@pytest.mark.req("FR-008")
def test_namespaces_are_listed_at_every_level(namespaces):
    for name in ("bronze.raw.events", "bronze.clean", "silver", "bronze_extra.raw"):
        namespaces.create(name)
    assert namespaces.list_below() == ["bronze", "bronze_extra", "silver"]
    assert namespaces.list_below("bronze") == ["bronze.clean", "bronze.raw"]
    assert namespaces.list_below(("bronze", "raw")) == ["bronze.raw.events"]
    assert namespaces.list_below("silver") == []


@pytest.mark.req("FR-010")
def test_text_and_tuple_name_the_same_namespace(namespaces):
    namespaces.create(("bronze", "raw"))
    assert namespaces.exists("bronze.raw")
    assert not namespaces.create("bronze.raw")


def test_case_makes_a_difference(namespaces):
    namespaces.create("bronze.raw")
    assert not namespaces.exists("BRONZE")
    assert namespaces.create("BRONZE")
    assert namespaces.list_below() == ["BRONZE", "bronze"]


@pytest.mark.parametrize("wildcard", ["bron_e", "bron%", "%", "_"])
def test_wildcards_are_ordinary_characters(namespaces, wildcard):
    namespaces.create("bronze.raw")
    assert not namespaces.exists(wildcard)
    assert namespaces.create(wildcard)
    assert namespaces.list_below(wildcard) == []


@pytest.mark.req("FR-011")
def test_properties_are_set_and_removed(namespaces):
    namespaces.create("bronze", {"owner": "a", "tier": "1"})
    after = namespaces.update_properties("bronze", updates={"owner": "b"}, removals=["tier", "never-set"])
    assert after == {"owner": "b"} == namespaces.properties("bronze")


@pytest.mark.req("FR-011")
def test_a_namespace_without_its_last_property_is_still_there(namespaces):
    namespaces.create("bronze", {"owner": "a"})
    assert namespaces.update_properties("bronze", removals=["owner"]) == {}
    assert namespaces.exists("bronze")


def test_the_row_that_keeps_a_namespace_alive_cannot_be_removed(plugin, namespaces):
    namespaces.create("bronze")
    plugin.catalog.update_namespace_properties("bronze", removals={"exists"}, updates={})
    assert namespaces.exists("bronze")


def test_a_property_set_and_removed_at_once_is_refused(namespaces):
    namespaces.create("bronze")
    with pytest.raises(InvalidIdentifierError, match="both set and removed: owner"):
        namespaces.update_properties("bronze", updates={"owner": "x"}, removals=["owner"])


@pytest.mark.req("FR-009")
def test_an_empty_namespace_is_deleted(namespaces):
    namespaces.create("bronze", {"owner": "a"})
    namespaces.delete("bronze")
    assert namespaces.list_below() == []


@pytest.mark.req("FR-009")
def test_a_namespace_with_tables_is_kept_and_the_tables_are_named(plugin, namespaces):
    namespaces.create("bronze.raw")
    plugin.create_table("bronze.orders", SCHEMA)
    with pytest.raises(NamespaceNotEmptyError, match=r"namespace bronze\.raw, table bronze\.orders"):
        namespaces.delete("bronze")
    assert plugin.list_tables("bronze") == ["orders"]


@pytest.mark.req("FR-009")
def test_the_catalog_itself_refuses_to_drop_a_parent(plugin, namespaces):
    from pyiceberg.exceptions import NamespaceNotEmptyError as PyIcebergNotEmptyError

    namespaces.create("bronze.raw")
    with pytest.raises(PyIcebergNotEmptyError):
        plugin.catalog.drop_namespace("bronze")


def test_a_missing_namespace_is_answered_with_those_there_are(namespaces):
    namespaces.create("bronze")
    namespaces.create("silver")
    with pytest.raises(NamespaceNotFoundError) as caught:
        namespaces.properties("bronce")
    assert "Namespace 'bronce' not found in catalog 'floe'." in str(caught.value)
    assert "Did you mean 'bronze'? Existing namespaces: bronze, silver." in str(caught.value)


def test_a_missing_child_is_answered_with_its_siblings(namespaces):
    namespaces.create("bronze.raw")
    for call in (namespaces.delete, namespaces.list_below, namespaces.update_properties):
        with pytest.raises(NamespaceNotFoundError, match=r"Existing namespaces: bronze\.raw\."):
            call("bronze.unknown")


def test_an_empty_catalog_says_so(namespaces):
    with pytest.raises(NamespaceNotFoundError, match="has no namespaces"):
        namespaces.delete("bronze")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        " a",
        "a .b",
        "a\x00b",
        "a\nb",
        "a/b",
        "a\\b",
        "..",
        ("a.b",),
        (),
        ("",),
        ("a", "\u202eb"),
    ],
    ids=repr,
)
def test_names_that_cannot_be_are_refused_before_the_catalog_is_asked(namespaces, name):
    with pytest.raises(InvalidIdentifierError):
        namespaces.create(name)
    assert namespaces.list_below() == []


@pytest.mark.parametrize("name", ["a", "a b", "größe.日本", "it's", 'quo"te', "semi;colon", "-- x", "a" * 200])
def test_unusual_names_live_a_whole_life(plugin, namespaces, name):
    namespaces.create(name, {"k": "v"})
    assert namespaces.properties(name) == {"k": "v"}
    plugin.create_table(f"{name}.t", SCHEMA)
    assert plugin.list_tables(name) == ["t"]
    plugin.drop_table(f"{name}.t")
    namespaces.delete(name)
    assert not namespaces.exists(name)


def test_parsing_gives_the_parts():
    assert parse_namespace("bronze.raw") == ("bronze", "raw") == parse_namespace(("bronze", "raw"))


@pytest.mark.req("FR-038")
def test_every_operation_is_a_span(plugin):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    namespaces = Namespaces(plugin.catalog, tracer=provider.get_tracer("test"))
    namespaces.create("bronze", {"owner": "x", "password": "CANARY"})
    namespaces.update_properties("bronze", updates={"tier": "1"}, removals=["owner"])
    namespaces.list_below()
    namespaces.properties("bronze")
    namespaces.delete("bronze")
    with pytest.raises(NamespaceNotFoundError):
        namespaces.delete("bronze")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "iceberg.create_namespace",
        "iceberg.update_namespace_properties",
        "iceberg.list_namespaces",
        "iceberg.load_namespace_properties",
        "iceberg.delete_namespace",
        "iceberg.delete_namespace",
    ]
    assert spans[0].attributes["iceberg.namespace"] == "bronze"
    assert spans[0].attributes["iceberg.properties"] == ("owner", "password")
    assert spans[-1].status.status_code is StatusCode.ERROR
    assert "CANARY" not in str([dict(span.attributes) for span in spans])
