"""Checks fields that only the metadata of format version 1 has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from floe_iceberg import Engine, SchemaChange, SchemaChangeKind

if TYPE_CHECKING:
    from floe_iceberg import IcebergTableManager


def check_version_1_fields(manager: IcebergTableManager, name: str) -> None:
    """Create a table of version 1, change its schema and spec, and check the changes in version 1's own fields."""
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    manager.create_table(name, rows.schema, partition_spec=["p"], properties={"format-version": "1"})
    manager.append(name, rows, engine=Engine.ARROW)
    manager.evolve_schema(name, [SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")])
    with manager.load_table(name).update_spec() as spec:
        spec.add_field("id", "bucket[4]", "id_bucket")
    manager.append(name, rows, engine=Engine.ARROW)
    table = manager.load_table(name)
    with table.io.new_input(table.metadata_location).open() as stream:
        written = json.loads(stream.read())
    assert written["format-version"] == 1
    assert [field["name"] for field in written["schema"]["fields"]] == ["id", "p", "note"]
    assert written["partition-spec"] == written["partition-specs"][-1]["fields"]
