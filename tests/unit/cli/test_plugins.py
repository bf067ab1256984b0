"""``floe plugins``."""

from __future__ import annotations

import pytest

from floe_cli.commands.project.plugins import PluginKind
from floe_core.plugins import PluginType
from floe_storage.local import LocalStoragePlugin


def test_every_plugin_type_can_be_named():
    assert [kind.name for kind in PluginKind] == [kind.name for kind in PluginType]


@pytest.mark.req("PL-03")
def test_list_names_each_plugin_with_its_distribution(floe):
    run = floe("plugins", "list", "-o", "json")
    local = next(plugin for plugin in run.data if (plugin["type"], plugin["name"]) == ("storage", "local"))
    assert local == {
        "type": "storage",
        "group": "floe.storage",
        "name": "local",
        "distribution": "floe-lakehouse",
        "distribution_version": "0.1.0",
        "target": "floe_storage.local:LocalStoragePlugin",
        "status": "available",
        "version": None,
        "api_version": None,
        "description": None,
        "reason": None,
        "health": None,
        "health_message": None,
        "unused": None,
    }
    assert "floe_storage.local:LocalStoragePlugin" in floe("plugins", "list").out


def test_list_one_kind(floe):
    assert {plugin["type"] for plugin in floe("plugins", "list", "--type", "catalog", "-o", "json").data} == {"catalog"}
    dbt = floe("plugins", "list", "--type", "dbt").out
    assert dbt == "No plugins are installed.\n\ndbt: nothing in floe uses plugins of this group yet.\n"


@pytest.mark.req("PL-04")
def test_check_imports_each_plugin(floe):
    run = floe("plugins", "check", "--type", "storage", "-o", "json")
    assert run.code == 0
    assert {plugin["status"] for plugin in run.data} == {"ok"}
    assert "All plugins are usable." in floe("plugins", "check", "--type", "storage").out


@pytest.mark.req("PL-04")
def test_a_plugin_that_cannot_be_imported_is_named(floe, monkeypatch):
    import floe_storage.gcs

    monkeypatch.delattr(floe_storage.gcs, "GcsStoragePlugin")
    run = floe("plugins", "check", "--type", "storage")
    assert run.code == 1
    assert "1 of 4 plugins not usable." in run.out


@pytest.mark.req("PL-02")
def test_check_shows_the_health_of_each_plugin(floe):
    found = {plugin["name"]: plugin for plugin in floe("plugins", "check", "--type", "catalog", "-o", "json").data}
    assert (found["sql"]["status"], found["sql"]["health"]) == ("ok", "degraded")
    assert found["sql"]["health_message"] == "not connected"
    assert "not connected" in floe("plugins", "check", "--type", "catalog").out


@pytest.mark.req("PL-02", "PL-04")
@pytest.mark.parametrize("step", ["startup", "health_check"])
def test_check_names_a_plugin_that_does_not_start_or_is_unwell(floe, monkeypatch, step):
    def fail(_self):
        msg = "the bucket is gone"
        raise RuntimeError(msg)

    monkeypatch.setattr(LocalStoragePlugin, step, fail, raising=False)
    run = floe("plugins", "check", "--type", "storage", "-o", "json")
    assert run.code == 1
    [failed] = [plugin for plugin in run.data if plugin["status"] == "failed"]
    assert failed["name"] == "local"
    assert "the bucket is gone" in failed["reason"]
