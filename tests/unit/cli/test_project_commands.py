"""``floe validate``, ``compile`` and ``schema export``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from floe_core.schemas import CompiledArtifacts

FIVE_MISTAKES = """\
schema_version: 1
name: shop
catalog:
  waerhouse: lake
  credentials:
    client_secret: hunter2
  retry:
    max_attempts: 99
tables:
  bronze.orders:
    columns:
      - {name: id, type: long}
      - {name: id, type: long}
compute:
  master: spork
"""


def with_environments() -> None:
    with Path("floe.yaml").open("a") as stream:
        stream.write("\nenvironments:\n  dev: {storage: {root: dev}}\n  prod: {catalog: {uri: '${NOT_SET_HERE}'}}\n")


@pytest.mark.req("FR-036")
def test_five_mistakes_give_five_located_errors(floe):
    Path("floe.yaml").write_text(FIVE_MISTAKES)
    run = floe("validate")
    assert (run.code, run.out) == (1, "")
    places = [line.strip().split(": ")[0] for line in run.err.splitlines() if line.startswith("  floe.yaml:")]
    assert [place.split(":")[1] for place in places] == ["4", "6", "8", "11", "15"]
    assert "did you mean 'warehouse'?" in run.err
    assert "hunter2" not in run.err
    assert "Traceback" not in run.err


def test_mistakes_have_a_stable_shape(floe):
    Path("floe.yaml").write_text(FIVE_MISTAKES)
    run = floe("validate", "-o", "json")
    assert run.code == 1
    assert run.error["type"] == "ConfigurationError"
    assert len(run.error["problems"]) == 5
    assert all(set(p) == {"message", "file", "line", "column", "path", "fix"} for p in run.error["problems"])


def test_validate(shop):
    run = shop("validate", "-o", "json")
    assert run.code == 0
    assert set(run.data) == {"file", "name", "environment", "tables", "fingerprint", "unused"}
    assert run.data["unused"] == []
    assert run.data["tables"] == ["bronze.orders", "gold.daily_revenue"]
    assert not Path(".floe").exists()


RESILIENCE = "retry: {max_attempts: 3, jitter_seconds: 0}, circuit_breaker: {failure_threshold: 2}"


@pytest.mark.req("FR-006a")
@pytest.mark.parametrize(
    ("catalog", "unused"),
    [
        ("type: sql", []),
        ("type: hive, uri: 'thrift://127.0.0.1:1'", []),
        ("type: glue", ["retry.jitter_seconds", "circuit_breaker.failure_threshold"]),
        ("type: rest, uri: 'http://127.0.0.1:1'", []),
        ("type: polaris, uri: 'http://127.0.0.1:1', warehouse: lake", []),
    ],
    ids=["sql", "hive", "glue", "rest", "polaris"],
)
def test_settings_that_a_catalog_does_not_take_are_named(floe, catalog, unused):
    Path("floe.yaml").write_text(f"name: shop\ncatalog: {{{catalog}, {RESILIENCE}}}\n")
    run = floe("validate")
    assert run.code == 0, run.err
    kind = catalog.partition(",")[0].removeprefix("type: ")
    said = [line for line in run.out.splitlines() if "ignores catalog." in line]
    assert said == [f"The '{kind}' catalog ignores catalog.{key}." for key in unused]


def test_without_a_project_the_way_to_one_is_told(floe):
    run = floe("validate")
    assert run.code == 1
    assert "floe init" in run.err


def test_the_project_is_found_above(shop, monkeypatch):
    Path("sql/reports").mkdir(parents=True)
    monkeypatch.chdir("sql/reports")
    assert shop("validate", "-o", "json").data["file"] == "../../floe.yaml"


@pytest.mark.parametrize("how", ["option", "variable"])
def test_the_project_can_be_named(floe, monkeypatch, how):
    floe("init", "shop")
    if how == "variable":
        monkeypatch.setenv("FLOE_PROJECT", "shop")
        assert floe("validate").code == 0
    else:
        assert floe("validate", "--project", "shop").code == 0
        assert floe("validate", "--project", "shop/floe.yaml").code == 0
        assert floe("validate", "--project", "elsewhere").code == 1


@pytest.mark.req("FR-034")
def test_compile_writes_artifacts(shop):
    run = shop("compile", "-o", "json")
    assert run.code == 0
    assert set(run.data) == {"path", "name", "environment", "fingerprint", "plugins", "tables", "connected"}
    artifacts = CompiledArtifacts.from_json_file(".floe/compiled_artifacts.json")
    assert artifacts.fingerprint == run.data["fingerprint"]
    assert artifacts.name == "shop"


def test_compile_elsewhere(shop):
    assert shop("compile", "--out", "build/artifacts.json").code == 0
    assert json.loads(Path("build/artifacts.json").read_text())["name"] == "shop"


def test_compile_for_an_environment(shop):
    with_environments()
    assert shop("compile", "--env", "dev", "-o", "json").data["environment"] == "dev"
    run = shop("compile", "--env", "staging")
    assert run.code == 1
    assert "Known environments: dev, prod" in run.err


def test_a_missing_variable_is_located_and_can_be_allowed(shop):
    with_environments()
    run = shop("compile", "--env", "prod")
    assert run.code == 1
    assert "NOT_SET_HERE" in run.err
    assert shop("compile", "--env", "prod", "--allow-missing-env").code == 0


@pytest.mark.req("FR-001")
def test_compile_can_prove_the_connection(shop):
    run = shop("compile", "--connect")
    assert run.code == 0
    assert "sql catalog 'floe' responds, 0 namespaces" in run.out
    assert shop("compile", "--connect", "-o", "json").data["connected"] is True


def test_a_connection_that_fails_writes_nothing(shop):
    Path("blocked").write_text("a file, no folder")
    with Path("floe.yaml").open("a") as stream:
        stream.write(f"\ncatalog: {{uri: 'sqlite:///{Path.cwd()}/blocked/catalog.db'}}\n")
    run = shop("compile", "--connect")
    assert run.code in {1, 2}
    assert run.err.startswith("Error: ")
    assert not Path(".floe/compiled_artifacts.json").exists()


def test_artifacts_alone_are_a_project(shop, tmp_path, monkeypatch):
    shop("compile")
    Path("floe.yaml").unlink()
    assert shop("namespaces", "create", "bronze").code == 0
    assert shop("namespaces", "list", "-o", "json").data == ["bronze"]


def test_the_schema_is_printed_or_written(floe):
    printed = floe("schema", "export")
    assert json.loads(printed.out)["title"] == "floe.yaml"
    run = floe("schema", "export", "--out", "editor/floe.schema.json")
    assert "yaml-language-server" in run.out
    assert Path("editor/floe.schema.json").read_text() == printed.out
    assert floe("schema", "export", "-o", "json").data["title"] == "floe.yaml"
