"""``floe namespaces`` on the embedded catalog."""

from __future__ import annotations

import pytest


@pytest.mark.req("FR-007", "FR-010")
def test_create_makes_missing_parents_and_keeps_properties(shop):
    run = shop("namespaces", "create", "bronze.raw", "--property", "owner=sales", "-o", "json")
    place = {"environment": None, "catalog": "sql:floe"}
    assert run.json == {"ok": True, **place, "data": {"namespace": "bronze.raw", "created": True}}
    assert shop("namespaces", "create", "bronze.raw", "-o", "json").data["created"] is False
    assert shop("namespaces", "show", "bronze.raw", "-o", "json").data == {
        "namespace": "bronze.raw",
        "properties": {"owner": "sales"},
        "namespaces": [],
        "tables": [],
    }


@pytest.mark.req("FR-008")
def test_list_shows_every_level(shop):
    assert "floe namespaces create" in shop("namespaces", "list").out
    shop("namespaces", "create", "bronze.raw")
    assert shop("namespaces", "list", "-o", "json").data == ["bronze", "bronze.raw"]
    assert shop("namespaces", "list", "bronze", "-o", "json").data == ["bronze.raw"]


@pytest.mark.req("FR-011")
def test_set_and_remove_properties(shop):
    shop("namespaces", "create", "bronze", "--property", "a=1", "--property", "b=2")
    run = shop("namespaces", "set", "bronze", "--property", "c=x=y", "--remove", "a", "-o", "json")
    assert run.data == {"namespace": "bronze", "properties": {"b": "2", "c": "x=y"}}
    assert shop("namespaces", "set", "bronze").code == 1
    assert shop("namespaces", "set", "bronze", "--property", "nonsense").code == 1


@pytest.mark.req("FR-009")
def test_delete_wants_a_yes_and_an_empty_namespace(shop):
    shop("namespaces", "create", "bronze.raw")
    assert "contains bronze.raw" in shop("namespaces", "delete", "bronze", "--dry-run").out
    assert shop("namespaces", "delete", "bronze", "--yes").code == 1
    refused = shop("namespaces", "delete", "bronze.raw")
    assert refused.code == 1
    assert "--yes" in refused.err
    assert shop("namespaces", "delete", "bronze.raw", "--dry-run", "-o", "json").data["deleted"] is False
    assert shop("namespaces", "delete", "bronze.raw", "--yes", "-o", "json").data["deleted"] is True
    assert shop("namespaces", "list", "-o", "json").data == ["bronze"]


def test_an_unknown_namespace_is_a_user_error(shop):
    run = shop("namespaces", "show", "nope", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "NamespaceNotFoundError"
