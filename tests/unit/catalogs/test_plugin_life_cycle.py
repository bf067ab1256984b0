"""A project starts its plugins, checks their health, and stops them in reverse order."""

from __future__ import annotations

import threading
from typing import ClassVar

import pytest
from pydantic import BaseModel, SecretStr

from floe_catalogs.sql import SqlCatalogPlugin
from floe_core.errors import PluginLoadError, PluginNotFoundError, PluginTimeoutError, SecretReferenceError
from floe_core.plugins import (
    PLUGIN_API_VERSION,
    HealthState,
    HealthStatus,
    IdentityPlugin,
    PluginRegistry,
    PluginType,
    SecretsPlugin,
)
from floe_core.plugins.host import lifecycle
from floe_core.plugins.host.examination import examine_plugins
from floe_core.schemas import CompiledArtifacts
from floe_iceberg.catalog.connection import open_project
from floe_storage.local import LocalStoragePlugin


def artifacts(root, **sections):
    return CompiledArtifacts.model_validate({"name": "demo", "floe_version": "0", **sections}).rooted_at(root)


class Lives:
    """Writes down what happens to the plugins that share it."""

    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION
    journal: list[str]
    ails = ""

    def note(self, what):
        self.journal.append(f"{what} {self.name}")
        if self.ails == what:
            msg = f"{self.name} would not {what}"
            raise RuntimeError(msg)

    def startup(self):
        self.note("start")

    def shutdown(self):
        self.note("stop")
        super().shutdown()


class Vault(Lives, SecretsPlugin):
    name = "vault"
    secrets: ClassVar = {"lake": "canary7Vn3Kp"}

    def get_secret(self, name):
        self.note("ask")
        found = self.secrets.get(name)
        return SecretStr(found) if found else None


class People(Lives, IdentityPlugin):
    name = "people"


class Catalog(Lives, SqlCatalogPlugin):
    name = "kept"
    dependencies: ClassVar = ["floe.identity:people"]

    def connect(self, config, **options):
        self.note("connect")
        return super().connect(config, **options)

    def health_check(self):
        self.note("health of")
        return super().health_check()


class Disk(Lives, LocalStoragePlugin):
    name = "disk"
    dependencies: ClassVar = ["floe.catalogs:kept"]


@pytest.fixture
def journal():
    return []


@pytest.fixture
def registry(journal):
    registry = PluginRegistry(source=list, startup_seconds=0.5, health_check_seconds=0.5)
    for kind in (Vault, People, Catalog, Disk):
        plugin = kind()
        plugin.journal = journal
        registry.register(plugin)
    return registry


SECTIONS = {"catalog": {"type": "kept"}, "storage": {"type": "disk"}, "vault": {"type": "vault"}}


@pytest.mark.req("PL-02")
def test_a_project_starts_its_plugins_in_order_and_stops_them_in_reverse(registry, journal, tmp_path):
    with open_project(artifacts(tmp_path, **SECTIONS), registry=registry) as project:
        assert journal == ["start vault", "start people", "start kept", "start disk", "connect kept"]
        journal.clear()
        assert {key: status.state for key, status in project.health().items()} == {
            "floe.secrets:vault": HealthState.HEALTHY,
            "floe.identity:people": HealthState.HEALTHY,
            "floe.catalogs:kept": HealthState.HEALTHY,
            "floe.storage:disk": HealthState.HEALTHY,
        }
        assert journal == ["health of kept"]
        journal.clear()
    assert journal == ["stop disk", "stop kept", "stop people", "stop vault"]
    project.close()
    assert len(journal) == 4


@pytest.mark.req("PL-02")
def test_a_plugin_that_does_not_start_is_named_and_the_started_ones_are_stopped(registry, journal, tmp_path):
    registry.get(PluginType.STORAGE, "disk").ails = "start"
    with pytest.raises(PluginLoadError, match="storage:disk failed to start: RuntimeError: disk would not start"):
        open_project(artifacts(tmp_path, **SECTIONS), registry=registry)
    assert journal[-3:] == ["stop kept", "stop people", "stop vault"]
    assert "connect kept" not in journal


