"""S34: format version 3 over REST: the server changes the metadata, Spark writes the rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError
from floe_iceberg import IcebergTableManager
from floe_testing.embedded_tables import no_engine

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids, name="new"):
    return pa.table({"id": list(ids), "name": [name] * len(ids)}, schema=SCHEMA)


@pytest.mark.spark
def test_s34_version_3_over_rest(connect, spark_over, namespace):
    catalog = connect()
    plane = spark_over(catalog)
    manager = IcebergTableManager(catalog, compute=plane)
    manager.create_namespace(namespace)
    name = f"{namespace}.events"
    assert manager.create_table(name, SCHEMA, properties={"format-version": "3"}).format_version == 3

    def seen():
        query = f"SELECT id, name, _row_id FROM {catalog.name}.{name}"
        return {row[0]: (row[1], row[2]) for row in plane.session.sql(query).collect()}

    first = manager.append(name, rows(1, 2), operation_id="load")
    assert manager.append(name, rows(1, 2), operation_id="load").snapshot_id == first.snapshot_id
    before = seen()
    manager.upsert(name, rows(2, 3, name="upserted"), keys=["id"], operation_id="upsert")
    manager.upsert(name, rows(2, 3, name="upserted"), keys=["id"], operation_id="upsert")
    assert {n: row[0] for n, row in seen().items()} == {1: "new", 2: "upserted", 3: "upserted"}
    assert (seen()[1], seen()[2][1]) == (before[1], before[2][1])
    # Changes that the server makes need no engine.
    alone = IcebergTableManager(catalog)
    object.__setattr__(alone._context, "plane", no_engine)
    alone.create_tag(name, "v1", snapshot_id=first.snapshot_id)
    alone.create_branch(name, "trial")
    alone.remove_branch(name, "trial")
    with pytest.raises(CapabilityError, match="floe"):
        alone.append(name, rows(9))
    assert alone.expire_snapshots(name, older_than_days=0, retain_last=1) == 0
    alone.remove_tag(name, "v1")
    assert alone.expire_snapshots(name, older_than_days=0, retain_last=1) >= 1
    assert manager.compact_table(name).files_after >= 1
    assert {n: row[0] for n, row in seen().items()} == {1: "new", 2: "upserted", 3: "upserted"}
    manager.rollback(name, manager.list_snapshots(name)[-1].snapshot_id)
    assert len(seen()) == 3
