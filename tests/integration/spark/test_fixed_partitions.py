"""Tables partitioned by a fixed type: only Spark can read their manifests, and they are not reported as damaged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from floe_core.errors import CapabilityError
from floe_testing.embedded_tables import files_of

pytestmark = pytest.mark.spark
pytest_plugins = ["floe_testing.oracles.two_engines"]

NAME = "n.t"
ROWS = pa.table({"id": [9], "p": pa.array([b"abcd"], pa.binary(4))})
IN_PROCESS = {
    "scan": lambda m: m.scan(NAME),
    "incremental scan": lambda m: m.incremental_scan(NAME),
    "append": lambda m: m.append(NAME, ROWS, engine="arrow"),
    "upsert": lambda m: m.upsert(NAME, ROWS, keys=["id"], engine="arrow"),
    "delete": lambda m: m.delete(NAME, "id = 1", engine="arrow"),
    "overwrite": lambda m: m.overwrite(NAME, ROWS, engine="arrow"),
    "overwrite partitions": lambda m: m.overwrite_partitions(NAME, ROWS, engine="arrow"),
    "compact": lambda m: m.compact_table(NAME, engine="arrow"),
    "rewrite manifests": lambda m: m.rewrite_manifests(NAME, engine="arrow"),
    "expire": lambda m: m.expire_snapshots(NAME, older_than_days=0, retain_last=1, engine="arrow"),
    "sweep": lambda m: m.sweep_orphans(NAME, engine="arrow", dry_run=False),
    "files": lambda m: m.files(NAME),
    "partitions": lambda m: m.partitions(NAME),
    "health": lambda m: m.table_health(NAME),
    "purge": lambda m: m.drop_table(NAME, purge=True),
}


@pytest.fixture
def fixed(two_engines):
    """A table partitioned by a fixed column, whose three rows Iceberg's Java wrote."""
    two_engines.manager.create_table(NAME, ROWS.schema)
    with two_engines.manager.load_table(NAME).update_spec() as update:
        update.add_identity("p")
    for number, value in ((1, "61626364"), (2, "FFFFFFFF"), (3, "00000000")):
        two_engines.sql(f"INSERT INTO floe.{NAME} SELECT {number}L, X'{value}'")
    return two_engines


def ids(engines):
    return sorted(row["id"] for row in engines.sql(f"SELECT id FROM floe.{NAME}"))


def test_in_process_each_operation_is_refused_and_changes_nothing(fixed):
    table = fixed.manager.load_table(NAME)
    files = files_of(table)
    for name, act in IN_PROCESS.items():
        with pytest.raises(CapabilityError, match=r"'p'.* type fixed\[4\]") as refused:
            act(fixed.manager)
        assert "Spark" in refused.value.hint or "spark" in refused.value.hint, name
    metadata = fixed.manager.load_table(NAME).metadata
    assert metadata.current_snapshot_id == table.metadata.current_snapshot_id
    assert set(files) <= set(files_of(table))
    assert [path for path in files_of(table, ".parquet") if path not in files] == []
    assert ids(fixed) == [1, 2, 3]


def test_spark_goes_on(fixed):
    manager = fixed.manager
    manager.append(NAME, ROWS, engine="spark")
    manager.delete(NAME, "id = 1", engine="spark")
    manager.upsert(NAME, pa.table({"id": [2], "p": pa.array([b"abcd"], pa.binary(4))}), keys=["id"], engine="spark")
    assert ids(fixed) == [2, 3, 9]
    assert {bytes(row["p"]) for row in manager.frame(NAME, row_filter="id = 2").collect()} == {b"abcd"}
    manager.compact_table(NAME, engine="spark")
    manager.expire_snapshots(NAME, older_than_days=0, retain_last=1, engine="spark")
    assert ids(fixed) == [2, 3, 9]
