"""Parquet files imported by ``add_files``: floe reads the same rows as Spark, and writes to the table."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from floe_audit import Rule, Snapshots
from floe_core.errors import CapabilityError
from floe_testing.audit import assert_audited
from floe_testing.embedded_tables import files_of

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

NAME = "n.t"
COLUMNS = "id bigint, ts timestamp, amount decimal(9,2), tags array<struct<k: string, v: int>>, r struct<a: int>"
PARTITIONS = "day date NOT NULL, region string"
ROWS = """SELECT id, timestamp'1000-01-01 00:00:00' + make_dt_interval(id * 99999) AS ts,
  cast(id as decimal(9,2)) AS amount,
  if(id % 3 = 0, null, array(named_struct('k', 'x', 'v', cast(id as int)))) AS tags,
  if(id % 2 = 0, null, named_struct('a', cast(id as int), 'extra', 'not a column')) AS r, 'not a column' AS also,
  date_add(date'1969-12-30', cast(id % 4 as int)) AS day, if(id % 5 = 0, null, concat('r/', id % 2)) AS region
  FROM range(1, 13)"""


FILTERS = [
    "day < '1970-01-01'",
    "region = 'r/1'",
    "region is null",
    "ts < '1600-01-01 00:00:00+00:00'",
    "ts > '2500-01-01 00:00:00+00:00'",
    "r.a = 3",
]


@pytest.fixture
def imported(two_engines):
    """Spark's default files: INT96 timestamps, partition columns in the path only, columns the table does not have."""
    spark, place = two_engines.session, f"{two_engines.root}/plain"
    spark.sql(ROWS).repartition(1).write.partitionBy("day", "region").parquet(f"file://{place}")
    spark.sql(f"CREATE TABLE floe.{NAME} ({COLUMNS}, {PARTITIONS}) USING iceberg PARTITIONED BY (day, region)")
    spark.sql(f"CALL floe.system.add_files(table => '{NAME}', source_table => '`parquet`.`file://{place}`')")
    spark.sql(f"INSERT INTO floe.{NAME} SELECT id + 100, ts, amount, tags, struct(r.a), day, region FROM floe.{NAME}")
    return two_engines


def same_rows(engines, where="true"):
    text = "cast(id as string), cast(ts as string), amount, to_json(tags), to_json(r), cast(day as string), region"
    by_spark = engines.session.sql(f"SELECT * FROM floe.{NAME} WHERE {where}")
    read = engines.manager.scan(NAME, row_filter=None if where == "true" else where)
    found = engines.session.createDataFrame(read).selectExpr(*text.split(", ")).collect()
    wanted = by_spark.selectExpr(*text.split(", ")).collect()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    return len(wanted)


def test_floe_reads_and_changes_imported_files_as_spark_does(imported):
    manager = imported.manager
    assert same_rows(imported) == 24
    for where in FILTERS:
        assert 0 < same_rows(imported, where) < 24
    manager.delete(NAME, "amount in (3, 4) and id < 100", engine="arrow")
    assert same_rows(imported) == 22
    changed = manager.scan(NAME, row_filter="id in (5, 105)")
    doubled = pc.multiply(changed["amount"], 2).cast(changed["amount"].type)
    manager.upsert(NAME, changed.set_column(2, "amount", doubled), keys=["id"], engine="arrow")
    assert same_rows(imported) == 22
    assert same_rows(imported, "amount = 10") == 4
    manager.compact_table(NAME, engine="arrow")
    assert same_rows(imported) == 22
    # Java's import counts no bytes in its snapshot, so all later totals lack them.
    assert_audited(manager, NAME, snapshots=Snapshots.CURRENT, except_for=[Rule.SUMMARY_TOTAL])


def test_without_a_mapping_only_spark_goes_on(imported):
    manager = imported.manager
    imported.sql(f"ALTER TABLE floe.{NAME} UNSET TBLPROPERTIES ('schema.name-mapping.default')")
    table = manager.load_table(NAME)
    files = files_of(table)
    for act in (
        lambda: manager.scan(NAME),
        lambda: manager.delete(NAME, "amount = 3", engine="arrow"),
        lambda: manager.upsert(NAME, pa.table({"id": [3], "day": [date(1970, 1, 1)]}), keys=["id"], engine="arrow"),
    ):
        with pytest.raises(CapabilityError, match="has no field ids"):
            act()
    assert files_of(table) == files
    count = imported.sql(f"SELECT count(*) AS n FROM floe.{NAME} WHERE id = 3")[0]["n"]
    manager.delete(NAME, "id = 3", engine="spark")
    assert count == 1
    assert imported.sql(f"SELECT count(*) AS n FROM floe.{NAME} WHERE id = 3")[0]["n"] == 0