def test_a_catalog_that_cannot_be_connected_leaves_no_plugin_running(registry, journal, tmp_path):
    registry.get(PluginType.CATALOG, "kept").ails = "connect"
    with pytest.raises(RuntimeError, match="would not connect"):
        open_project(artifacts(tmp_path, **SECTIONS), registry=registry)
    assert [entry for entry in journal if entry.startswith("stop")] == [
        "stop disk",
        "stop kept",
        "stop people",
        "stop vault",
    ]


@pytest.mark.req("PL-02")
def test_a_start_that_takes_too_long_ends_the_opening(registry, tmp_path):
    held = threading.Event()
    registry.get(PluginType.SECRETS, "vault").startup = held.wait
    with pytest.raises(PluginTimeoutError, match=r"floe\.secrets:vault did not start within 0\.5 s"):
        open_project(artifacts(tmp_path, **SECTIONS), registry=registry)
    held.set()


@pytest.fixture
def held():
    """Holds up whoever calls it, for longer than anybody here waits."""
    event = threading.Event()

    def hold():
        event.wait(10)

    yield hold
    event.set()


@pytest.fixture
def waits(monkeypatch, held):
    """Give the seconds that each plugin would be waited for; one that is held up is given up at once."""
    asked = []
    wait = lifecycle.BackgroundCall.wait

    def soon(call, seconds):
        asked.append(seconds)
        return wait(call, 0.01 if call._action is held else 9)

    monkeypatch.setattr(lifecycle.BackgroundCall, "wait", soon)
    return asked


def usual_registry(journal):
    """Give a registry with the limits that every registry has."""
    registry = PluginRegistry(source=list)
    for kind in (Vault, People, Catalog, Disk):
        plugin = kind()
        plugin.journal = journal
        registry.register(plugin)
    return registry


@pytest.mark.req("PL-02")
def test_a_start_is_waited_for_thirty_seconds(journal, waits, held, tmp_path):
    registry = usual_registry(journal)
    registry.get(PluginType.STORAGE, "disk").startup = held
    with pytest.raises(PluginTimeoutError, match=r"floe\.storage:disk did not start within 30 s"):
        open_project(artifacts(tmp_path, **SECTIONS), registry=registry)
    # Four starts, and the shutdown of the three plugins that had started.
    assert waits == [30.0] * 7
    assert journal[-3:] == ["stop kept", "stop people", "stop vault"]


@pytest.mark.req("PL-02")
def test_a_health_check_is_waited_for_five_seconds(journal, waits, held, tmp_path):
    registry = usual_registry(journal)
    registry.get(PluginType.IDENTITY, "people").health_check = held
    with open_project(artifacts(tmp_path, **SECTIONS), registry=registry) as project:
        waits.clear()
        health = project.health()
        assert waits == [5.0] * 4
    assert health.pop("floe.identity:people") == HealthStatus(
        HealthState.UNHEALTHY,
        "The plugin floe.identity:people did not respond to its health check within 5 s. "
        "Check its logs and the services it connects to.",
    )
    assert {status.state for status in health.values()} == {HealthState.HEALTHY}


@pytest.mark.req("PL-02")
def test_a_plugin_that_does_not_stop_is_waited_for_thirty_seconds(journal, waits, held, tmp_path):
    registry = usual_registry(journal)
    registry.get(PluginType.CATALOG, "kept").shutdown = held
    with open_project(artifacts(tmp_path, **SECTIONS), registry=registry) as project:
        waits.clear()
    assert waits == [30.0] * 4
    assert journal[-3:] == ["stop disk", "stop people", "stop vault"]
    assert project.plugins.started == ()


@pytest.mark.req("PL-02")
def test_the_limits_of_a_registry_are_those_of_its_projects(registry, waits, held, tmp_path):
    registry.get(PluginType.SECRETS, "vault").health_check = held
    with open_project(artifacts(tmp_path, **SECTIONS), registry=registry) as project:
        project.health()
    assert waits == [0.5] * 12


def test_projects_of_one_registry_have_plugins_of_their_own(registry, journal, tmp_path):
    with (
        open_project(artifacts(tmp_path / "a", **SECTIONS), registry=registry) as one,
        open_project(artifacts(tmp_path / "b", **SECTIONS), registry=registry) as two,
    ):
        assert one.catalog_plugin is not two.catalog_plugin
        two.close()
        one.namespaces.create("bronze")
        assert one.health()["floe.catalogs:kept"].state is HealthState.HEALTHY
    assert registry.started == ()


