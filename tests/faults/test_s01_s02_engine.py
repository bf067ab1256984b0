"""S01, S02 and S28 on Spark: lost replies, and concurrent changes of main."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from floe_core.errors import InvalidDataError
from floe_iceberg import Engine, IcebergTableManager, IcebergTableManagerConfig, WriteMode

pytestmark = [pytest.mark.spark, pytest.mark.req("TM-14", "TM-07")]

SCHEMA = pa.schema([("id", pa.int64()), ("x", pa.int64())])


class Interrupted:
    """A plane that does something after, or instead of, each write."""

    def __init__(self, plane, after):
        self._plane = plane
        self._after = list(after)
        self.writes = 0

    def __getattr__(self, name):
        return getattr(self._plane, name)

    def write(self, request):
        self.writes += 1
        self._plane.write(request)
        if self._after:
            self._after.pop(0)(request)


def lose_the_reply(_request):
    msg = "the driver is gone"
    raise RuntimeError(msg)


@pytest.fixture
def managers(spark_tables):
    def open_(*after):
        plane = Interrupted(spark_tables.plane, after)
        config = IcebergTableManagerConfig(engine=Engine.SPARK, commit_timeout_seconds=60)
        return IcebergTableManager(spark_tables.catalog, compute=plane, config=config), plane

    plain = IcebergTableManager(spark_tables.catalog)
    plain.create_namespace("bronze")
    plain.create_table("bronze.t", SCHEMA)
    plain.append("bronze.t", pa.table({"id": [1, 2], "x": [0, 0]}))
    return plain, open_


def rows(manager):
    return {row["id"]: row["x"] for row in manager.scan("bronze.t").to_pylist()}


def test_s01_a_write_that_landed_before_the_driver_died_is_found(managers):
    plain, open_ = managers
    manager, plane = open_(lose_the_reply)
    manager.append("bronze.t", pa.table({"id": [3], "x": [3]}))
    assert rows(plain) == {1: 0, 2: 0, 3: 3}
    assert plane.writes == 1


def test_s01_a_merge_that_landed_on_its_branch_is_published(managers):
    plain, open_ = managers
    manager, plane = open_(lose_the_reply)
    manager.upsert("bronze.t", pa.table({"id": [2, 3], "x": [5, 5]}), keys=["id"])
    assert rows(plain) == {1: 0, 2: 5, 3: 5}
    assert plane.writes == 1
    assert [ref.name for ref in plain.list_refs("bronze.t")] == ["main"]


def test_s02_a_merge_is_redone_when_main_moved_meanwhile(managers):
    plain, open_ = managers
    manager, plane = open_(lambda _: plain.upsert("bronze.t", pa.table({"id": [1], "x": [7]}), keys=["id"]))
    manager.upsert("bronze.t", pa.table({"id": [2], "x": [5]}), keys=["id"])
    assert rows(plain) == {1: 7, 2: 5}
    assert plane.writes == 2
    assert [ref.name for ref in plain.list_refs("bronze.t")] == ["main"]
    # Leftovers of the lost race are not a version of the table.
    assert len(plain.list_snapshots("bronze.t")) == 3


def test_s02_a_merge_whose_files_were_deleted_never_reaches_main(managers):
    plain, open_ = managers

    def delete_new_files(_request):
        table = plain.load_table("bronze.t")
        (branch,) = [name for name in table.metadata.refs if name != "main"]
        for task in table.scan(snapshot_id=table.metadata.refs[branch].snapshot_id).plan_files():
            path = Path(task.file.file_path.removeprefix("file:").replace("//", "/"))
            if "floe" not in path.name and task.file.file_path not in live:
                path.unlink()

    live = {task.file.file_path for task in plain.load_table("bronze.t").scan().plan_files()}
    manager, plane = open_(delete_new_files)
    manager.upsert("bronze.t", pa.table({"id": [2], "x": [5]}), keys=["id"])
    assert rows(plain) == {1: 0, 2: 5}
    assert plane.writes == 2


def test_s02_a_failed_write_leaves_main_alone_and_no_branch(managers):
    plain, open_ = managers
    manager, _ = open_()
    with pytest.raises(InvalidDataError, match="several rows"):
        manager.write_data(
            "bronze.t", pa.table({"id": [9, 9], "x": [1, 2]}), WriteMode.UPSERT, keys=["id"], engine=Engine.SPARK
        )
    assert rows(plain) == {1: 0, 2: 0}
    assert [ref.name for ref in plain.list_refs("bronze.t")] == ["main"]


def test_a_pyspark_frame_is_written_without_naming_the_engine(managers, spark_tables):
    plain, _ = managers
    manager = IcebergTableManager(spark_tables.catalog, compute=spark_tables.plane)
    frame = spark_tables.plane.session.createDataFrame([(5, 50)], "id long, x long")
    manager.append("bronze.t", frame)
    manager.upsert("bronze.t", frame.selectExpr("id", "x + 1 as x"), keys=["id"])
    assert rows(plain)[5] == 51
