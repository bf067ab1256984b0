"""``floe tables audit``."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from floe_core.compile import compile_project
from floe_iceberg import IcebergTableManager

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})


@pytest.fixture
def manager(shop):
    with IcebergTableManager.from_artifacts(compile_project(Path.cwd())) as manager:
        manager.create_namespace("bronze")
        for name in ("bronze.orders", "bronze.items"):
            manager.create_table(name, ROWS.schema)
            manager.append(name, ROWS)
        yield manager


def path_of(location: str) -> Path:
    return Path(urlsplit(location).path)


def test_a_table_that_agrees_with_its_files_passes(shop, manager):
    run = shop("tables", "audit", "bronze.orders")
    assert run.code == 0
    assert "no breaches" in run.out
    data = shop("tables", "audit", "bronze.orders", "-o", "json").data["tables"]["bronze.orders"]
    assert data["ok"]
    assert (data["depth"], data["checked"]["rows"], data["checked"]["data_files"]) == ("values", 3, 1)
    assert list(data["live_rows"].values()) == [3]


def test_every_table_of_the_catalog_is_audited(shop, manager):
    data = shop("tables", "audit", "--all", "--depth", "metadata", "--current-only", "-o", "json").data
    assert sorted(data["tables"]) == ["bronze.items", "bronze.orders"]
    assert {one["checked"]["rows"] for one in data["tables"].values()} == {0}


def test_a_damaged_table_is_described_and_exits_as_a_system_failure(shop, manager):
    manifest = path_of(manager.load_table("bronze.orders").current_snapshot().manifest_list)
    content = bytearray(manifest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    manifest.write_bytes(content)
    run = shop("tables", "audit", "--all")
    assert run.code == 2
    assert str(manifest) in run.out
    assert "bronze.orders:" in run.out
    assert "2 tables audited: 1 failed." in run.out


@pytest.mark.parametrize("damage", ["{", ""])
def test_a_table_that_no_longer_loads_is_still_audited(shop, manager, damage):
    metadata = path_of(manager.load_table("bronze.orders").metadata_location)
    metadata.write_text(damage)
    run = shop("tables", "audit", "bronze.orders", "-o", "json")
    assert run.code == 2
    (breach,) = run.data["tables"]["bronze.orders"]["breaches"]
    assert breach["rule"] == "file.unreadable"
    assert breach["file"].endswith(metadata.name)


def test_an_older_metadata_file_can_be_audited(shop, manager):
    first = manager.load_table("bronze.orders").metadata_location
    manager.append("bronze.orders", ROWS)
    data = shop("tables", "audit", "--metadata", first, "-o", "json").data["tables"][first]
    assert data["ok"]
    assert data["checked"]["snapshots"] == 1


def test_one_thing_to_audit_is_asked_for(shop, manager):
    assert shop("tables", "audit").code == 1
    assert shop("tables", "audit", "bronze.orders", "--all").code == 1


def test_a_missing_table_is_named(shop, manager):
    run = shop("tables", "audit", "bronze.nothing")
    assert run.code == 1
    assert "bronze.nothing" in run.err
