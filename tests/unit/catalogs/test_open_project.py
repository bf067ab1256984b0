"""Opening a compiled project through the registry."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from structlog.testing import capture_logs

from floe_core.declaration.expansion import expand_section
from floe_core.errors import ConfigurationError, PluginNotFoundError, SecretReferenceError
from floe_core.plugins import PLUGIN_API_VERSION, ComputePlugin
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import CatalogConfig, CompiledArtifacts, ComputeConfig, StorageConfig
from floe_iceberg.catalog.connection import open_project
from floe_storage.local import LocalStoragePlugin


def artifacts(root, **sections):
    return CompiledArtifacts.model_validate({"name": "demo", "floe_version": "0.1.0", **sections}).rooted_at(root)


@dataclass
class RecordingPlane:
    closed: int = 0

    def close(self):
        self.closed += 1


@dataclass
class RecordingCompute(ComputePlugin):
    calls: list = field(default_factory=list)
    name = "recording"
    version = "1.0.0"
    floe_api_version = PLUGIN_API_VERSION

    def data_plane(self, config, **arguments):
        self.calls.append((config, arguments))
        return RecordingPlane()


@pytest.mark.req("FR-034", "FR-035", "SC-008")
def test_three_lines_of_configuration_open_the_embedded_stack(tmp_path):
    with open_project(artifacts(tmp_path)) as project:
        project.namespaces.create("bronze")
        table = project.catalog.create_table("bronze.orders", pa.schema([("id", pa.int64())]))
        table.append(pa.table({"id": [1, 2]}))
    with open_project(artifacts(tmp_path)) as project:
        assert project.catalog.load_table("bronze.orders").scan().to_arrow().num_rows == 2
    assert (tmp_path / ".floe/warehouse/bronze/orders/metadata").is_dir()


def test_variables_are_replaced_when_the_project_is_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("LAKE", "lake one")
    compiled = artifacts(tmp_path, storage={"root": "${LAKE}"}, catalog={"uri": "${META:-meta}/catalog.db"})
    with open_project(compiled) as project:
        assert project.catalog.properties["warehouse"] == f"file://{tmp_path}/lake one"
    assert (tmp_path / "meta/catalog.db").is_file()


def test_a_variable_that_is_not_set_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("LAKE", raising=False)
    with pytest.raises(SecretReferenceError, match="LAKE is not set"):
        open_project(artifacts(tmp_path, storage={"root": "${LAKE}"}))


def test_a_value_from_the_environment_is_validated(monkeypatch):
    monkeypatch.setenv("MASTER", "not-a-master")
    with pytest.raises(ConfigurationError) as caught:
        expand_section(ComputeConfig(master="${MASTER}"), path="compute")
    assert caught.value.problems[0].path == "compute.master"


def test_secrets_stay_references_when_a_section_is_expanded(monkeypatch):
    monkeypatch.setenv("KEY", "CANARY")
    section = StorageConfig(
        bucket="${B:-lake}",
        credentials={"access_key_id": "id", "secret_access_key": "${KEY}"},
        options={"a": "${X:-y}"},
    )
    expanded = expand_section(section, path="storage")
    assert expanded.bucket == "lake"
    assert expanded.options == {"a": "y"}
    assert "CANARY" not in expanded.model_dump_json()
    assert expanded.credentials.secret_access_key.env == "KEY"
    assert expand_section(CatalogConfig(), path="catalog") == CatalogConfig()


def test_an_explicit_warehouse_wins_over_the_storage_section(tmp_path):
    with open_project(artifacts(tmp_path, catalog={"warehouse": f"file://{tmp_path}/own"})) as project:
        assert project.catalog.properties["warehouse"] == f"file://{tmp_path}/own"


@pytest.mark.req("PL-07")
def test_without_the_storage_plugin_the_catalog_still_opens_and_the_log_says_so(tmp_path):
    compiled = artifacts(tmp_path, storage={"type": "tape"}, catalog={"warehouse": f"file://{tmp_path}/own"})
    with capture_logs() as logs, open_project(compiled) as project:
        assert project.storage_plugin is None
        project.namespaces.create("bronze")
    [line] = [entry for entry in logs if entry["event"] == "storage_plugin_missing"]
    assert line["storage"] == "tape"


def test_an_unknown_catalog_plugin_is_an_error(tmp_path):
    with pytest.raises(PluginNotFoundError, match="sql"):
        open_project(artifacts(tmp_path, catalog={"type": "squall"}))


@pytest.mark.req("PL-07")
def test_the_engine_opens_once_with_catalog_and_storage_wiring(tmp_path):
    compute = RecordingCompute()
    registry = PluginRegistry()
    registry.register(compute)
    project = open_project(artifacts(tmp_path, compute={"type": "recording"}), registry=registry)
    plane = project.data_plane()
    assert project.data_plane() is plane
    [(config, arguments)] = compute.calls
    assert config.type == "recording"
    assert arguments["catalog_name"] == "floe"
    assert arguments["conf"]["spark.sql.catalog.floe.type"] == "jdbc"
    assert arguments["conf"]["spark.sql.catalog.floe.warehouse"] == f"file://{tmp_path}/.floe/warehouse"
    assert arguments["packages"] == ("org.xerial:sqlite-jdbc:3.53.4.0",)
    assert arguments["catalog"] is project.catalog
    project.close()
    project.close()
    assert plane.closed == 1


def test_two_projects_of_one_registry_stay_apart(tmp_path):
    registry = PluginRegistry()
    with (
        open_project(artifacts(tmp_path / "a"), registry=registry) as one,
        open_project(artifacts(tmp_path / "b"), registry=registry) as two,
    ):
        one.namespaces.create("only_in_one")
        assert two.namespaces.list_below() == []
        assert one.storage_plugin.get_warehouse_uri() == f"file://{tmp_path}/a/.floe/warehouse"


def test_no_secret_shows_in_the_connection(tmp_path, monkeypatch):
    monkeypatch.setenv("KEY", "CANARY")
    storage = {
        "type": "s3",
        "bucket": "lake",
        "endpoint": "http://127.0.0.1:9",
        "credentials": {"access_key_id": "id", "secret_access_key": "${KEY}"},
    }
    with capture_logs() as logs, open_project(artifacts(tmp_path, storage=storage)) as project:
        assert project.catalog.properties["s3.secret-access-key"] == "CANARY"
        assert "CANARY" not in f"{project!r} {project} {logs}"


class Stopping(LocalStoragePlugin):
    """Says when it is stopped."""

    name = "stopping"
    stopped = 0

    def shutdown(self):
        type(self).stopped += 1


def test_an_engine_that_cannot_be_released_does_not_keep_the_plugins_up(tmp_path, monkeypatch):
    monkeypatch.setattr(Stopping, "stopped", 0)
    registry = PluginRegistry()
    registry.register(Stopping())
    project = open_project(artifacts(tmp_path, storage={"type": "stopping"}), registry=registry)
    project._planes.append(type("Stuck", (), {"close": lambda _self: 1 / 0})())
    with pytest.raises(ZeroDivisionError):
        project.close()
    assert Stopping.stopped == 1


AT_THE_END = """
import os, sys
from pathlib import Path
from floe_core.plugins.registry import PluginRegistry
from floe_core.schemas import CompiledArtifacts
from floe_iceberg.catalog.connection import open_project
from floe_storage.local import LocalStoragePlugin

class Loud(LocalStoragePlugin):
    name = "loud"

    def shutdown(self):
        print(f"stopped by {os.getpid() == opener}", flush=True)

opener = os.getpid()
registry = PluginRegistry()
registry.register(Loud())
sections = {"name": "demo", "floe_version": "0.1.0", "storage": {"type": "loud"}}
project = open_project(CompiledArtifacts.model_validate(sections).rooted_at(Path(sys.argv[1])), registry=registry)
if (child := os.fork()) == 0:
    sys.exit()
os.waitpid(child, 0)
"""


@pytest.mark.req("PL-02")
def test_plugins_of_an_open_project_are_stopped_when_its_process_ends(tmp_path):
    # Not from a warm Python: the test covers how the process ends.
    command = [sys.executable, "-c", AT_THE_END, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "stopped by True\n"
