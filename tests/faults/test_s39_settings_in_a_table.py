"""S39: client settings that a tenant sets in table properties have no effect on the administrator's client."""

from __future__ import annotations

import pyarrow as pa
import pytest

HOSTILE = {
    "py-io-impl": "no_such_module.OpensFiles",
    "s3.endpoint": "http://127.0.0.1:9",
    "s3.access-key-id": "somebody",
    "s3.proxy-uri": "http://127.0.0.1:9",
    "client.region": "nowhere",
    "token": "a-token",
    "write.py-location-provider.impl": "no_such_module.NamesFiles",
}
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def table(manager, name):
    """Give a table whose properties speak to whoever opens it."""
    manager.create_table(name, ROWS.schema)
    with manager.load_table(name).transaction() as change:
        change.set_properties(HOSTILE)
    return name


def test_s39_a_tables_properties_set_nothing_of_the_client(manager, table):
    loaded = manager.load_table(table)
    assert HOSTILE.items() <= dict(loaded.properties).items()
    assert not [key for key, value in HOSTILE.items() if loaded.io.properties.get(key) == value]


def test_s39_a_table_with_settings_of_the_client_is_written_read_and_maintained(manager, table):
    manager.append(table, ROWS)
    manager.upsert(table, ROWS.slice(1), keys=["id"])
    manager.compact_table(table)
    manager.expire_snapshots(table, older_than=0)
    assert sorted(manager.scan(table).to_pydict()["id"]) == [1, 2, 3]
