"""Cached metadata belongs to the catalog: callers change only their own copy, and a dropped table is forgotten."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_testing.embedded_tables import local_path

NAME = "bronze.orders"


@pytest.fixture
def catalog(plugin):
    plugin.create_namespace("bronze")
    plugin.create_table(NAME, pa.schema([("id", pa.int64())]), properties={"owner": "x"})
    plugin.catalog.load_table(NAME).append(pa.table({"id": [1]}))
    return plugin.catalog


def spoil(table):
    table.properties["spoilt"] = "yes"
    table.properties.pop("owner")
    for part in ("snapshots", "snapshot_log", "metadata_log", "refs", "schemas", "partition_specs", "sort_orders"):
        getattr(table.metadata, part).clear()


def require_unspoilt(table, *, rows):
    assert table.properties["owner"] == "x"
    assert "spoilt" not in table.properties
    assert len(table.metadata.snapshots) == len(table.metadata.snapshot_log) == rows
    assert table.scan().to_arrow().num_rows == rows


def test_changes_to_a_loaded_table_do_not_reach_other_loads_or_commits(catalog):
    spoil(catalog.load_table(NAME))
    table = catalog.load_table(NAME)
    require_unspoilt(table, rows=1)
    table.append(pa.table({"id": [2]}))
    require_unspoilt(catalog.load_table(NAME), rows=2)


def test_changes_to_a_committed_table_do_not_reach_loads(catalog):
    table = catalog.load_table(NAME)
    table.append(pa.table({"id": [2]}))
    spoil(table)
    require_unspoilt(catalog.load_table(NAME), rows=2)


def test_a_commit_is_based_on_the_metadata_file_and_not_on_the_caller_s_copy(catalog):
    table = catalog.load_table(NAME)
    table.properties["spoilt"] = "yes"
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "x"})
        transaction.set_properties({"other": "y"})
    assert "spoilt" not in catalog.load_table(NAME).properties


def reload_by_dropping(catalog, location):
    catalog.drop_table(NAME)
    catalog.register_table(NAME, location)


def reload_by_renaming(catalog, location):
    catalog.rename_table(NAME, "bronze.other")
    catalog.register_table(NAME, location)


@pytest.mark.parametrize("again", [reload_by_dropping, reload_by_renaming], ids=["dropped", "renamed"])
def test_a_table_registered_again_is_read_again(catalog, again):
    location = catalog.load_table(NAME).metadata_location
    path = local_path(location)
    path.write_text(path.read_text(encoding="utf-8").replace('"owner":"x"', '"owner":"by hand"'), encoding="utf-8")
    again(catalog, location)
    assert catalog.load_table(NAME).properties["owner"] == "by hand"
