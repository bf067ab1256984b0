"""Creates small tables of each format version, with all kinds of deletes, through Iceberg's Java library."""

from __future__ import annotations

from typing import TYPE_CHECKING

from floe_testing.java.deltas import add_equality_deletes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def build(spark: SparkSession, version: int) -> None:
    """Create ``floe.db.v1``, ``v2`` or ``v3``."""
    name = f"floe.db.v{version}"
    merge_on_read = "" if version == 1 else ", 'write.delete.mode'='merge-on-read'"
    values = "SELECT id, concat('name-', id) AS name, CASE WHEN id = 3 THEN double('NaN') ELSE double(id) END AS f"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT NOT NULL, name STRING, f DOUBLE) USING iceberg PARTITIONED BY (bucket(2, id)) "
        f"TBLPROPERTIES ('format-version'='{version}'{merge_on_read})"
    ).collect()
    statements = [
        f"ALTER TABLE {name} WRITE ORDERED BY id",
        f"INSERT INTO {name} {values} FROM range(0, 10)",
        f"INSERT INTO {name} {values} FROM range(10, 20)",
        f"DELETE FROM {name} WHERE id IN (4, 5, 12)",
        f"ALTER TABLE {name} CREATE TAG keep",
    ]
    for statement in statements:
        spark.sql(statement).collect()
    if version == 2:
        add_equality_deletes(spark, name, ["id"], [[7], [17]])
    for statement in (
        f"INSERT INTO {name} {values} FROM range(20, 24)",
        f"CALL floe.system.compute_table_stats(table => 'db.v{version}')",
        f"CALL floe.system.compute_partition_stats(table => 'db.v{version}')",
        f"CALL floe.system.rewrite_manifests('db.v{version}')",
    ):
        spark.sql(statement).collect()