def test_a_plugin_missing_what_it_needs_is_told(journal, tmp_path):
    registry = PluginRegistry(source=list)
    plugin = Catalog()
    plugin.journal = journal
    registry.register(plugin)
    registry.register(LocalStoragePlugin())
    with pytest.raises(PluginNotFoundError, match="people"):
        open_project(artifacts(tmp_path, catalog={"type": "kept"}), registry=registry)


S3 = {
    "type": "s3",
    "bucket": "lake",
    "endpoint": "http://127.0.0.1:9",
    "credentials": {"access_key_id": "id", "secret_access_key": {"secret_ref": "lake"}},
}


@pytest.fixture
def vault(journal):
    registry = PluginRegistry()
    plugin = Vault()
    plugin.journal = journal
    registry.register(plugin)
    return registry


def opened(root, registry, **sections):
    return open_project(artifacts(root, storage=S3, vault={"type": "vault"}, **sections), registry=registry)


def test_a_secret_ref_is_looked_up_by_the_secrets_plugin(vault, tmp_path, capsys):
    with opened(tmp_path, vault) as project:
        assert project.catalog.properties["s3.secret-access-key"] == "canary7Vn3Kp"
        assert "canary7Vn3Kp" not in f"{project!r}{project.artifacts.model_dump_json()}"
    assert "canary7Vn3Kp" not in capsys.readouterr().err


def test_what_the_plugin_does_not_know_is_sought_in_floes_own_places(vault, tmp_path, monkeypatch):
    vault.get(PluginType.SECRETS, "vault").secrets = {}
    with pytest.raises(SecretReferenceError, match="'lake' was not found"):
        opened(tmp_path, vault)
    monkeypatch.setenv("FLOE_SECRET_LAKE", "by-variable")
    with opened(tmp_path, vault) as project:
        assert project.catalog.properties["s3.secret-access-key"] == "by-variable"


def test_a_plugin_that_fails_to_look_up_is_named(vault, journal, tmp_path):
    vault.get(PluginType.SECRETS, "vault").ails = "ask"
    with pytest.raises(SecretReferenceError, match=r"floe\.secrets:vault could not look up the secret 'lake'"):
        opened(tmp_path, vault)
    assert journal[-1] == "stop vault"


def test_a_secrets_plugin_that_is_not_installed_is_named(tmp_path):
    with pytest.raises(PluginNotFoundError, match="No secrets plugin 'vault'"):
        open_project(artifacts(tmp_path, vault={"type": "vault"}))


class Address(BaseModel):
    host: str


class Remote(Lives, SecretsPlugin):
    name = "remote"

    def get_config_schema(self):
        return Address

    def configure(self, config):
        self.note(f"configure {config.host}")


def test_a_secrets_plugin_is_configured_before_it_starts(journal, tmp_path):
    registry = PluginRegistry()
    plugin = Remote()
    plugin.journal = journal
    registry.register(plugin)
    section = {"type": "remote", "options": {"host": "vault.example.com"}}
    with open_project(artifacts(tmp_path, vault=section), registry=registry):
        assert journal == ["configure vault.example.com remote", "start remote"]


class Unwell(Lives, IdentityPlugin):
    name = "unwell"

    def health_check(self):
        return HealthStatus(HealthState.UNHEALTHY, "no answer from the directory")


def test_every_plugin_is_started_asked_and_stopped(registry, journal):
    for kind in (Remote, Unwell):
        plugin = kind()
        plugin.journal = journal
        registry.register(plugin)
    registry.get(PluginType.SECRETS, "vault").ails = "start"
    found = {info.name: info for info in examine_plugins(registry)}
    assert {name: info.status.value for name, info in found.items()} == {
        "kept": "ok",
        "disk": "ok",
        "vault": "failed",
        "remote": "ok",
        "people": "ok",
        "unwell": "failed",
    }
    assert "vault would not start" in found["vault"].reason
    assert found["unwell"].reason == "no answer from the directory"
    assert "not configured" in found["remote"].health.message
    assert found["kept"].health.message == "not connected"
    assert found["people"].unused == "nothing in floe uses plugins of this group yet"
    assert found["vault"].unused == ""
    assert "start remote" not in journal
    assert journal[-4:] == ["stop unwell", "stop disk", "stop kept", "stop people"]
