"""Tables whose metadata the server cannot read: an error of that table only, not an outage."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CorruptFileError, FloeStorageError
from floe_iceberg import IcebergTableManager
from floe_iceberg.table.recovery import is_broken, likely_locations

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.fixture
def manager(connect, namespace):
    manager = IcebergTableManager(connect())
    manager.create_namespace(namespace)
    for name in ("broken", "sound"):
        manager.create_table(f"{namespace}.{name}", SCHEMA)
    return manager


def test_a_broken_table_is_told_from_a_broken_server_and_can_be_dropped(manager, namespace):
    name = f"{namespace}.broken"
    table = manager.load_table(name)
    table.io.delete(table.metadata_location)
    with pytest.raises(CorruptFileError) as broken:
        manager.load_table(name)
    assert is_broken(broken.value)
    assert broken.value.table == name
    assert likely_locations(manager.context, name, broken.value) == (table.location(),)
    assert manager.load_table(f"{namespace}.sound").name()
    manager.drop_table(name)
    assert manager.list_tables(namespace) == ["sound"]


def test_a_file_that_is_no_metadata_leaves_a_table_that_exists_and_can_be_dropped(manager, gateway, namespace):
    """Polaris names what it could not parse, and no file."""
    name = f"{namespace}.broken"
    said = "Cannot parse missing int: format-version"
    gateway.answer(400, method="GET|HEAD", path="/tables/broken", times=None, message=said)
    with pytest.raises(FloeStorageError, match=said) as broken:
        manager.load_table(name)
    assert is_broken(broken.value)
    assert manager.table_exists(name)
    manager.drop_table(name)
    assert manager.list_tables(namespace) == ["sound"]


def test_what_polaris_says_of_one_file_is_neither_tried_again_nor_held_against_the_server(manager, gateway, namespace):
    """It answers 503, to HEAD without a body, as if it were down."""
    name, said = f"{namespace}.broken", "Failed to read file: s3://lake/n1/t1/metadata/00001-65d4e615.metadata.json"
    gateway.answer(503, method="GET|HEAD", path="/tables/broken", times=None, message=said)
    for _ in range(6):
        with pytest.raises(CorruptFileError, match="corrupted, missing or not accessible to the server"):
            manager.load_table(name)
        assert manager.table_exists(name)
    assert len(gateway.seen(method="HEAD", path="/tables/broken")) == 6
    assert len(gateway.seen(method="GET", path="/tables/broken")) == 12
    assert manager.load_table(f"{namespace}.sound").name()
    manager.drop_table(name)
    assert manager.list_tables(namespace) == ["sound"]
