"""Compilation of floe.yaml is deterministic, and its artifacts can be loaded again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

from floe_core.compile import compile_project, write_artifacts
from floe_core.errors import ConfigurationError, PluginLoadError, SchemaVersionError
from floe_core.plugins import PluginType
from floe_core.plugins.host.discovery import PluginInfo
from floe_core.schemas import CompiledArtifacts

if TYPE_CHECKING:
    from pathlib import Path

PROJECT = """\
name: shop
governance:
  enterprise: {snapshot_retention_days: 30, reason: policy 7}
  product: {legal_hold_days: 90}
tables:
  bronze.orders: {retention: {snapshot_days: 14}}
  bronze.items: {}
environments:
  prod: {catalog: {name: lake}}
"""


def project(folder: Path, text: str = PROJECT) -> Path:
    path = folder / "floe.yaml"
    path.write_text(text, encoding="utf-8")
    return path


class Options(BaseModel):
    port: int
    secret: str = ""


class SectionModel(BaseModel):
    uri: str
    warehouse: str


@dataclass
class Plugin:
    schema: type[BaseModel] | None = None

    def get_config_schema(self) -> type[BaseModel] | None:
        return self.schema


@dataclass
class Installed:
    """A registry of one catalog plugin."""

    plugin: Plugin | None = field(default_factory=Plugin)

    def list(self):
        return [PluginInfo(PluginType.CATALOG, "mine", distribution="mine", distribution_version="2.1.0")]

    def get(self, plugin_type, name, /):
        if plugin_type is not PluginType.CATALOG or self.plugin is None:
            msg = "it does not load"
            raise PluginLoadError(msg, plugin=name)
        return self.plugin


@pytest.mark.req("FR-034", "RD-06")
def test_a_project_compiles_with_versions_retention_and_fingerprint(tmp_path):
    artifacts = compile_project(project(tmp_path))
    assert artifacts.name == "shop"
    assert artifacts.floe_version == version("floe-lakehouse")
    assert artifacts.plugins["floe.catalogs:sql"] == version("floe-lakehouse")
    assert artifacts.retention["bronze.orders"].snapshot_days == 90
    assert any("policy 7" in line for line in artifacts.retention["bronze.items"].derivation)
    assert len(artifacts.fingerprint) == 64
    assert artifacts.project_root == tmp_path.resolve()
    assert artifacts.environment is None


def test_compiling_again_writes_the_same_bytes(tmp_path):
    path = project(tmp_path)
    first = write_artifacts(compile_project(path)).read_bytes()
    assert write_artifacts(compile_project(path)).read_bytes() == first
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert write_artifacts(compile_project(project(elsewhere))).read_bytes() == first
    assert compile_project(elsewhere) == compile_project(path)


def test_a_change_changes_the_fingerprint(tmp_path):
    base = compile_project(project(tmp_path))
    prod = compile_project(tmp_path, environment="prod")
    assert base.fingerprint != prod.fingerprint
    assert (prod.environment, prod.catalog.name) == ("prod", "lake")
    assert base != prod


@pytest.mark.req("API-14", "FR-034")
def test_artifacts_are_read_back_as_they_were(tmp_path):
    artifacts = compile_project(project(tmp_path), environment="prod")
    path = write_artifacts(artifacts)
    assert path == tmp_path.resolve() / ".floe" / "compiled_artifacts.json"
    loaded = CompiledArtifacts.from_json_file(path)
    assert loaded == artifacts
    assert hash(loaded) == hash(artifacts)
    assert loaded.content_digest() == loaded.fingerprint
    assert loaded.project_root == tmp_path.resolve()
    assert list(path.parent.iterdir()) == [path]


def test_equal_content_is_equal_wherever_the_project_lies(tmp_path):
    artifacts = compile_project(project(tmp_path))
    assert artifacts.rooted_at(tmp_path / "other") == artifacts
    assert artifacts != "artifacts"


def test_artifacts_are_readable_by_others(tmp_path):
    mask = os.umask(0o022)
    try:
        path = write_artifacts(compile_project(project(tmp_path)), tmp_path / "out" / "a.json")
    finally:
        os.umask(mask)
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="Cannot write"):
        write_artifacts(compile_project(project(tmp_path)), tmp_path / "file" / "a.json")


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        ("{", ConfigurationError, "not a JSON file"),
        ("[1]", ConfigurationError, "does not contain compiled artifacts"),
        ("[" * 200_000, ConfigurationError, "not a JSON file"),
        ("\x00\x01", ConfigurationError, "not a JSON file"),
        ('{"schema_version": 2}', SchemaVersionError, "Upgrade floe"),
        ('{"schema_version": 0}', SchemaVersionError, "floe compile"),
        ('{"schema_version": true}', SchemaVersionError, "floe compile"),
        ("{}", SchemaVersionError, "floe compile"),
        ('{"schema_version": 1, "name": 5}', ConfigurationError, "name: Input should be a valid string"),
    ],
)
def test_damaged_artifacts_say_to_compile_again(tmp_path, content, error, message):
    path = tmp_path / "a.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(error, match=message):
        CompiledArtifacts.from_json_file(path)


def test_missing_artifacts_say_to_compile(tmp_path):
    with pytest.raises(ConfigurationError, match="floe compile"):
        CompiledArtifacts.from_json_file(tmp_path / "none.json")
    with pytest.raises(ConfigurationError, match="Cannot read"):
        CompiledArtifacts.from_json_file(tmp_path)


@pytest.mark.req("FR-036")
def test_options_are_checked_by_the_plugins_own_model(tmp_path):
    text = "name: a\ncatalog:\n  type: mine\n  options: {prot: 5}\n"
    with pytest.raises(ConfigurationError) as caught:
        compile_project(project(tmp_path, text), registry=Installed(Plugin(Options)))
    (problem,) = caught.value.problems
    assert (problem.line, problem.path) == (4, "catalog.options.port")
    assert "the key 'port' is missing in catalog.options" in problem.message


def test_an_option_from_the_environment_is_checked_when_it_is_known(tmp_path):
    text = "name: a\ncatalog:\n  type: mine\n  options: {port: '${PORT}', secret: '${S}'}\n"
    artifacts = compile_project(
        project(tmp_path, text), registry=Installed(Plugin(Options)), environ={"PORT": "x", "S": "y"}
    )
    assert artifacts.plugins == {"floe.catalogs:mine": "2.1.0"}


@pytest.mark.parametrize("plugin", [Plugin(), Plugin(SectionModel), None], ids=["no model", "section model", "broken"])
def test_a_plugin_without_a_model_of_options_accepts_any(tmp_path, plugin):
    text = "name: a\ncatalog: {type: mine, options: {x: 1}}\n"
    assert compile_project(project(tmp_path, text), registry=Installed(plugin)).catalog.options == {"x": "1"}


def test_a_plugin_that_nobody_offers_is_refused_where_it_is_written(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        compile_project(project(tmp_path, "name: a\ncatalog: {type: mien}\n"), registry=Installed())
    assert "did you mean 'mine'?" in caught.value.problems[0].message


def test_a_default_plugin_that_is_not_installed_does_not_stop_compiling(tmp_path):
    artifacts = compile_project(project(tmp_path, "name: a\n"), registry=Installed())
    assert artifacts.plugins == {}


def test_artifacts_are_json_without_surprises(tmp_path):
    content = json.loads(write_artifacts(compile_project(project(tmp_path))).read_text(encoding="utf-8"))
    assert content["schema_version"] == 1
    assert content["catalog"]["credentials"]["scope"] == "PRINCIPAL_ROLE:ALL"
    assert "environments" not in content
