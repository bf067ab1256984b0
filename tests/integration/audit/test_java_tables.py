"""Tables written by Iceberg's Java library: the auditor must not report any breach."""

from __future__ import annotations

import pytest

from floe_audit import AuditDepth
from floe_testing.audit import assert_audited

pytestmark = pytest.mark.spark

COLUMNS = """id BIGINT NOT NULL, name STRING, n INT, d DATE, ts TIMESTAMP, tn TIMESTAMP_NTZ, f DOUBLE, g FLOAT,
    dec DECIMAL(20, 4), b BINARY, ok BOOLEAN, st STRUCT<x: INT, y: STRUCT<z: STRING>>, li ARRAY<STRING>,
    ls ARRAY<STRUCT<p: INT>>, mp MAP<STRING, INT>"""


def rows(start: int, end: int) -> str:
    """Return a query for rows with nulls, NaN, both zeros, dates before 1970 and every kind of nesting."""
    return f"""SELECT id,
        CASE WHEN id % 7 = 0 THEN NULL
             ELSE concat('name-', repeat(chr(CAST(97 + id % 20 AS INT)), 30), id) END,
        CAST(id % 50 - 25 AS INT), date_add(DATE'1969-12-20', CAST(id % 3 AS INT)),
        timestamp_micros(id * 25200000000 - 100000000000), CAST(timestamp_micros(id * 36000000) AS TIMESTAMP_NTZ),
        CASE WHEN id % 5 = 0 THEN double('NaN') WHEN id % 5 = 1 THEN -0.0D ELSE 1.5D END,
        CASE WHEN id % 11 = 0 THEN float('NaN') WHEN id % 2 = 1 THEN -0.0F ELSE CAST(id AS FLOAT) END,
        CAST(id * 1.25 - 10 AS DECIMAL(20, 4)), CAST(concat('bin', id, repeat('x', 20)) AS BINARY), id % 2 = 0,
        CASE WHEN id % 4 = 0 THEN NULL ELSE named_struct('x', CAST(id AS INT), 'y',
             CASE WHEN id % 3 = 0 THEN NULL ELSE named_struct('z', CAST(id AS STRING)) END) END,
        CASE WHEN id % 3 = 0 THEN NULL WHEN id % 3 = 1 THEN array() ELSE array('a', NULL, 'b') END,
        CASE WHEN id % 3 = 0 THEN NULL WHEN id % 3 = 1 THEN array() ELSE array(named_struct('p', 1), NULL) END,
        CASE WHEN id % 3 = 0 THEN NULL ELSE map('k', CAST(id AS INT), 'l', NULL) END
        FROM range({start}, {end}) ORDER BY id"""


FLAT, HASHED, PLAIN = "", "bucket(2, id), truncate(1, name), years(ts)", "d, truncate(100, n), f"


@pytest.mark.parametrize(
    ("version", "partitioning"),
    [
        (2, PLAIN),
        (3, HASHED),
        *(
            pytest.param(version, partitioning, marks=pytest.mark.live)
            for version, partitioning in (
                (1, FLAT),
                (1, HASHED),
                (1, PLAIN),
                (2, FLAT),
                (2, HASHED),
                (3, FLAT),
                (3, PLAIN),
            )
        ),
    ],
)
def test_a_table_of_java_has_no_breach(spark_tables, version, partitioning):
    sql = spark_tables.plane.session.sql
    spark_tables.catalog.create_namespace("db")
    modes = (
        ""
        if version == 1
        else "".join(f", 'write.{kind}.mode'='merge-on-read'" for kind in ("delete", "update", "merge"))
    )
    partitioned = f"PARTITIONED BY ({partitioning})" if partitioning else ""
    sql(
        f"CREATE TABLE floe.db.t ({COLUMNS}) USING iceberg {partitioned} "
        f"TBLPROPERTIES ('format-version'='{version}'{modes})"
    )
    for statement in (
        f"INSERT INTO floe.db.t {rows(0, 20)}",
        "DELETE FROM floe.db.t WHERE id IN (3, 4)",
        "UPDATE floe.db.t SET n = 1000 WHERE id IN (5, 12)",
        "ALTER TABLE floe.db.t ADD COLUMN extra INT",
        "ALTER TABLE floe.db.t ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE floe.db.t WRITE ORDERED BY id DESC, f",
        f"INSERT INTO floe.db.t SELECT *, 7 FROM ({rows(60, 66)})",
        "ALTER TABLE floe.db.t ADD PARTITION FIELD bucket(3, n)",
        f"INSERT INTO floe.db.t SELECT *, 7 FROM ({rows(90, 93)})",
        "CALL floe.system.rewrite_manifests('db.t')",
        "ALTER TABLE floe.db.t CREATE TAG keep",
        "CALL floe.system.compute_table_stats(table => 'db.t')",
        "CALL floe.system.compute_partition_stats(table => 'db.t')",
        "CALL floe.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))",
        "DELETE FROM floe.db.t WHERE id < 2",
    ):
        sql(statement).collect()
    table = spark_tables.catalog.load_table("db.t")
    report = assert_audited(table)
    assert report.depth is AuditDepth.VALUES
    counted = sql("SELECT count(*) FROM floe.db.t").collect()[0][0]
    assert report.live_rows[table.current_snapshot().snapshot_id] == counted == 25
    assert report.checked.statistics_files == 2
