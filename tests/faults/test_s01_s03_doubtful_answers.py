"""S01 to S03 on the embedded catalog: lost replies, false conflicts and errors of transactions."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException

from floe_catalogs.sql.rows import TableRows
from floe_core.errors import CatalogConnectionError, FloeStorageError, StorageFullError
from floe_iceberg import CommitStateUnknownError
from floe_testing.faults.database_faults import LANDED, RETRIED, DatabaseFault

pytestmark = pytest.mark.req("TM-14", "TM-07")

OPERATIONS = {
    "append": lambda manager, **o: manager.append("bronze.t", pa.table({"id": [3]}), **o),
    "overwrite": lambda manager, **o: manager.overwrite("bronze.t", pa.table({"id": [3]}), **o),
    "overwrite_filter": lambda manager, **o: manager.overwrite(
        "bronze.t", pa.table({"id": [3]}), overwrite_filter="id = 2", **o
    ),
    "upsert": lambda manager, **o: manager.upsert("bronze.t", pa.table({"id": [2], "x": [9]}), keys=["id"], **o),
    "delete": lambda manager, **o: manager.delete("bronze.t", "id = 2", **o),
}
EXPECTED = {"append": [1, 2, 3], "overwrite": [3], "overwrite_filter": [1, 3], "upsert": [1, 2], "delete": [1]}
by_name = pytest.mark.parametrize("operation", OPERATIONS)


def called(fault):
    return fault.name.lower()


@pytest.fixture
def table(faulty, database):
    faulty.create_table("bronze.t", pa.schema([("id", pa.int64()), ("x", pa.int64())]))
    faulty.append("bronze.t", pa.table({"id": [1, 2], "x": [1, 2]}))
    return "bronze.t"


def ids(manager):
    return sorted(manager.scan("bronze.t")["id"].to_pylist())


def folder(manager):
    return Path(manager.load_table("bronze.t").location().removeprefix("file://"))


def data_files(manager):
    return {str(path) for path in (folder(manager) / "data").rglob("*.parquet")}


def orphans(manager):
    """List the metadata files that the table does not refer to."""
    table = manager.load_table("bronze.t")
    known = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
    return {path.name for path in folder(manager).rglob("*.metadata.json")} - {
        location.rpartition("/")[2] for location in known
    }


def test_no_load_and_no_commit_of_the_embedded_catalog_takes_pyicebergs_own_path(faulty, table, monkeypatch):
    taken = []
    for method in ("metadata_location", "swap"):
        original = getattr(TableRows, method)

        def counted(self, *args, method=method, original=original):
            taken.append(method)
            return original(self, *args)

        monkeypatch.setattr(TableRows, method, counted)

    def slow_path(*_):
        pytest.fail("PyIceberg's own path was taken")

    for method in ("load_table", "commit_table"):
        monkeypatch.setattr(SqlCatalog, method, slow_path)
    for operation in OPERATIONS.values():
        taken.clear()
        operation(faulty)
        assert taken.count("swap") == 1
        assert taken.count("metadata_location") >= 2


@by_name
@pytest.mark.parametrize("fault", LANDED, ids=called)
def test_s01_s02_a_landed_commit_is_a_success_whatever_the_answer(faulty, database, table, operation, fault):
    database.play([fault])
    before = faulty.get_current_snapshot(table)
    snapshot = OPERATIONS[operation](faulty)
    assert ids(faulty) == EXPECTED[operation]
    assert snapshot.snapshot_id == faulty.get_current_snapshot(table).snapshot_id
    assert snapshot.parent_snapshot_id == before.snapshot_id
    assert database.commits == 1
    assert orphans(faulty) == set()


@by_name
@pytest.mark.parametrize("fault", RETRIED, ids=called)
def test_s02_a_commit_that_was_refused_is_tried_again_and_keeps_every_file(faulty, database, table, operation, fault):
    database.play([fault, fault, DatabaseFault.LANDED_LOST])
    OPERATIONS[operation](faulty)
    assert ids(faulty) == EXPECTED[operation]
    assert database.commits == 3
    live = {task.file.file_path.removeprefix("file://") for task in faulty.load_table(table).scan().plan_files()}
    assert live <= data_files(faulty)


@by_name
def test_s03_an_unknown_outcome_is_an_error_that_keeps_the_files_and_can_be_repeated(
    faulty, database, table, operation
):
    files = data_files(faulty)
    database.play([DatabaseFault.LOST])
    with pytest.raises(CommitStateUnknownError) as caught:
        OPERATIONS[operation](faulty, operation_id="op-1")
    assert caught.value.operation_id == "op-1"
    assert "op-1" in str(caught.value)
    assert ids(faulty) == [1, 2]
    if operation != "delete":
        assert data_files(faulty) > files
    for _ in range(2):
        OPERATIONS[operation](faulty, operation_id="op-1")
    assert ids(faulty) == EXPECTED[operation]
    assert len(faulty.list_snapshots(table)) == 2


REFUSED = {DatabaseFault.FULL: StorageFullError, DatabaseFault.UNREACHABLE: CatalogConnectionError}


@by_name
@pytest.mark.parametrize("fault", REFUSED, ids=called)
def test_s03_s12_a_commit_that_cannot_have_landed_is_a_plain_error_and_leaves_nothing(
    faulty, database, table, operation, fault
):
    before = sorted(folder(faulty).rglob("*"))
    database.play([fault])
    with pytest.raises(REFUSED[fault]) as caught:
        OPERATIONS[operation](faulty)
    assert not isinstance(caught.value, CommitStateUnknownError)
    assert sorted(folder(faulty).rglob("*")) == before
    assert ids(faulty) == [1, 2]


def test_s04_a_lost_race_leaves_no_metadata_file_behind(faulty, database, table):
    database.play([DatabaseFault.BUSY] * 3)
    faulty.append(table, pa.table({"id": [3]}))
    assert ids(faulty) == [1, 2, 3]
    assert orphans(faulty) == set()


def test_s01_a_lost_reply_to_a_schema_change_is_settled_by_a_look(faulty, database, table):
    from floe_iceberg import SchemaChange, SchemaChangeKind

    database.play([DatabaseFault.LANDED_LOST])
    change = SchemaChange(kind=SchemaChangeKind.ADD, column="note", type="string")
    assert "note" in faulty.evolve_schema(table, [change]).column_names
    assert len(faulty.load_table(table).schemas()) == 2


def test_s01_a_rollback_whose_reply_was_lost_does_not_undo_later_commits(faulty, table, monkeypatch):
    first = faulty.get_current_snapshot(table).snapshot_id
    faulty.append(table, pa.table({"id": [13], "x": [13]}))
    commit = faulty.catalog.commit_table

    def lose_the_reply(*request):
        monkeypatch.undo()
        commit(*request)
        faulty.append(table, pa.table({"id": [3], "x": [3]}))
        raise CommitStateUnknownException

    monkeypatch.setattr(faulty.catalog, "commit_table", lose_the_reply)
    assert faulty.rollback(table, first).snapshot_id == first
    assert ids(faulty) == [1, 2, 3]


@pytest.mark.filterwarnings("ignore:Parquet writer option:UserWarning")  # PyIceberg supports fewer properties
def test_s02_pyicebergs_own_append_through_the_managers_catalog_is_safe_too(faulty, database, table):
    loaded = faulty.load_table(table)
    database.play([DatabaseFault.LANDED_LOST])
    loaded.append(pa.table({"id": [3], "x": [3]}))
    assert ids(faulty) == [1, 2, 3]
    assert database.commits == 1


def test_s03_a_load_that_fails_is_floes_error(faulty, database, table, monkeypatch):
    engine = faulty.catalog.inner.engine

    broken = Mock(side_effect=sqlite3.OperationalError("disk I/O error"))

    monkeypatch.setattr(engine.dialect, "do_execute", broken)
    with pytest.raises(FloeStorageError):
        faulty.scan(table)
