"""Table metadata shared by the threads of a process."""

from __future__ import annotations

import pyarrow as pa

from floe_iceberg import IcebergTableManager, SchemaChange, SchemaChangeKind
from floe_testing.embedded_tables import open_catalog

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("tags", pa.list_(pa.string())),
        ("more", pa.struct([("a", pa.map_(pa.string(), pa.int32()))])),
    ]
)


def shared(schema):
    """List all that copying a schema walks over."""
    nested = [schema.find_type("tags"), schema.find_type("more.a")]
    return [sorted(vars(part)) for part in (schema, *nested)]


def test_looking_at_a_schema_does_not_change_what_another_thread_may_be_copying(tmp_path):
    manager = IcebergTableManager(open_catalog(tmp_path))
    manager.create_table("bronze.t", SCHEMA)
    change = SchemaChange(kind=SchemaChangeKind.ADD, column="late", type="int")
    manager.evolve_schema("bronze.t", [change])
    again = IcebergTableManager(open_catalog(tmp_path))
    for reader in (manager, again):
        metadata = reader.load_table("bronze.t").metadata
        again_loaded = reader.load_table("bronze.t").metadata.schemas
        assert all(one is other for one, other in zip(again_loaded, metadata.schemas, strict=True))
        before = [shared(schema) for schema in metadata.schemas]
        for schema in metadata.schemas:
            schema.find_field("ID", case_sensitive=False)
            schema.accessor_for_field(1)
            schema.find_column_name(1)
            assert schema.name_mapping.root
            assert schema.column_names
        reader.scan("bronze.t", row_filter="more.a is null")
        assert [shared(schema) for schema in metadata.schemas] == before
