"""Environments override parts of the base configuration; missing keys have defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from floe_core.config import load_project

if TYPE_CHECKING:
    from pathlib import Path

    from floe_core.schemas import ProjectConfig

PROJECT = """\
schema_version: 1
name: shop
catalog:
  name: lake
  retry: {max_attempts: 5}
  options: {a: base, b: base}
tables:
  bronze.orders:
    columns: [{name: id, type: long}]
    properties: {write.format.default: parquet}
  bronze.items:
environments:
  dev:
  prod:
    catalog:
      type: rest
      uri: https://catalog.example
      retry: {jitter_seconds: 0}
      options: {b: prod, a: null}
    tables:
      bronze.orders:
        columns: [{name: id, type: long}, {name: total, type: double}]
      gold.revenue: {}
"""


def load(folder: Path, text: str, environment: str | None = None) -> ProjectConfig:
    path = folder / "floe.yaml"
    path.write_text(text, encoding="utf-8")
    return load_project(path, environment=environment, environ={})


@pytest.mark.req("SC-009")
def test_an_environment_changes_what_it_names_and_nothing_else(tmp_path):
    prod = load(tmp_path, PROJECT, "prod")
    assert (prod.catalog.type, prod.catalog.name, prod.catalog.uri) == ("rest", "lake", "https://catalog.example")
    assert (prod.catalog.retry.max_attempts, prod.catalog.retry.jitter_seconds) == (5, 0)
    assert prod.catalog.options == {"b": "prod"}
    assert list(prod.tables) == ["bronze.orders", "bronze.items", "gold.revenue"]
    assert [column.name for column in prod.tables["bronze.orders"].columns] == ["id", "total"]
    assert prod.tables["bronze.orders"].properties == {"write.format.default": "parquet"}


@pytest.mark.req("SC-009")
@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("catalog", "uri", "https://catalog.example"),
        ("storage", "bucket", "other-lake"),
        ("compute", "master", "spark://cluster:7077"),
    ],
)
def test_each_of_catalog_store_and_cluster_is_an_environments_to_change(tmp_path, section, key, value):
    base = "schema_version: 1\nname: shop\n"
    base += "storage:\n  type: s3\n  bucket: lake\ncatalog:\n  type: rest\n  uri: https://a\n"
    text = f"{base}environments:\n  prod:\n    {section}:\n      {key}: {value}\n"
    assert getattr(getattr(load(tmp_path, text, "prod"), section), key) == value
    assert getattr(getattr(load(tmp_path, text), section), key) != value


def test_the_base_and_an_empty_environment_are_the_same(tmp_path):
    base = load(tmp_path, PROJECT)
    assert load(tmp_path, PROJECT, "dev") == base
    assert (base.catalog.type, base.catalog.options) == ("sql", {"a": "base", "b": "base"})


def test_three_lines_give_the_embedded_stack(tmp_path):
    project = load(tmp_path, "schema_version: 1\nname: shop\ndescription: three lines\n")
    assert (project.catalog.type, project.storage.type, project.compute.type) == ("sql", "local", "spark")
    assert (project.storage.root, project.compute.master) == (".floe/warehouse", "local[*]")


def test_empty_sections_stand_for_their_defaults(tmp_path):
    text = "name: shop\ncatalog:\nstorage: ~\ntables:\nenvironments:\ngovernance: {domain: }\n"
    assert load(tmp_path, text) == load(tmp_path, "name: shop\n")


def test_settings_that_are_handed_on_stay_as_they_are_written(tmp_path):
    text = """\
name: shop
compute: {conf: {version: 1.10, big: 1e3, flag: True, hex: 0x1F, empty: "", date: 2026-01-05, no: no}}
tables: {a.b: {properties: {commit.retry.num-retries: 4}}}
"""
    project = load(tmp_path, text)
    assert project.compute.conf == {
        "version": "1.10",
        "big": "1e3",
        "flag": "true",
        "hex": "0x1F",
        "empty": "",
        "date": "2026-01-05",
        "no": "no",
    }
    assert project.tables["a.b"].properties == {"commit.retry.num-retries": "4"}


def test_anchors_and_merge_keys_work(tmp_path):
    text = """\
name: shop
tables:
  a.one: &defaults
    retention: &days {snapshot_days: 30}
    properties: {x: "1"}
  a.two: {<<: *defaults, description: second}
  a.three: {<<: [{keys: [id]}, *defaults], retention: {snapshot_days: 5}}
  a.four: {retention: *days}
"""
    tables = load(tmp_path, text).tables
    assert [table.retention.snapshot_days for table in tables.values()] == [30, 30, 5, 30]
    assert tables["a.two"].description == "second"
    assert tables["a.three"].keys == ("id",)


@pytest.mark.parametrize(
    "text",
    [
        "version: 0\nname: shop\nwarehouse: lake\ncatalog: {name: x}\n",
        "schema_version: 0\nname: shop\nwarehouse: lake\ncatalog: {name: x}\n",
    ],
)
def test_a_file_of_version_0_loads_and_says_what_to_change(tmp_path, text):
    with capture_logs() as logs:
        project = load(tmp_path, text)
    assert (project.schema_version, project.catalog.warehouse, project.catalog.name) == (1, "lake", "x")
    (entry,) = logs
    assert entry["log_level"] == "warning"
    assert "move 'warehouse' under 'catalog'" in entry["change"]
    assert "schema_version: 1" in entry["change"]


def test_a_file_of_version_0_needs_no_catalog_section(tmp_path):
    assert load(tmp_path, "version: 0\nname: shop\nwarehouse: lake\n").catalog.warehouse == "lake"
    assert load(tmp_path, "version: 0\nname: shop\nwarehouse: lake\ncatalog:\n").catalog.warehouse == "lake"
