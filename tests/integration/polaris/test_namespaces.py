"""Namespaces over REST: created with their parents, listed at any level, deleted only if empty."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyiceberg.exceptions import NamespaceAlreadyExistsError

from floe_core.errors import CatalogRequestError, NamespaceNotEmptyError, NamespaceNotFoundError
from floe_iceberg.catalog.namespaces import Namespaces
from floe_testing.faults.gateway import Reply, Rule


@pytest.fixture
def catalog(connect):
    return connect()


@pytest.mark.req("FR-007")
def test_a_namespace_is_created_with_its_properties(catalog, namespace):
    assert catalog.namespaces.create(namespace, {"owner": "sales"})
    assert catalog.namespaces.properties(namespace)["owner"] == "sales"


@pytest.mark.req("RD-04", "FR-038")
def test_creating_a_namespace_is_a_span_of_the_catalog(catalog, namespace):
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Namespaces(catalog, tracer=provider.get_tracer("test")).create(namespace, {"owner": "sales"})
    spans = {span.name: span for span in exporter.get_finished_spans()}
    made = spans["polaris.create_namespace"]
    assert made.attributes["iceberg.namespace"] == namespace
    assert made.attributes["iceberg.properties"] == ("owner",)
    assert made.parent.span_id == spans["iceberg.create_namespace"].context.span_id
    calls = [span for span in exporter.get_finished_spans() if span.name == "polaris.request"]
    assert ("POST", 200) in {(call.attributes["iceberg.method"], call.attributes["iceberg.status"]) for call in calls}


def test_creating_a_namespace_again_is_success_and_changes_nothing(catalog, namespace):
    catalog.namespaces.create(namespace, {"owner": "sales"})
    assert not catalog.namespaces.create(namespace, {"owner": "nobody"})
    assert catalog.namespaces.properties(namespace)["owner"] == "sales"
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace(namespace)


@pytest.mark.req("FR-008", "FR-010")
@pytest.mark.parametrize("nested", [lambda name: f"{name}.raw.events", lambda name: (name, "raw", "events")])
def test_missing_parents_are_made_and_each_level_is_listed(catalog, namespace, nested):
    catalog.create_namespace(nested(namespace))
    assert namespace in catalog.namespaces.list_below()
    assert catalog.namespaces.list_below(namespace) == [f"{namespace}.raw"]
    assert catalog.namespaces.list_below((namespace, "raw")) == [f"{namespace}.raw.events"]


@pytest.mark.req("FR-009")
def test_a_namespace_with_something_inside_is_kept_and_the_error_names_it(catalog, namespace):
    catalog.create_namespace(f"{namespace}.raw")
    catalog.create_table(f"{namespace}.orders", pa.schema([pa.field("id", pa.int64())]))
    with pytest.raises(NamespaceNotEmptyError, match=rf"namespace {namespace}\.raw, table {namespace}\.orders"):
        catalog.delete_namespace(namespace)
    catalog.drop_table(f"{namespace}.orders")
    catalog.delete_namespace((namespace, "raw"))
    catalog.delete_namespace(namespace)
    assert not catalog.namespace_exists(namespace)


def test_deleting_what_is_not_there_is_a_typed_error(catalog, namespace):
    with pytest.raises(NamespaceNotFoundError, match=namespace):
        catalog.delete_namespace(namespace)


@pytest.mark.req("FR-011")
def test_properties_are_set_and_removed(catalog, namespace):
    catalog.namespaces.create(namespace, {"owner": "sales", "tier": "bronze"})
    after = catalog.namespaces.update_properties(namespace, updates={"owner": "finance"}, removals=["tier", "unset"])
    assert after["owner"] == "finance"
    assert "tier" not in after


def test_what_is_set_and_what_is_removed_go_in_calls_of_their_own(gateway, catalog, namespace):
    # For a call with both, Polaris 1.4.1 executes the first half and answers 409 for the second.
    catalog.namespaces.create(namespace, {"owner": "sales", "tier": "bronze"})
    after = catalog.namespaces.update_properties(namespace, updates={"owner": "finance"}, removals=["tier"])
    assert (after["owner"], "tier" in after) == ("finance", False)
    bodies = [json.loads(item.body) for item in gateway.seen(method="POST", path="/properties$")]
    assert [(bool(body.get("updates")), bool(body.get("removals"))) for body in bodies] == [
        (True, False),
        (False, True),
    ]


@pytest.mark.parametrize(
    "error",
    [
        (400, "IllegalArgumentException", "Namespace n2 has a custom location, which is not enabled"),
        (422, "UnprocessableEntityException", "Unable to process the request"),
    ],
)
def test_a_rejected_namespace_is_an_error_in_the_servers_words(gateway, catalog, namespace, error):
    status, kind, said = error
    content = {"error": {"message": said, "type": kind, "code": status}}
    gateway.add(Rule("POST", "/namespaces$", None, forward=False, reply=Reply.of(status, content)))
    with pytest.raises(CatalogRequestError) as caught:
        catalog.namespaces.create(namespace, {"location": "s3://elsewhere/x"})
    assert caught.value.message == f"The catalog 'polaris' rejected the request on namespace '{namespace}': {said}."
    assert caught.value.exit_code == 1
